/* SPDX-License-Identifier: MIT */
/* tests/nn/graphed_modes.c: how graphed callables are captured: the capture's mode and what
 * another thread may do meanwhile, the stream, and how many calls come before. */
#include "base/sync.h"
#include "device/handles/device.h"
#include "support/graphed_nets.h"
#include "support/test.h"

/* ---- a module that sees where it runs ---- y = 2 x, by an operator of its own. While one of
 * its passes is captured, it makes a call that is not legal beside a global capture, straight at
 * the driver as a foreign library does: the library's own are refused before they do harm. */
typedef enum pass {
    FORWARD,
    BACKWARD,
    PASSES,
    NEITHER = PASSES
} pass;

enum {
    SEEN = 32
};
typedef struct watcher {
    ph_device *device;
    pass disturbs;     /* in which pass's captures it makes that call */
    bool elsewhere;    /* on another thread */
    int answer, calls; /* of the last such call; how many */
    struct {
        int warm, captured;       /* passes */
        ph_stream *streams[SEEN]; /* of all of them */
        int count;
    } seen[PASSES];
} watcher;

static void *allocate(void *user)
{
    watcher *w = user;
    void *memory = NULL;
    w->answer = w->device->driver->plain_alloc(&memory, w->device->handle, 4096);
    w->calls++;
    if (memory)
        w->answer = w->device->driver->plain_free(w->device->handle, memory);
    return NULL;
}

static void note(watcher *w, ph_tape *tape, pass now)
{
    ph_stream *stream = ph_tape_stream(tape);
    bool captured = ph_stream_is_capturing(stream);
    if (w->seen[now].count < SEEN)
        w->seen[now].streams[w->seen[now].count++] = stream;
    w->seen[now].warm += !captured;
    w->seen[now].captured += captured;
    if (!captured || w->disturbs != now)
        return;
    if (!w->elsewhere) {
        (void)allocate(w);
        return;
    }
    pthread_t thread;
    assert_true(ph__thread_start(&thread, "loader", allocate, w));
    pthread_join(thread, NULL);
}

static void double_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    note(ph_custom_user(custom), tape, FORWARD);
    out[0] = ph_mul_scalar(tape, in[0], 2);
}

static void double_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                            ph_tensor *const *grad_out, const bool *needed)
{
    (void)needed;
    note(ph_custom_user(custom), tape, BACKWARD);
    grad_in[0] = ph_mul_scalar(tape, grad_out[0], 2);
}

static void watcher_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const ph_custom_operator op = {.name = "watched_double",
                                   .forward = double_forward,
                                   .backward = double_backward,
                                   .user = self};
    ph_custom_call(tape, &op, out, 1, in, 1);
}

typedef struct bench {
    t_scene s;
    watcher w;
    ph_module *plain;
    ph_tensor *x;
} bench;

static void bench_open(bench *b)
{
    *b = (bench){.w.disturbs = NEITHER};
    t_scene_open(&b->s);
    b->w.device = b->s.device;
    b->plain = gn_function(&b->s, "watcher", watcher_forward, &b->w, 1, 1);
    b->x = gn_sample(&b->s, PH_SHAPE(2), true);
}

static void bench_close(bench *b)
{
    ph_tensor_release(b->x);
    ph_module_release(b->plain);
    t_scene_close(&b->s);
}

static void expect_right(bench *b, ph_module *graphed)
{
    t_scene *s = &b->s;
    for (int i = 1; i <= 2; i++) {
        ph_tensor *leaf = t_leaf(s, PH_SHAPE(2), (float)i, 7), *y = ph_call(s->tape, graphed, leaf);
        t_expect_values(s->tape, y, PH_SHAPE(2), (float)(2 * i), 14);
        ph_backward(s->tape, ph_sum(s->tape, y));
        t_expect_grad(s, leaf, 2, 2);
        assert_ok(ph_tape_clear(s->tape));
        ph_tensor_release(leaf);
    }
    assert_int_equal(gn_info(graphed).forward_calls, 2);
    assert_int_equal(gn_info(graphed).backward_calls, 2);
}

/* ---- modes ---- */
typedef struct amounts {
    int64_t host;
    size_t device, reserved, pinned;
} amounts;

static amounts held(const bench *b)
{
    ph_memory_stats stats;
    assert_ok(ph_device_synchronize(b->s.device));
    assert_ok(ph_memory_get_stats(&stats, b->s.device));
    return (amounts){ph__alloc_live(), stats.allocated, stats.reserved, stats.pinned};
}

/* The call kills the capture, so the making fails: with what it died of, and nothing is left
 * behind. */
static void expect_killed(bench *b, const ph_graphed_options *options, pass disturbed)
{
    enum {
        WARM = 4,
        ROUNDS = 40,
        SLACK = 16 /* queues of the host device grow to a plateau */
    };
    const ph_sample sample = {.tensors = &b->x, .count = 1};
    amounts before = {0}, after;
    t_log_start();
    for (int i = 0; i < WARM + ROUNDS; i++) {
        ph_module *out = b->plain;
        ph_status status = ph_make_graphed_callables(&out, &b->plain, &sample, 1, options);
        assert_error(status, PH_ERROR_CAPTURE, "callable 'watcher'");
        assert_error(status, PH_ERROR_CAPTURE,
                     disturbed == FORWARD ? "capturing forward" : "capturing backward");
        assert_error(status, PH_ERROR_CAPTURE, "cuMemAlloc");
        assert_null(out);
        assert_int_equal(b->w.answer, 900);
        assert_ok(ph_tape_status(b->s.tape));
        assert_false(options->stream && ph_stream_is_capturing(options->stream));
        if (i == WARM)
            before = held(b);
    }
    t_log_stop();
    after = held(b);
    assert_int_equal(after.device, before.device);
    assert_int_equal(after.reserved, before.reserved);
    assert_int_equal(after.pinned, before.pinned);
    assert_true(after.host <= before.host + SLACK);
}

static void try_mode(ph_capture_mode mode, bool elsewhere, pass disturbed, bool survives)
{
    bench b;
    bench_open(&b);
    ph_graphed_options options = {.mode = mode};
    assert_ok(ph_stream_create(&options.stream, b.s.device, NULL));
    b.w.disturbs = disturbed;
    b.w.elsewhere = elsewhere;
    if (!survives) {
        expect_killed(&b, &options, disturbed);
        b.w.disturbs = NEITHER; /* the same stream, module and sample are as good as new */
    }
    ph_module *graphed = gn_graph_one(b.plain, b.x, &options);
    assert_true(b.w.calls > 0);
    assert_int_equal(b.w.answer, survives ? 0 : 900);
    expect_right(&b, graphed);
    ph_module_release(graphed);
    ph_stream_destroy(options.stream);
    bench_close(&b);
}

TEST(unsafe_calls_of_any_thread_kill_a_global_capture)
{
    for (int i = 0; i < PASSES; i++) {
        try_mode(PH_CAPTURE_GLOBAL, true, (pass)i, false);
        try_mode(PH_CAPTURE_GLOBAL, false, (pass)i, false);
    }
}

TEST(test_thread_local)
{
    for (int i = 0; i < PASSES; i++) {
        try_mode(PH_CAPTURE_THREAD_LOCAL, true, (pass)i, true);
        try_mode(PH_CAPTURE_THREAD_LOCAL, false, (pass)i, false);
    }
}

TEST(a_relaxed_capture_survives_unsafe_calls)
{
    for (int i = 0; i < PASSES; i++) {
        try_mode(PH_CAPTURE_RELAXED, true, (pass)i, true);
        try_mode(PH_CAPTURE_RELAXED, false, (pass)i, true);
    }
}

/* ---- warm-up ---- on the stream of the captures, as many calls as were asked for. */
static void expect_seen(const bench *b, const ph_stream *stream, int warm)
{
    for (int i = 0; i < PASSES; i++) {
        assert_int_equal(b->w.seen[i].warm, warm);
        assert_true(b->w.seen[i].captured >= 1);
        assert_int_equal(b->w.seen[i].count, warm + b->w.seen[i].captured);
        for (int k = 0; k < b->w.seen[i].count; k++)
            assert_ptr_equal(b->w.seen[i].streams[k], stream);
    }
}

static void warm_up(size_t iterations, int want, bool own_stream)
{
    bench b;
    bench_open(&b);
    ph_graphed_options options = {.warmup_iterations = iterations};
    if (own_stream)
        assert_ok(ph_stream_create(&options.stream, b.s.device, NULL));
    ph_module *graphed = gn_graph_one(b.plain, b.x, &options);
    const ph_stream *stream = own_stream ? options.stream : b.w.seen[FORWARD].streams[0];
    assert_non_null(stream);
    assert_ptr_not_equal(stream, b.s.stream);
    assert_ptr_not_equal(stream, ph_device_default_stream(b.s.device));
    expect_seen(&b, stream, want);
    expect_right(&b, graphed);
    expect_seen(&b, stream, want); /* replays do not call it */
    ph_module_release(graphed);
    if (own_stream)
        ph_stream_destroy(options.stream);
    bench_close(&b);
}

TEST(test_warm_up)
{
    for (int own_stream = 0; own_stream < 2; own_stream++) {
        warm_up(0, 3, own_stream);
        warm_up(1, 1, own_stream);
        warm_up(2, 2, own_stream);
        warm_up(PH_ZERO, 0, own_stream);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unsafe_calls_of_any_thread_kill_a_global_capture),
        cmocka_unit_test(test_thread_local),
        cmocka_unit_test(a_relaxed_capture_survives_unsafe_calls),
        cmocka_unit_test(test_warm_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
