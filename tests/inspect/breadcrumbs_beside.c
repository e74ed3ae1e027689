/* SPDX-License-Identifier: MIT */
/* tests/inspect/breadcrumbs_beside.c: breadcrumbs beside other features, other replays and other
 * threads. */
#include "support/breadcrumbs.h"
#include "support/test.h"

#include <string.h>

/* ---- beside other features ---- */
static ph_status replay_it(ph_stream *stream, void *user)
{
    PH_TRY(t_fill(&bc.world, stream, bc.x, BC_N, 5));
    return ph_graph_replay(user, stream);
}

TEST(test_a_copy_in_another_graph_writes_nothing)
{
    ph_graph *outer;
    bc_capture();
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    bc_replay_and_wait(bc.graph);
    bc_assert_complete(8);
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture(outer, bc.world.stream, &bc_options, replay_it, bc.graph));
    assert_error(ph_graph_breadcrumbs_enable(outer, true), PH_ERROR_STATE, "left no breadcrumbs");
    t_gate_shut(&bc.gate);
    assert_ok(ph_graph_replay(outer, bc.world.stream));
    if (t_gate_held(&bc.gate))
        bc_assert_complete(8);
    t_gate_open(&bc.gate);
    assert_ok(ph_stream_synchronize(bc.world.stream));
    t_all(bc.y, BC_N, 2, bc.world.stream);
    ph_graph_destroy(outer);
}

static ph_status elsewhere(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_fill(&bc.world, stream, bc.x, BC_N, 1));
    PH_TRY(ph_annotation_push(stream, "a", NULL));
    PH_TRY(t_fill(&bc.world, stream, bc.x, BC_N, 1));
    return ph_annotation_pop(stream);
}

TEST(an_update_keeps_the_breadcrumbs_and_must_have_them_too)
{
    ph_graph *from;
    int32_t value = 7;
    assert_ok(ph_graph_create(&from, NULL));
    assert_ok(ph_graph_capture(from, bc.world.stream, &bc_options, bc_body, &value));
    bc_capture();
    for (int on = 0; on < 2; on++) {
        assert_ok(ph_graph_breadcrumbs_enable(bc.graph, on == 1));
        assert_ok(ph_graph_update(bc.graph, from, NULL));
        t_gate_shut(&bc.gate);
        assert_ok(ph_graph_replay(bc.graph, bc.world.stream));
        if (t_gate_held(&bc.gate) && on)
            assert_int_equal(bc_wait_until(4).open_count, 2);
        t_gate_open(&bc.gate);
        t_all(bc.y, BC_N, 8, bc.world.stream);
        ph_progress at;
        if (!on)
            assert_status(ph_graph_where(&at, bc.graph), PH_ERROR_STATE);
    }
    bc_assert_complete(8);
    assert_ok(ph_graph_reset(from));
    assert_ok(ph_graph_capture(from, bc.world.stream, NULL, bc_body, &value));
    assert_error(ph_graph_update(bc.graph, from, NULL), PH_ERROR_MISMATCH,
                 "from was captured without ph_capture_options.breadcrumbs, the graph with them");
    assert_error(ph_graph_update(from, bc.graph, NULL), PH_ERROR_MISMATCH,
                 "the graph was captured without ph_capture_options.breadcrumbs, from with them");
    assert_ok(ph_graph_reset(from));
    assert_ok(ph_graph_capture(from, bc.world.stream, &bc_options, bc_short_body, NULL));
    assert_error(ph_graph_update(bc.graph, from, NULL), PH_ERROR_MISMATCH,
                 "other scopes: it has 2 breadcrumbs, the graph 8");
    assert_ok(ph_graph_reset(from));
    assert_ok(ph_graph_reset(bc.graph));
    assert_ok(ph_graph_capture(bc.graph, bc.world.stream, &bc_options, bc_short_body, NULL));
    assert_ok(ph_graph_capture(from, bc.world.stream, &bc_options, elsewhere, NULL));
    assert_error(ph_graph_update(bc.graph, from, NULL), PH_ERROR_MISMATCH,
                 "and not at the same nodes");
    ph_graph_destroy(from);
}

/* Breadcrumbs are no inputs, and stand in no input's way. */
TEST(breadcrumbs_are_no_inputs_to_the_liveness_check)
{
    ph_graph *plain;
    size_t count, without;
    ph_capture_options options = bc_options, checked = {.check_input_liveness = true};
    options.check_input_liveness = true;
    assert_ok(ph_graph_create(&plain, NULL));
    assert_ok(ph_graph_capture(plain, bc.world.stream, &checked, bc_body, NULL));
    assert_ok(ph_graph_capture(bc.graph, bc.world.stream, &options, bc_body, NULL));
    assert_ok(ph_graph_input_count(&count, bc.graph));
    assert_ok(ph_graph_input_count(&without, plain));
    assert_int_equal(count, without);
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    bc_replay_and_wait(bc.graph);
    bc_assert_complete(8);
    assert_ok(ph_graph_check_inputs(bc.graph));
    ph_graph_destroy(plain);
}

/* ---- several replays ---- */
TEST(test_many_replays_in_flight)
{
    bc_capture();
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    for (int i = 0; i < 200; i++) {
        assert_ok(ph_graph_replay(bc.graph, i % 3 ? bc.world.stream : bc.side));
        ph_progress at;
        if (ph_graph_where(&at, bc.graph) == PH_OK)
            assert_true(at.passed <= at.count && at.open_count <= 2);
    }
    assert_ok(ph_device_synchronize(bc.world.device));
    bc_assert_complete(8);
    assert_ok(ph_graph_replay(bc.graph, bc.side));
    assert_ok(ph_graph_reset(bc.graph)); /* with a replay in flight: it keeps what it writes */
    assert_ok(ph_device_synchronize(bc.world.device));
}

/* ---- threads ---- */
typedef struct worker {
    pthread_t thread;
    ph_stream *stream;
    int32_t *at;
    const char *name;
    ph_status status;
} worker;

enum {
    SCOPES = 20
};

static void *work(void *argument)
{
    worker *w = argument;
    for (int i = 0; i < SCOPES && w->status == PH_OK; i++) {
        w->status = ph_annotation_push(w->stream, w->name, NULL);
        if (w->status == PH_OK)
            w->status = t_fill(&bc.world, w->stream, w->at, BC_N, i);
        if (w->status == PH_OK)
            w->status = ph_annotation_pop(w->stream);
    }
    return NULL;
}

TEST(scopes_of_several_threads_all_leave_their_breadcrumbs)
{
    ph_capture_options options = bc_options;
    worker workers[2] = {{.stream = bc.world.stream, .at = bc.x, .name = "mine"},
                         {.stream = bc.side, .at = bc.y, .name = "theirs"}};
    options.mode = PH_CAPTURE_RELAXED;
    assert_ok(ph_graph_capture_begin(bc.graph, bc.world.stream, &options));
    assert_ok(t_fill(&bc.world, bc.world.stream, bc.x, BC_N, 1));
    assert_ok(ph_stream_wait_stream(bc.side, bc.world.stream));
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].status, PH_OK);
    }
    assert_ok(ph_stream_wait_stream(bc.world.stream, bc.side));
    assert_ok(ph_graph_capture_end(bc.graph, PH_OK));
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    bc_replay_and_wait(bc.graph);
    bc_assert_complete(2 * 2 * SCOPES);
    assert_true(strcmp(bc_where().last, "mine") == 0 || strcmp(bc_where().last, "theirs") == 0);
    t_all(bc.x, BC_N, SCOPES - 1, bc.world.stream);
    t_all(bc.y, BC_N, SCOPES - 1, bc.world.stream);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, bc_open, bc_close)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_a_copy_in_another_graph_writes_nothing),
        WITH_WORLD(an_update_keeps_the_breadcrumbs_and_must_have_them_too),
        WITH_WORLD(breadcrumbs_are_no_inputs_to_the_liveness_check),
        WITH_WORLD(test_many_replays_in_flight),
        WITH_WORLD(scopes_of_several_threads_all_leave_their_breadcrumbs),
    };
    return cmocka_run_group_tests_name("inspect.breadcrumbs_beside", tests, NULL, NULL);
}
