/* SPDX-License-Identifier: MIT */
/* tests/tensor/random_capture.c: random numbers in captures: a replay draws what the same calls
 * would have drawn eagerly; forks, several captures and threads at once, seeds between replays,
 * marks. */
#include "support/draws.h"
#include "support/test.h"
#include "tensor/core/tensor.h"
#include "tensor/generator/draw.h"
#include "tensor/generator/generator.h"
#include "tensor/generator/generator_state.h"
#include "tensor/tape/tape.h"
#include <phonograph/cells.h>

enum {
    N = 3000
};

static ph_tensor *uniforms(ph_tape *tape, void *user)
{
    (void)user;
    return ph_rand(tape, PH_DTYPE_F32, PH_SHAPE(N));
}

/* Several draws, of one word and of two. */
static ph_tensor *mixture(ph_tape *tape, void *user)
{
    (void)user;
    ph_tensor *parts[] = {
        ph_rand(tape, PH_DTYPE_F32, PH_SHAPE(N)),
        ph_randn(tape, PH_DTYPE_F32, PH_SHAPE(N)),
        ph_cast(tape, ph_randn(tape, PH_DTYPE_F64, PH_SHAPE(N)), PH_DTYPE_F32),
        ph_cast(tape, ph_randint(tape, PH_DTYPE_I64, PH_SHAPE(N), 0, 1 << 20), PH_DTYPE_F32),
        ph_dropout(tape, ph_full(tape, PH_DTYPE_F32, PH_SHAPE(N), 1), 0.25),
        ph_cast(tape, ph_randperm(tape, N), PH_DTYPE_F32),
        ph_cast(tape, ph_randperm(tape, 7), PH_DTYPE_F32)};
    return t_join(tape, parts, sizeof parts / sizeof *parts);
}

TEST(test_replays_draw_on)
{
    t_scene s;
    ph_tensor *out;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 11);
    ph_tensor_release(t_now(&s, uniforms, NULL));
    ph_graph *graph = t_capture(&s, mixture, NULL, &out);
    assert_int_equal(t_offset(g), 4); /* capturing has not moved it */
    ph_tensor *want[3], *got[3];
    for (int i = 0; i < 3; i++)
        want[i] = t_now(&s, mixture, NULL);
    uint64_t end = t_offset(g);
    assert_ok(ph_generator_set_offset(g, 4));
    for (int i = 0; i < 3; i++) {
        assert_ok(ph_graph_replay(graph, s.stream));
        got[i] = ph_tensor_retain(ph_clone(s.tape, out));
        assert_ok(ph_tape_clear(s.tape));
    }
    assert_int_equal(t_offset(g), end);
    for (int i = 0; i < 3; i++) {
        assert_true(t_same(&s, got[i], want[i]));
        assert_false(t_same(&s, got[i], got[(i + 1) % 3]));
    }
    /* Replays and eager draws in turn. */
    assert_ok(ph_generator_set_offset(g, 4));
    ph_tensor_release(t_now(&s, mixture, NULL));
    assert_ok(ph_graph_replay(graph, s.stream));
    assert_true(t_same(&s, out, want[1]));
    ph_tensor *third = t_now(&s, mixture, NULL);
    assert_true(t_same(&s, third, want[2]));
    /* A seed between replays is that of the next one. */
    assert_ok(ph_generator_seed(g, 12));
    ph_tensor *other = t_now(&s, mixture, NULL);
    assert_ok(ph_generator_seed(g, 12));
    assert_ok(ph_graph_replay(graph, s.stream));
    assert_true(t_same(&s, out, other));
    for (int i = 0; i < 3; i++) {
        ph_tensor_release(want[i]);
        ph_tensor_release(got[i]);
    }
    ph_tensor_release(third);
    ph_tensor_release(other);
    ph_tensor_release(out);
    ph_graph_destroy(graph);
    ph_generator_release(g);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* A graph keeps the state, whatever becomes of the generator. */
TEST(test_graph_keeps_the_state)
{
    t_scene s;
    ph_tensor *out;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 5);
    ph_tensor *want = t_now(&s, uniforms, NULL);
    assert_ok(ph_generator_seed(g, 5));
    ph_graph *graph = t_capture(&s, uniforms, NULL, &out);
    ph_tape_set_generator(s.tape, NULL);
    ph_generator_release(g);
    assert_ok(ph_graph_replay(graph, s.stream));
    assert_true(t_same(&s, out, want));
    ph_tensor_release(want);
    ph_tensor_release(out);
    ph_graph_destroy(graph);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* ---- what is allowed in a capture ---- */
TEST(test_calls_in_a_capture)
{
    t_scene s;
    ph_graph *graph;
    ph_generator *clone;
    uint64_t offset;
    char bytes[16] = {0};
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 6);
    assert_ok(ph_generator_set_offset(g, 8));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, s.stream, NULL));
    /* Before it draws, the capture has no part in the generator. */
    assert_ok(ph_generator_set_offset(g, 12));
    (void)uniforms(s.tape, NULL);
    assert_ok(ph_tape_status(s.tape));
    assert_ok(ph_generator_seed(g, 6));
    assert_error(ph_generator_seed(g, 7), PH_ERROR_STATE, "only the seed that it has");
    assert_error(ph_generator_set_offset(g, 0), PH_ERROR_STATE, "capture");
    assert_error(ph_generator_get_offset(&offset, g), PH_ERROR_STATE, "capture");
    assert_error(ph_generator_get_state(bytes, g), PH_ERROR_STATE, "capture");
    assert_error(ph_generator_set_state(g, bytes, 16), PH_ERROR_STATE, "capture");
    assert_true(ph_generator_get_seed(g) == 6);
    assert_ok(ph_generator_clone(&clone, g));
    ph_generator_state *shared = ph_generator_share_state(clone);
    assert_ok(ph_generator_use_state(g, shared));
    assert_int_equal(t_offset(g), 12);
    ph_generator_state_release(shared);
    assert_ok(ph_tape_clear(s.tape));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    ph_generator_release(clone);
    ph_graph_destroy(graph);
    ph_generator_release(g);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* A capture that fails, or is aborted, lets the generator go as it was. */
TEST(test_captures_that_come_to_nothing)
{
    t_scene s;
    ph_graph *graph;
    ph_memory_stats before, after;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 6);
    ph_tensor_release(t_now(&s, uniforms, NULL));
    assert_ok(ph_memory_get_stats(&before, s.device));
    assert_ok(ph_graph_create(&graph, NULL));
    for (int i = 0; i < 3; i++) {
        assert_ok(ph_graph_capture_begin(graph, s.stream, NULL));
        (void)uniforms(s.tape, NULL);
        assert_ok(ph_tape_clear(s.tape));
        if (i == 0)
            ph_graph_capture_abort(graph);
        else if (i == 1)
            assert_status(ph_graph_capture_end(graph, ph_fail(PH_ERROR_CALLER, "no more")),
                          PH_ERROR_CALLER);
        else
            assert_ok(ph_graph_capture_end(graph, PH_OK));
        assert_int_equal(t_offset(g), 4);
        assert_ok(ph_graph_reset(graph));
    }
    ph_graph_destroy(graph);
    assert_ok(ph_memory_get_stats(&after, s.device));
    assert_int_equal(after.allocated, before.allocated);
    assert_ok(ph_generator_seed(g, 9));
    ph_generator_release(g);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* ---- forks ---- */
typedef struct forked {
    t_scene *scene;
    ph_stream *side;
    ph_tape *side_tape;
    ph_tensor *out[3];
} forked;

/* The fork joins before the first draw, which is on the origin; its own draw comes next, and one
 * more after the join. */
static ph_status forked_body(ph_stream *stream, void *user)
{
    forked *f = user;
    PH_TRY(ph_stream_wait_stream(f->side, stream));
    f->out[0] = ph_tensor_retain(uniforms(f->scene->tape, NULL));
    f->out[1] = ph_tensor_retain(uniforms(f->side_tape, NULL));
    PH_TRY(ph_stream_wait_stream(stream, f->side));
    f->out[2] = ph_tensor_retain(uniforms(f->scene->tape, NULL));
    PH_TRY(ph_tape_clear(f->side_tape));
    return ph_tape_clear(f->scene->tape);
}

TEST(forked_streams_of_a_capture_draw_from_one_generator)
{
    t_scene s;
    ph_graph *graph;
    forked f = {.scene = &s};
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 21);
    assert_ok(ph_stream_create(&f.side, s.device, NULL));
    assert_ok(ph_tape_create(&f.side_tape, f.side, &(ph_tape_options){.generator = g}));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream, NULL, forked_body, &f));
    for (int i = 0; i < 20; i++)
        assert_ok(ph_graph_replay(graph, s.stream));
    assert_ok(ph_stream_synchronize(s.stream));
    assert_int_equal(t_offset(g), 20 * 12);
    assert_ok(ph_generator_set_offset(g, 19 * 12));
    for (int i = 0; i < 3; i++) {
        ph_tensor *want = t_now(&s, uniforms, NULL);
        assert_true(t_same(&s, want, f.out[i]));
        ph_tensor_release(want);
        ph_tensor_release(f.out[i]);
    }
    ph_graph_destroy(graph);
    ph_tape_destroy(f.side_tape);
    assert_ok(ph_stream_synchronize(f.side));
    ph_stream_destroy(f.side);
    ph_generator_release(g);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* ---- threads ---- */
enum {
    THREADS = 4,
    ROUNDS = 25
};
typedef struct worker {
    t_scene scene; /* stream and tape are its own */
    ph_graph *graph;
    ph_tensor *out;
    unsigned char at[ROUNDS][N * sizeof(float)];
} worker;

/* One graph of the worker's own, captured while the others capture theirs; then replayed while
 * they replay. */
static void *work(void *user)
{
    worker *w = user;
    w->graph = t_capture(&w->scene, uniforms, NULL, &w->out);
    for (int i = 0; i < ROUNDS; i++) {
        assert_ok(ph_graph_replay(w->graph, w->scene.stream));
        assert_ok(ph_tensor_read(w->scene.tape, w->out, w->at[i], sizeof w->at[i]));
    }
    return NULL;
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, N * sizeof(float));
}

/* Each replay gets a part of the sequence of its own: together they are exactly the eager draws. */
TEST(test_captures_and_replays_at_once)
{
    t_scene s;
    pthread_t threads[THREADS];
    worker *w = calloc(THREADS, sizeof *w);
    unsigned char(*got)[N * sizeof(float)] = calloc(THREADS * ROUNDS, sizeof *got);
    unsigned char(*want)[N * sizeof(float)] = calloc(THREADS * ROUNDS, sizeof *want);
    assert_true(w && got && want);
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 33);
    for (int i = 0; i < THREADS; i++) {
        w[i].scene.device = s.device;
        assert_ok(ph_stream_create(&w[i].scene.stream, s.device, NULL));
        assert_ok(ph_tape_create(&w[i].scene.tape, w[i].scene.stream,
                                 &(ph_tape_options){.generator = g}));
    }
    ph_tensor_release(t_now(&s, uniforms, NULL)); /* the kernel is there */
    assert_ok(ph_generator_seed(g, 33));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(t_offset(g), THREADS * ROUNDS * 4);
    assert_ok(ph_generator_seed(g, 33));
    for (int i = 0; i < THREADS * ROUNDS; i++) {
        memcpy(got[i], w[i / ROUNDS].at[i % ROUNDS], sizeof got[i]);
        ph_tensor *x = uniforms(s.tape, NULL);
        assert_ok(ph_tensor_read(s.tape, x, want[i], sizeof want[i]));
        assert_ok(ph_tape_clear(s.tape));
    }
    qsort(got, THREADS * ROUNDS, sizeof *got, compare);
    qsort(want, THREADS * ROUNDS, sizeof *want, compare);
    assert_memory_equal(got, want, THREADS * ROUNDS * sizeof *got);
    for (int i = 0; i < THREADS; i++) {
        ph_tensor_release(w[i].out);
        ph_graph_destroy(w[i].graph);
        ph_tape_destroy(w[i].scene.tape);
        ph_stream_destroy(w[i].scene.stream);
    }
    free(w);
    free(got);
    free(want);
    ph_generator_release(g);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* One graph on two streams: its replays are ordered, and each has its own numbers. */
TEST(test_one_graph_on_two_streams)
{
    t_scene s;
    ph_stream *other;
    ph_tensor *out;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 3);
    assert_ok(ph_stream_create(&other, s.device, NULL));
    ph_graph *graph = t_capture(&s, mixture, NULL, &out);
    for (int i = 0; i < 10; i++) {
        assert_ok(ph_graph_replay(graph, s.stream));
        assert_ok(ph_graph_replay(graph, other));
    }
    assert_ok(ph_stream_synchronize(other));
    uint64_t end = t_offset(g);
    assert_ok(ph_generator_set_offset(g, end / 20 * 19));
    ph_tensor *want = t_now(&s, mixture, NULL);
    assert_int_equal(t_offset(g), end);
    assert_true(t_same(&s, out, want));
    ph_tensor_release(want);
    ph_tensor_release(out);
    ph_graph_destroy(graph);
    ph_stream_destroy(other);
    ph_generator_release(g);
    t_scene_close(&s);
}

/* ---- marks ---- what a checkpoint does: draws again what it has drawn, in the same capture. */
static ph_tensor *twice(ph_tape *tape, void *user)
{
    ph_generator *g = user;
    ph__generator_mark start, now;
    ph_stream *stream = ph_tape_stream(tape);
    ph_tensor *before = uniforms(tape, NULL);
    assert_ok(ph__generator_save(&start, g, stream));
    ph_tensor *first = uniforms(tape, NULL), *other = uniforms(tape, NULL);
    assert_ok(ph__generator_save(&now, g, stream));
    assert_ok(ph__generator_restore(g, stream, &start));
    ph_tensor *again = uniforms(tape, NULL);
    assert_ok(ph__generator_restore(g, stream, &now));
    ph_tensor *after = uniforms(tape, NULL);
    return t_join(tape, (ph_tensor *[]){before, first, other, again, after}, 5);
}

TEST(test_marks_in_a_capture)
{
    t_scene s;
    ph_tensor *out;
    ph__generator_mark outside;
    ph_graph *second;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 3);
    ph_graph *graph = t_capture(&s, twice, g, &out);
    ph_tensor *want = t_now(&s, twice, g);
    assert_int_equal(t_offset(g), 16);
    assert_ok(ph_generator_seed(g, 3));
    assert_ok(ph_graph_replay(graph, s.stream));
    assert_true(t_same(&s, out, want));
    assert_int_equal(t_offset(g), 16);
    /* Marks of elsewhere. */
    assert_ok(ph__generator_save(&outside, g, s.stream));
    assert_ok(ph_graph_create(&second, NULL));
    assert_ok(ph_graph_capture_begin(second, s.stream, NULL));
    (void)uniforms(s.tape, NULL);
    assert_ok(ph_tape_clear(s.tape));
    assert_error(ph__generator_restore(g, s.stream, &outside), PH_ERROR_STATE,
                 "outside of captures");
    assert_ok(ph__generator_save(&outside, g, s.stream));
    assert_ok(ph_graph_capture_end(second, PH_OK));
    assert_error(ph__generator_restore(g, s.stream, &outside), PH_ERROR_STATE, "of a capture");
    ph_graph_destroy(second);
    ph_tensor_release(want);
    ph_tensor_release(out);
    ph_graph_destroy(graph);
    ph_generator_release(g);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* ---- replays that do not go out ---- another source of the graph's cells refuses: what the
 * generator gave is taken back. */
static ph_status maybe(uint64_t *values, void *user)
{
    values[0] = 0;
    return *(const bool *)user ? ph_fail(PH_ERROR_CALLER, "not now") : PH_OK;
}

TEST(test_a_replay_that_does_not_go_out)
{
    t_scene s;
    ph_graph *graph;
    uint64_t *cell;
    bool refuse = false;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 3);
    const ph_cells_source source = {.count = 1, .values = maybe, .user = &refuse};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, s.stream, NULL));
    ph_tensor *out = ph_tensor_retain(uniforms(s.tape, NULL));
    assert_ok(ph_cells_create(&cell, s.stream, &source));
    assert_ok(ph_tape_clear(s.tape));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_replay(graph, s.stream));
    assert_int_equal(t_offset(g), 4);
    refuse = true;
    for (int i = 0; i < 3; i++)
        assert_error(ph_graph_replay(graph, s.stream), PH_ERROR_CALLER, "not now");
    assert_int_equal(t_offset(g), 4);
    refuse = false;
    assert_ok(ph_graph_replay(graph, s.stream));
    assert_int_equal(t_offset(g), 8);
    assert_ok(ph_generator_set_offset(g, 4));
    ph_tensor *want = t_now(&s, uniforms, NULL);
    assert_true(t_same(&s, out, want));
    /* Words run out. */
    assert_ok(ph_generator_set_offset(g, UINT64_MAX - 3));
    assert_error(ph_graph_replay(graph, s.stream), PH_ERROR_STATE, "overflow");
    assert_true(t_offset(g) == UINT64_MAX - 3);
    ph_tensor_release(want);
    ph_tensor_release(out);
    ph_graph_destroy(graph);
    ph_generator_release(g);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* ---- failures ---- the n-th allocation fails: the capture fails or goes well, nothing is left
 * behind. */
TEST(test_no_host_memory_in_a_capture)
{
    t_scene s;
    ph_graph *graph;
    t_scene_open(&s);
    ph_generator *g = t_generator(&s, 3);
    ph_tensor_release(t_now(&s, uniforms, NULL));
    bool failed = true;
    for (int64_t n = 0; failed; n++) {
        assert_true(n < 200);
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(ph_graph_capture_begin(graph, s.stream, NULL));
        ph__alloc_fail_after(n);
        (void)uniforms(s.tape, NULL);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        ph_status status = ph_tape_clear(s.tape);
        failed = status != PH_OK;
        assert_true(!failed || status == PH_ERROR_HOST_MEMORY);
        assert_int_equal(ph_graph_capture_end(graph, status), status);
        if (!failed)
            assert_ok(ph_graph_replay(graph, s.stream));
        assert_int_equal(t_offset(g), failed ? 4 : 8);
        ph_graph_destroy(graph);
    }
    ph_generator_release(g);
    t_scene_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

/* ---- breaks ---- */
typedef struct broken {
    t_scene *scene;
    ph_tensor *before, *between, *after;
} broken;

static ph_status draw_between(ph_stream *stream, void *user)
{
    broken *b = user;
    (void)stream;
    ph_tensor_release(b->between);
    b->between = t_now(b->scene, mixture, NULL);
    return PH_OK;
}

static ph_status draw_around(ph_stream *stream, void *user)
{
    broken *b = user;
    b->before = ph_tensor_retain(mixture(b->scene->tape, NULL));
    PH_TRY(ph_tape_clear(b->scene->tape));
    PH_TRY(ph_break(stream, draw_between, b));
    b->after = ph_tensor_retain(mixture(b->scene->tape, NULL));
    return ph_tape_clear(b->scene->tape);
}

TEST(test_numbers_go_on_across_breaks)
{
    t_scene s;
    t_scene_open(&s);
    broken b = {.scene = &s};
    ph_graph *graph;
    ph_generator *g = t_generator(&s, 11);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.stream,
                               &(ph_capture_options){.mode = PH_CAPTURE_RELAXED,
                                                     .allow_breaks = true,
                                                     .defer_breaks = true},
                               draw_around, &b));
    ph_tensor *want[6];
    uint64_t start = t_offset(g);
    for (int i = 0; i < 6; i++)
        want[i] = t_now(&s, mixture, NULL);
    uint64_t end = t_offset(g);
    assert_ok(ph_generator_set_offset(g, start));
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_graph_replay(graph, s.stream));
        assert_true(t_same(&s, b.before, want[3 * i]));
        assert_true(t_same(&s, b.between, want[3 * i + 1]));
        assert_true(t_same(&s, b.after, want[3 * i + 2]));
    }
    assert_int_equal(t_offset(g), end);
    ph_graph_destroy(graph);
    ph_tensor_release(b.before);
    ph_tensor_release(b.between);
    ph_tensor_release(b.after);
    for (int i = 0; i < 6; i++)
        ph_tensor_release(want[i]);
    ph_generator_release(g);
    t_scene_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_replays_draw_on),
        cmocka_unit_test(test_graph_keeps_the_state),
        cmocka_unit_test(test_calls_in_a_capture),
        cmocka_unit_test(test_captures_that_come_to_nothing),
        cmocka_unit_test(forked_streams_of_a_capture_draw_from_one_generator),
        cmocka_unit_test(test_captures_and_replays_at_once),
        cmocka_unit_test(test_one_graph_on_two_streams),
        cmocka_unit_test(test_marks_in_a_capture),
        cmocka_unit_test(test_a_replay_that_does_not_go_out),
        cmocka_unit_test(test_no_host_memory_in_a_capture),
        cmocka_unit_test(test_numbers_go_on_across_breaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
