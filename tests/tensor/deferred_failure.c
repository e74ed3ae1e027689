/* SPDX-License-Identifier: MIT */
/* tests/tensor/deferred_failure.c: an operator that fails in a capture, in a body that does not ask
 * its tape: the capture fails with it. */
#include "support/grads.h"
#include "support/test.h"
#include <pthread.h>

enum answer {
    IGNORES,
    ASKS_STATUS,
    ASKS_CLEAR,
    DESTROYS,
    READS
};
typedef struct body {
    ph_tape *tape, *second;
    ph_tensor *x, *y, *short_one;
    enum answer answer, second_answer;
    bool no_failure, only_second;
} body;

static void fail_on(ph_tape **tape, const body *b, enum answer answer)
{
    double value;
    ph_tensor_copy(*tape, b->y, ph_add(*tape, b->x, b->short_one));
    if (answer == ASKS_STATUS)
        ph_ignore(ph_tape_status(*tape));
    if (answer == ASKS_CLEAR)
        ph_ignore(ph_tape_clear(*tape));
    if (answer == READS)
        ph_ignore(ph_tensor_item(&value, *tape, b->y));
    if (answer == DESTROYS) {
        ph_tape_destroy(*tape);
        *tape = NULL;
    }
}

static ph_status run(ph_stream *stream, void *user)
{
    body *b = user;
    (void)stream;
    ph_tensor_copy(b->tape, b->y, ph_mul(b->tape, b->x, b->x));
    if (!b->no_failure && !b->only_second)
        fail_on(&b->tape, b, b->answer);
    if (b->second)
        fail_on(&b->second, b, b->second_answer);
    return PH_OK;
}

typedef struct bench {
    t_scene s;
    body b;
    ph_graph *graph;
} bench;

static void open_bench(bench *w)
{
    *w = (bench){.graph = NULL};
    t_scene_open(&w->s);
    assert_ok(ph_tape_create(&w->b.tape, w->s.stream, NULL));
    w->b.x = ph_tensor_retain(ph_full(w->s.tape, PH_DTYPE_F32, PH_SHAPE(4), 3));
    w->b.y = ph_tensor_retain(ph_zeros(w->s.tape, PH_DTYPE_F32, PH_SHAPE(4)));
    w->b.short_one = ph_tensor_retain(ph_zeros(w->s.tape, PH_DTYPE_F32, PH_SHAPE(3)));
    assert_ok(ph_tape_clear(w->s.tape));
    assert_ok(ph_stream_synchronize(w->s.stream));
    assert_ok(ph_graph_create(&w->graph, NULL));
}

static void close_bench(bench *w)
{
    ph_graph_destroy(w->graph);
    ph_tape_destroy(w->b.tape);
    ph_tape_destroy(w->b.second);
    ph_tensor_release(w->b.x);
    ph_tensor_release(w->b.y);
    ph_tensor_release(w->b.short_one);
    t_scene_close(&w->s);
}

static void assert_message(const char *part)
{
    if (!strstr(ph_error_last()->message, part))
        fail_msg("\"%s\" is not in \"%s\"", part, ph_error_last()->message);
}

#define REASON "add: the shapes do not broadcast (got f32[4], f32[3])"
#define assert_refused(w)                                                                          \
    do {                                                                                           \
        assert_error(ph_graph_capture((w)->graph, (w)->s.stream, NULL, run, &(w)->b),              \
                     PH_ERROR_ARGUMENT, "in the capture, and nobody asked its tape: " REASON);     \
        assert_message("return ph_tape_clear(tape)");                                              \
        assert_int_equal(ph_graph_get_state((w)->graph), PH_GRAPH_FAILED);                         \
        assert_error(ph_graph_replay((w)->graph, (w)->s.stream), PH_ERROR_ARGUMENT, REASON);       \
        assert_ok(ph_graph_reset((w)->graph));                                                     \
        assert_false(ph_stream_is_capturing((w)->s.stream));                                       \
    } while (0)

/* The same graph and stream capture again once the tape has been cleared. */
TEST(a_failure_that_nobody_asks_for_fails_the_capture)
{
    bench w;
    open_bench(&w);
    assert_refused(&w);
    t_expect_failure(&(t_scene){.tape = w.b.tape}, PH_ERROR_ARGUMENT, REASON);
    w.b.no_failure = true;
    assert_ok(ph_graph_capture(w.graph, w.s.stream, NULL, run, &w.b));
    assert_ok(ph_graph_replay(w.graph, w.s.stream));
    t_expect(w.s.tape, w.b.y, PH_SHAPE(4), (const float[]){9, 9, 9, 9});
    close_bench(&w);
}

/* Whoever ignores a status has been told. */
TEST(a_failure_that_was_asked_for_leaves_the_capture)
{
    bench w;
    open_bench(&w);
    for (enum answer answer = ASKS_STATUS; answer <= READS; answer++) {
        if (answer == DESTROYS)
            continue;
        w.b.answer = answer;
        assert_ok(ph_graph_capture(w.graph, w.s.stream, NULL, run, &w.b));
        assert_ok(ph_graph_replay(w.graph, w.s.stream));
        t_expect(w.s.tape, w.b.y, PH_SHAPE(4), (const float[]){9, 9, 9, 9});
        assert_ok(ph_graph_reset(w.graph));
        ph_ignore(ph_tape_clear(w.b.tape));
    }
    close_bench(&w);
}

/* A cleared tape is as new: it can fail again in the same capture, and that is not what was
 * asked. */
static ph_status fails_twice(ph_stream *stream, void *user)
{
    body *b = user;
    (void)stream;
    fail_on(&b->tape, b, ASKS_CLEAR);
    fail_on(&b->tape, b, IGNORES);
    return PH_OK;
}

TEST(asked_too_early)
{
    bench w;
    open_bench(&w);
    assert_error(ph_graph_capture(w.graph, w.s.stream, NULL, fails_twice, &w.b), PH_ERROR_ARGUMENT,
                 REASON);
    close_bench(&w);
}

TEST(the_tape_is_gone)
{
    bench w;
    open_bench(&w);
    w.b.answer = DESTROYS;
    assert_refused(&w);
    close_bench(&w);
}

TEST(each_tape_is_asked_for_its_own_failure)
{
    bench w;
    open_bench(&w);
    assert_ok(ph_tape_create(&w.b.second, w.s.stream, NULL));
    w.b.only_second = true;
    assert_refused(&w);
    ph_ignore(ph_tape_clear(w.b.second));
    w.b.only_second = false;
    w.b.answer = ASKS_STATUS; /* the one tells nothing of the other */
    assert_refused(&w);
    ph_ignore(ph_tape_clear(w.b.tape));
    ph_ignore(ph_tape_clear(w.b.second));
    w.b.second_answer = ASKS_CLEAR;
    assert_ok(ph_graph_capture(w.graph, w.s.stream, NULL, run, &w.b));
    close_bench(&w);
}

TEST(an_open_capture_ends_with_the_failure)
{
    bench w;
    open_bench(&w);
    assert_ok(ph_graph_capture_begin(w.graph, w.s.stream, NULL));
    assert_ok(run(w.s.stream, &w.b));
    assert_error(ph_graph_capture_end(w.graph, PH_OK), PH_ERROR_ARGUMENT, REASON);
    assert_ok(ph_graph_reset(w.graph));
    assert_ok(ph_graph_capture_begin(w.graph, w.s.stream, NULL));
    fail_on(&w.b.tape, &w.b, IGNORES);
    assert_error(ph_graph_capture_end(w.graph, ph_tape_clear(w.b.tape)), PH_ERROR_ARGUMENT,
                 "add: the shapes");
    assert_ptr_equal(strstr(ph_error_last()->message, "add: "), ph_error_last()->message);
    close_bench(&w);
}

/* What failed in a capture that was aborted says nothing of the graph's next one. */
TEST(a_failure_goes_with_an_aborted_capture)
{
    bench w;
    open_bench(&w);
    assert_ok(ph_graph_capture_begin(w.graph, w.s.stream, NULL));
    fail_on(&w.b.tape, &w.b, DESTROYS);
    ph_graph_capture_abort(w.graph);
    assert_ok(ph_tape_create(&w.b.tape, w.s.stream, NULL));
    w.b.no_failure = true;
    assert_ok(ph_graph_capture(w.graph, w.s.stream, NULL, run, &w.b));
    close_bench(&w);
}

/* A failure from before the capture: no work of that tape is asked for in it, or some is, and is
 * left out. */
TEST(before_the_capture)
{
    bench w;
    open_bench(&w);
    assert_ok(ph_tape_create(&w.b.second, w.s.stream, NULL));
    assert_null(ph_add(w.b.second, w.b.x, w.b.short_one));
    w.b.no_failure = true;
    ph_tape *other = w.b.second;
    w.b.second = NULL;
    assert_ok(ph_graph_capture(w.graph, w.s.stream, NULL, run, &w.b));
    assert_ok(ph_graph_reset(w.graph));
    w.b.second = other;
    assert_error(ph_graph_capture(w.graph, w.s.stream, NULL, run, &w.b), PH_ERROR_ARGUMENT,
                 "before it");
    assert_message(REASON);
    assert_ok(ph_graph_reset(w.graph));
    ph_ignore(ph_tape_status(other)); /* a report, after which the tape is as failed as before */
    assert_error(ph_graph_capture(w.graph, w.s.stream, NULL, run, &w.b), PH_ERROR_ARGUMENT,
                 "before it");
    assert_ok(ph_graph_reset(w.graph));
    w.b.second = NULL;
    assert_ok(ph_graph_capture(w.graph, w.s.stream, NULL, run, &w.b));
    w.b.second = other;
    close_bench(&w);
}

static ph_status fill_both(ph_stream *stream, void *user)
{
    const body *b = user;
    ph_tensor_fill(b->tape, b->x, 7);
    return ph_memset(ph_tensor_data(b->x), 0, 4, stream);
}

/* The status of the call was looked at, and not that it leaves its tape failed. */
TEST(a_call_that_failed_before_the_capture)
{
    bench w;
    float few[1];
    open_bench(&w);
    assert_error(ph_tensor_read(w.b.tape, w.b.x, few, sizeof few), PH_ERROR_SIZE, "4 bytes");
    assert_error(ph_graph_capture(w.graph, w.s.stream, NULL, fill_both, &w.b), PH_ERROR_SIZE,
                 "operators did nothing in the capture");
    assert_message("ph_tensor_read: 4 bytes");
    ph_ignore(ph_tape_clear(w.b.tape));
    assert_ok(ph_graph_reset(w.graph));
    assert_ok(ph_graph_capture(w.graph, w.s.stream, NULL, fill_both, &w.b));
    close_bench(&w);
}

/* Outside a capture nothing is remembered of it. */
TEST(a_failure_outside_fails_no_capture)
{
    bench w;
    open_bench(&w);
    fail_on(&w.b.tape, &w.b, DESTROYS);
    assert_ok(ph_tape_create(&w.b.tape, w.s.stream, NULL));
    w.b.no_failure = true;
    assert_ok(ph_graph_capture(w.graph, w.s.stream, NULL, run, &w.b));
    close_bench(&w);
}

/* The only thing that would have been captured: the failure is told, and not that nothing was
 * submitted. */
static ph_status nothing_else(ph_stream *stream, void *user)
{
    body *b = user;
    (void)stream;
    fail_on(&b->tape, b, IGNORES);
    return PH_OK;
}

TEST(nothing_was_recorded)
{
    bench w;
    open_bench(&w);
    t_log_start();
    assert_error(ph_graph_capture(w.graph, w.s.stream, NULL, nothing_else, &w.b), PH_ERROR_ARGUMENT,
                 REASON);
    assert_int_equal(t_log_count("the graph is empty"), 0);
    t_log_stop();
    close_bench(&w);
}

/* Without host memory to remember the failure by the graph may come about; nothing else happens. */
TEST(no_host_memory)
{
    bench w;
    open_bench(&w);
    t_log_start();
    size_t refused = 0, failed = 0;
    for (int64_t at = 0; at < 150; at++) {
        ph__alloc_fail_after(at);
        ph_status status = ph_graph_capture(w.graph, w.s.stream, NULL, run, &w.b);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK && status != PH_ERROR_HOST_MEMORY && status != PH_ERROR_ARGUMENT)
            fail_msg("without allocation %lld: %s: %s", (long long)at, ph_status_name(status),
                     ph_error_last()->message);
        refused += status == PH_ERROR_ARGUMENT;
        failed += status == PH_ERROR_HOST_MEMORY;
        ph_ignore(ph_tape_clear(w.b.tape));
        assert_ok(ph_graph_reset(w.graph));
        assert_false(ph_stream_is_capturing(w.s.stream));
    }
    assert_true(refused > 0 && failed > 0);
    assert_refused(&w);
    t_log_stop();
    close_bench(&w);
}

/* ---- threads ---- each with a tape of its own on a stream that has joined the capture. */
enum {
    THREADS = 4
};
typedef struct worker {
    const bench *w;
    ph_stream *stream;
    bool asks;
} worker;

static void *work(void *user)
{
    const worker *one = user;
    ph_tape *tape;
    assert_ok(ph_tape_create(&tape, one->stream, &(ph_tape_options){.no_grad = true}));
    fail_on(&tape, &one->w->b, one->asks ? ASKS_CLEAR : DESTROYS);
    ph_tape_destroy(tape);
    return NULL;
}

static ph_status capture_on_threads(bench *w, bool last_asks)
{
    pthread_t threads[THREADS];
    worker workers[THREADS];
    const ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.w = w, .asks = i + 1 < THREADS || last_asks};
        assert_ok(ph_stream_create(&workers[i].stream, w->s.device, NULL));
    }
    assert_ok(ph_graph_capture_begin(w->graph, w->s.stream, &options));
    for (int i = 0; i < THREADS; i++) {
        assert_ok(ph_stream_wait_stream(workers[i].stream, w->s.stream));
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_ok(ph_stream_wait_stream(w->s.stream, workers[i].stream));
    }
    ph_status status = ph_graph_capture_end(w->graph, PH_OK);
    for (int i = 0; i < THREADS; i++)
        ph_stream_destroy(workers[i].stream);
    return status;
}

TEST(a_failure_on_another_thread_fails_the_capture)
{
    bench w;
    open_bench(&w);
    t_log_start(); /* nothing is in the graph */
    assert_error(capture_on_threads(&w, false), PH_ERROR_ARGUMENT, REASON);
    assert_ok(ph_graph_reset(w.graph));
    assert_ok(capture_on_threads(&w, true));
    t_log_stop();
    close_bench(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failure_that_nobody_asks_for_fails_the_capture),
        cmocka_unit_test(a_failure_that_was_asked_for_leaves_the_capture),
        cmocka_unit_test(asked_too_early),
        cmocka_unit_test(the_tape_is_gone),
        cmocka_unit_test(each_tape_is_asked_for_its_own_failure),
        cmocka_unit_test(an_open_capture_ends_with_the_failure),
        cmocka_unit_test(a_failure_goes_with_an_aborted_capture),
        cmocka_unit_test(before_the_capture),
        cmocka_unit_test(a_call_that_failed_before_the_capture),
        cmocka_unit_test(a_failure_outside_fails_no_capture),
        cmocka_unit_test(nothing_was_recorded),
        cmocka_unit_test(a_failure_on_another_thread_fails_the_capture),
        cmocka_unit_test(no_host_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
