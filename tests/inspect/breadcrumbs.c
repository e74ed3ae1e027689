/* SPDX-License-Identifier: MIT */
/* tests/inspect/breadcrumbs.c: how far a replay came, as the breadcrumbs at its scopes tell. */
#include "support/breadcrumbs.h"
#include "support/test.h"

#include <string.h>

TEST(test_a_replay_that_hangs)
{
    bc_capture();
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    for (int round = 0; round < 3; round++) {
        t_gate_shut(&bc.gate);
        assert_ok(ph_graph_replay(bc.graph, bc.world.stream));
        if (t_gate_held(&bc.gate)) {
            ph_progress at = bc_wait_until(4);
            assert_false(at.complete);
            assert_int_equal(at.count, 8);
            assert_int_equal(at.open_count, 2);
            assert_string_equal(at.open[0], "layer 3/attention");
            assert_string_equal(at.open[1], "layer 3");
            assert_string_equal(at.last, "layer 3/attention");
            assert_string_equal(
                at.message, "the last replay has begun, and not ended, \"layer 3/attention\"; "
                            "it has passed 4 of 8 "
                            "breadcrumbs, as the last one the beginning of \"layer 3/attention\"");
        }
        t_gate_open(&bc.gate);
        assert_ok(ph_stream_synchronize(bc.world.stream));
        bc_assert_complete(8);
        assert_string_equal(bc_where().last, "last");
        t_all(bc.y, BC_N, 2, bc.world.stream);
    }
}

static ph_status first_is_late(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_fill(&bc.world, stream, bc.x, BC_N, 1));
    PH_TRY(t_gate_wait(&bc.gate, stream));
    PH_TRY(ph_annotation_push(stream, "a", NULL));
    PH_TRY(t_add(&bc.world, stream, bc.x, bc.y, BC_N, 1));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(t_gate_wait(&bc.other_gate, stream));
    PH_TRY(ph_annotation_push(stream, "b", NULL));
    return ph_annotation_pop(stream);
}

TEST(test_outside_all_scopes)
{
    assert_ok(ph_graph_capture(bc.graph, bc.world.stream, &bc_options, first_is_late, NULL));
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    t_gate_shut(&bc.gate);
    t_gate_shut(&bc.other_gate);
    assert_ok(ph_graph_replay(bc.graph, bc.world.stream));
    if (t_gate_held(&bc.gate)) {
        ph_progress at = bc_wait_until(0);
        assert_null(at.last);
        assert_int_equal(at.open_count, 0);
        assert_non_null(
            strstr(at.message, "passed none of 4 breadcrumbs: it has not come to \"a\""));
    }
    t_gate_open(&bc.gate);
    if (t_gate_held(&bc.other_gate)) {
        ph_progress at = bc_wait_until(2);
        assert_int_equal(at.open_count, 0);
        assert_non_null(strstr(at.message, "between two scopes; it has passed 2 of 4 breadcrumbs, "
                                           "as the last one the end of \"a\""));
    }
    t_gate_open(&bc.other_gate);
    assert_ok(ph_stream_synchronize(bc.world.stream));
    bc_assert_complete(4);
}

/* Scopes are those of threads: "b" is open on another one while "a" is on this one. */
static pthread_barrier_t steps;

static void *hold_b(void *status)
{
    *(ph_status *)status = ph_annotation_push(bc.side, "b", NULL);
    (void)pthread_barrier_wait(&steps);
    (void)pthread_barrier_wait(&steps);
    ph_status ended = ph_annotation_pop(bc.side);
    if (*(ph_status *)status == PH_OK)
        *(ph_status *)status = ended;
    return NULL;
}

TEST(test_scopes_on_several_streams)
{
    ph_capture_options options = bc_options;
    ph_status status = PH_OK;
    pthread_t thread;
    options.mode = PH_CAPTURE_RELAXED;
    assert_int_equal(pthread_barrier_init(&steps, NULL, 2), 0);
    assert_ok(ph_graph_capture_begin(bc.graph, bc.world.stream, &options));
    assert_ok(t_fill(&bc.world, bc.world.stream, bc.x, BC_N, 1));
    assert_ok(ph_stream_wait_stream(bc.side, bc.world.stream));
    assert_int_equal(pthread_create(&thread, NULL, hold_b, &status), 0);
    (void)pthread_barrier_wait(&steps);
    assert_ok(ph_stream_wait_stream(bc.world.stream, bc.side));
    assert_ok(ph_annotation_push(bc.world.stream, "a", NULL));
    assert_ok(t_gate_wait(&bc.gate, bc.world.stream));
    assert_ok(ph_annotation_pop(bc.world.stream));
    assert_ok(t_gate_wait(&bc.other_gate, bc.world.stream));
    assert_ok(ph_stream_wait_stream(bc.side, bc.world.stream));
    (void)pthread_barrier_wait(&steps);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, PH_OK);
    (void)pthread_barrier_destroy(&steps);
    assert_ok(ph_stream_wait_stream(bc.world.stream, bc.side));
    assert_ok(ph_graph_capture_end(bc.graph, PH_OK));
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    t_gate_shut(&bc.gate);
    t_gate_shut(&bc.other_gate);
    assert_ok(ph_graph_replay(bc.graph, bc.world.stream));
    if (t_gate_held(&bc.gate)) {
        ph_progress at = bc_wait_until(2);
        assert_int_equal(at.open_count, 2);
        assert_string_equal(at.open[0], "a");
        assert_string_equal(at.open[1], "b");
        assert_non_null(strstr(at.message, "\"a\", \"b\"; it has passed 2 of 4"));
    }
    t_gate_open(&bc.gate);
    if (t_gate_held(&bc.other_gate)) {
        ph_progress at = bc_wait_until(3);
        assert_int_equal(at.open_count, 1);
        assert_string_equal(at.open[0], "b");
        assert_string_equal(at.last, "a");
    }
    t_gate_open(&bc.other_gate);
    assert_ok(ph_stream_synchronize(bc.world.stream));
    bc_assert_complete(4);
}

/* What has no name of its own is called by what it adds. */
static ph_status unnamed(ph_stream *stream, void *user)
{
    (void)user;
    const ph_annotation_pair pairs[] = {
        {.key = "layer", .type = PH_ANNOTATION_INTEGER, .integer = -3},
        {.key = "kind", .text = "mlp"},
        {.key = "share", .type = PH_ANNOTATION_REAL, .real = 0.5},
        {.key = "on", .type = PH_ANNOTATION_BOOL, .boolean = true},
    };
    const ph_annotation_options options = {.pairs = pairs, .count = 4};
    PH_TRY(t_fill(&bc.world, stream, bc.x, BC_N, 1));
    PH_TRY(ph_annotation_push(stream, "block", NULL));
    PH_TRY(ph_annotation_push(stream, NULL, &options));
    PH_TRY(ph_annotation_push(stream, "block", NULL));
    PH_TRY(t_gate_wait(&bc.gate, stream));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_annotation_pop(stream));
    return ph_annotation_pop(stream);
}

TEST(an_open_scope_is_reported_with_its_path_and_pairs)
{
    assert_ok(ph_graph_capture(bc.graph, bc.world.stream, &bc_options, unnamed, NULL));
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    t_gate_shut(&bc.gate);
    assert_ok(ph_graph_replay(bc.graph, bc.world.stream));
    if (t_gate_held(&bc.gate)) {
        ph_progress at = bc_wait_until(3);
        assert_int_equal(at.open_count, 3);
        assert_string_equal(at.open[0], "block/layer=-3 kind=mlp share=0.5 on=true/block");
        assert_string_equal(at.open[2], "block");
    }
    t_gate_open(&bc.gate);
    assert_ok(ph_stream_synchronize(bc.world.stream));
}

/* A scope that ends in no call on a stream of the capture has no second breadcrumb: it counts as
 * passed. */
static ph_status unwound(ph_stream *stream, void *user)
{
    (void)user;
    size_t depth = ph_annotation_depth();
    PH_TRY(ph_annotation_push(bc.side, "not in the capture", NULL));
    PH_TRY(t_fill(&bc.world, stream, bc.x, BC_N, 1));
    PH_TRY(ph_annotation_push(stream, "unwound", NULL));
    PH_TRY(t_fill(&bc.world, stream, bc.x, BC_N, 2));
    ph_annotation_unwind(depth);
    PH_TRY(ph_annotation_push(stream, "behind", NULL));
    PH_TRY(t_gate_wait(&bc.gate, stream));
    return ph_annotation_pop(stream);
}

TEST(test_scopes_without_an_end)
{
    assert_ok(ph_graph_capture(bc.graph, bc.world.stream, &bc_options, unwound, NULL));
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    t_gate_shut(&bc.gate);
    assert_ok(ph_graph_replay(bc.graph, bc.world.stream));
    if (t_gate_held(&bc.gate)) {
        ph_progress at = bc_wait_until(2);
        assert_string_equal(at.open[0], "behind");
        assert_string_equal(at.open[1], "not in the capture/unwound");
    }
    t_gate_open(&bc.gate);
    assert_ok(ph_stream_synchronize(bc.world.stream));
    bc_assert_complete(3);
}

/* The inner scope's stream has joined the capture's again: a breadcrumb behind that would be work
 * that no join waits for. */
static ph_status unwound_behind_a_join(ph_stream *stream, void *user)
{
    (void)user;
    size_t depth = ph_annotation_depth();
    PH_TRY(ph_annotation_push(stream, "outer", NULL));
    PH_TRY(ph_stream_wait_stream(bc.side, stream));
    PH_TRY(ph_annotation_push(bc.side, "inner", NULL));
    PH_TRY(t_fill(&bc.world, bc.side, bc.x, BC_N, 1));
    PH_TRY(ph_stream_wait_stream(stream, bc.side));
    ph_annotation_unwind(depth);
    PH_TRY(t_gate_wait(&bc.gate, stream));
    PH_TRY(ph_annotation_push(stream, "after", NULL));
    PH_TRY(t_add(&bc.world, stream, bc.x, bc.y, BC_N, 1));
    return ph_annotation_pop(stream);
}

TEST(test_scopes_that_are_unwound_behind_a_join)
{
    assert_ok(
        ph_graph_capture(bc.graph, bc.world.stream, &bc_options, unwound_behind_a_join, NULL));
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    t_gate_shut(&bc.gate);
    assert_ok(ph_graph_replay(bc.graph, bc.world.stream));
    if (t_gate_held(&bc.gate)) {
        ph_progress at = bc_wait_until(2);
        assert_int_equal(at.count, 4); /* the beginnings of three, the end of one */
        assert_int_equal(at.open_count, 2);
        assert_string_equal(at.open[0], "outer/inner");
        assert_string_equal(at.open[1], "outer");
    }
    t_gate_open(&bc.gate);
    assert_ok(ph_stream_synchronize(bc.world.stream));
    bc_assert_complete(4);
    t_all(bc.y, BC_N, 2, bc.world.stream);
}

/* ---- behind the last breadcrumb ---- */
static ph_status last_is_late(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_annotation_push(stream, "a", NULL));
    PH_TRY(t_fill(&bc.world, stream, bc.x, BC_N, 1));
    PH_TRY(ph_annotation_pop(stream));
    return t_gate_wait(&bc.gate, stream);
}

TEST(test_a_hang_behind_the_last_breadcrumb)
{
    assert_ok(ph_graph_capture(bc.graph, bc.world.stream, &bc_options, last_is_late, NULL));
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    t_gate_shut(&bc.gate);
    assert_ok(ph_graph_replay(bc.graph, bc.world.stream));
    if (t_gate_held(&bc.gate)) {
        ph_progress at = bc_wait_until(2);
        assert_true(at.complete);
        assert_string_equal(
            at.message,
            "the last replay with breadcrumbs has passed all 2 breadcrumbs; if it still runs, what "
            "runs lies behind the last scope's end, or in no scope");
    }
    t_gate_open(&bc.gate);
    assert_ok(ph_stream_synchronize(bc.world.stream));
}

static ph_status one_breadcrumb(ph_stream *stream, void *user)
{
    (void)user;
    size_t depth = ph_annotation_depth();
    PH_TRY(t_fill(&bc.world, stream, bc.x, BC_N, 1));
    PH_TRY(t_gate_wait(&bc.gate, stream));
    PH_TRY(ph_annotation_push(stream, "a", NULL));
    PH_TRY(t_fill(&bc.world, stream, bc.x, BC_N, 2));
    ph_annotation_unwind(depth);
    return PH_OK;
}

TEST(test_one_breadcrumb)
{
    assert_ok(ph_graph_capture(bc.graph, bc.world.stream, &bc_options, one_breadcrumb, NULL));
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    t_gate_shut(&bc.gate);
    assert_ok(ph_graph_replay(bc.graph, bc.world.stream));
    if (t_gate_held(&bc.gate))
        assert_non_null(strstr(bc_wait_until(0).message,
                               "passed none of 1 breadcrumb: it has not come to \"a\""));
    t_gate_open(&bc.gate);
    assert_ok(ph_stream_synchronize(bc.world.stream));
    assert_string_equal(
        bc_where().message,
        "the last replay with breadcrumbs has passed the only breadcrumb; if it still runs, "
        "what runs lies behind the last breadcrumb, or in no scope");
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, bc_open, bc_close)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_a_replay_that_hangs),
        WITH_WORLD(test_outside_all_scopes),
        WITH_WORLD(test_scopes_on_several_streams),
        WITH_WORLD(an_open_scope_is_reported_with_its_path_and_pairs),
        WITH_WORLD(test_scopes_without_an_end),
        WITH_WORLD(test_scopes_that_are_unwound_behind_a_join),
        WITH_WORLD(test_a_hang_behind_the_last_breadcrumb),
        WITH_WORLD(test_one_breadcrumb),
    };
    return cmocka_run_group_tests_name("inspect.breadcrumbs", tests, NULL, NULL);
}
