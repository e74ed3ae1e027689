/* SPDX-License-Identifier: MIT */
/* tests/tensor/autocast_captures.c: autocast in captures, and beside them: casts belong to the
 * capture that they were made in, and what replays change is cast anew. */
#include "driver/driver.h"
#include "support/autocast.h"
#include "support/fault.h"
#include "support/test.h"

static ph_status forward(ph_stream *stream, void *user)
{
    const world *w = user;
    (void)stream;
    assert_non_null(product(w));
    ph_tensor_copy(w->s.tape, w->y, product(w));
    return ph_tape_status(w->s.tape);
}

static size_t node_count(ph_graph *graph)
{
    const ph_record *record;
    assert_ok(ph_graph_record(&record, graph));
    return ph_record_node_count(record);
}

/* A cast from before the capture would be read by each replay, whatever became of the weight;
 * one from inside has no value before a replay. */
TEST(casts_are_not_kept_across_a_capture)
{
    ph_graph *graph;
    world w;
    open_world(&w);
    (void)ph_tape_set_grad_enabled(w.s.tape, false);
    expect_product(&w, 2, 6);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, w.s.stream, NULL, forward, &w));
    size_t nodes = node_count(graph);
    expect_product(&w, 2, 6); /* before any replay */
    scale_weight(&w, 5);
    assert_ok(ph_graph_replay(graph, w.s.stream));
    t_expect_values(w.s.tape, w.y, PH_SHAPE(2), 10, 30);
    assert_ok(ph_graph_reset(graph));
    /* another capture of the same body */
    assert_ok(ph_graph_capture(graph, w.s.stream, NULL, forward, &w));
    assert_int_equal(node_count(graph), nodes);
    assert_ok(ph_graph_reset(graph));
    (void)ph_tape_set_autocast(w.s.tape, uncached);
    assert_ok(ph_graph_capture(graph, w.s.stream, NULL, forward, &w));
    assert_int_equal(node_count(graph), nodes + 1); /* the second product's cast of the weight */
    assert_ok(ph_tape_clear(w.s.tape));
    ph_graph_destroy(graph);
    close_world(&w);
}

/* ---- a whole step ---- eager, captured, replayed: the same bits. */
typedef struct step {
    world w;
    ph_autocast mode;
} step;

static ph_status whole_step(ph_stream *stream, void *user)
{
    const step *st = user;
    ph_tape *tape = st->w.s.tape;
    (void)stream;
    ph_autocast before = ph_tape_set_autocast(tape, st->mode);
    ph_tensor *h = ph_gelu(tape, product(&st->w));
    ph_tensor *loss = ph_mse(tape, ph_linear(tape, h, st->w.w, NULL), st->w.x), *g;
    ph_grad(tape, &g, &(ph_tensor *){st->w.w}, 1, &loss, NULL, 1, NULL);
    (void)ph_tape_set_grad_enabled(tape, false);
    ph_tensor_add(tape, st->w.w, g, -0.125);
    (void)ph_tape_set_grad_enabled(tape, true);
    (void)ph_tape_set_autocast(tape, before);
    return ph_tape_clear(tape);
}

static void run_steps(float out[4], ph_autocast mode, bool captured)
{
    step st = {.mode = mode};
    ph_graph *graph = NULL;
    open_world(&st.w);
    (void)ph_tape_set_autocast(st.w.s.tape, off);
    if (captured) {
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(ph_graph_capture(graph, st.w.s.stream, NULL, whole_step, &st));
    }
    for (int i = 0; i < 5; i++)
        assert_ok(captured ? ph_graph_replay(graph, st.w.s.stream) : whole_step(NULL, &st));
    assert_ok(ph_tensor_read(st.w.s.tape, st.w.w, out, 4 * sizeof *out));
    ph_graph_destroy(graph);
    close_world(&st.w);
}

TEST(test_whole_step)
{
    float eager[4], captured[4], full[4];
    run_steps(full, off, false);
    run_steps(eager, to_f16, false);
    run_steps(captured, to_f16, true);
    assert_memory_equal(captured, eager, sizeof eager);
    assert_memory_not_equal(eager, full, sizeof eager); /* it was in f16 */
    memcpy(full, eager, sizeof full);
    run_steps(eager, uncached, false);
    assert_memory_equal(full, eager, sizeof eager); /* kept casts change no result */
    run_steps(captured, uncached, true);
    assert_memory_equal(captured, eager, sizeof eager);
}

/* ---- weights that replays change ---- are cast at each eager use from the capture on, though
 * nobody clears the tape. */
static ph_status scale_in_capture(ph_stream *stream, void *user)
{
    const world *w = user;
    (void)stream;
    scale_weight(w, 2);
    return ph_tape_status(w->s.tape);
}

static void check_after_replay(const world *w, float factor)
{
    for (int i = 0; i < 2; i++)
        expect_product(w, factor, 3 * factor);
}

TEST(test_changed_by_replays)
{
    ph_graph *graph;
    world w;
    open_world(&w);
    (void)ph_tape_set_grad_enabled(w.s.tape, false);
    expect_product(&w, 2, 6);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, w.s.stream, NULL, scale_in_capture, &w));
    check_after_replay(&w, 2); /* nothing has run */
    for (int i = 0; i < 3; i++) {
        assert_ok(ph_graph_replay(graph, w.s.stream));
        check_after_replay(&w, (float)(4 << i));
    }
    ph_graph_destroy(graph);
    close_world(&w);
}

/* ---- inside of a capture ---- a replay that becomes a part of it changes the weight between
 * two uses. */
typedef struct nested {
    world *w;
    ph_graph *child;
} nested;

static ph_status around_a_replay(ph_stream *stream, void *user)
{
    const nested *n = user;
    assert_non_null(product(n->w));
    PH_TRY(ph_graph_replay(n->child, stream));
    ph_tensor_copy(n->w->s.tape, n->w->y, product(n->w));
    return ph_tape_status(n->w->s.tape);
}

TEST(test_replay_in_a_capture)
{
    ph_graph *graph;
    world w;
    open_world(&w);
    nested n = {.w = &w};
    (void)ph_tape_set_grad_enabled(w.s.tape, false);
    assert_ok(ph_graph_create(&n.child, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(n.child, w.s.stream, NULL, scale_in_capture, &w));
    assert_ok(ph_graph_capture(graph, w.s.stream, NULL, around_a_replay, &n));
    assert_ok(ph_graph_replay(graph, w.s.stream));
    t_expect_values(w.s.tape, w.y, PH_SHAPE(2), 4, 12);
    assert_ok(ph_tape_clear(w.s.tape));
    ph_graph_destroy(graph);
    ph_graph_destroy(n.child);
    close_world(&w);
}

/* ---- written by replays ---- from pinned memory, which may hold something else at each. */
TEST(test_captured_write)
{
    ph_graph *graph;
    float *pinned;
    world w;
    open_world(&w);
    (void)ph_tape_set_grad_enabled(w.s.tape, false);
    assert_ok(ph_malloc_pinned(&pinned, 4, sizeof *pinned, w.s.stream));
    memcpy(pinned, (const float[]){2, 0, 0, 2}, 4 * sizeof *pinned);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, w.s.stream, NULL));
    assert_ok(ph_tensor_write(w.s.tape, w.w, pinned, 4 * sizeof *pinned));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    expect_product(&w, 2, 6);
    memcpy(pinned, (const float[]){10, 0, 0, 10}, 4 * sizeof *pinned);
    assert_ok(ph_graph_replay(graph, w.s.stream));
    expect_product(&w, 10, 30);
    assert_ok(ph_tape_clear(w.s.tape));
    ph_graph_destroy(graph);
    ph_free_pinned(pinned, w.s.stream);
    close_world(&w);
}

/* ---- a driver that fails ---- in a capture: either the capture says so, or its replays read
 * the weight as it is then. */
static bool capture_with_fault(const world *w, ph_graph *graph, int64_t n, ph_status *status)
{
    assert_ok(ph_graph_capture_begin(graph, w->s.stream, NULL));
    int64_t before = ph__driver_calls();
    ph__driver_fail_after(n, PH__R_LAUNCH_FAILED);
    ph_tensor_copy(w->s.tape, w->y, product(w));
    ph__driver_fail_after(-1, 0);
    bool hit = ph__driver_calls() - before > n;
    *status = ph_graph_capture_end(graph, ph_tape_clear(w->s.tape));
    return hit;
}

TEST(test_driver_that_fails)
{
    ph_graph *graph;
    ph_status status;
    float factor = 2;
    size_t failures = 0;
    world w;
    open_world(&w);
    t_log_start();
    (void)ph_tape_set_grad_enabled(w.s.tape, false);
    assert_ok(ph_graph_create(&graph, NULL));
    for (int64_t n = 0, hit = true; hit; n++) {
        assert_in_range(n, 0, 100);
        expect_product(&w, factor, 3 * factor); /* a cast from outside of the capture */
        hit = capture_with_fault(&w, graph, n, &status);
        failures += status != PH_OK;
        expect_product(&w, factor, 3 * factor);
        double change = factor < 100 ? 2 : 1.0 / 64;
        factor *= (float)change;
        scale_weight(&w, change);
        if (status == PH_OK) {
            assert_ok(ph_graph_replay(graph, w.s.stream));
            t_expect_values(w.s.tape, w.y, PH_SHAPE(2), factor, 3 * factor);
        }
        assert_ok(ph_graph_reset(graph));
    }
    assert_ok(status);
    assert_true(failures > 3);
    t_log_stop();
    ph_graph_destroy(graph);
    close_world(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(casts_are_not_kept_across_a_capture),
        cmocka_unit_test(test_whole_step),
        cmocka_unit_test(test_changed_by_replays),
        cmocka_unit_test(test_replay_in_a_capture),
        cmocka_unit_test(test_captured_write),
        cmocka_unit_test(test_driver_that_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
