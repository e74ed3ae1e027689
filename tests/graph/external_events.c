/* SPDX-License-Identifier: MIT */
/* tests/graph/external_events.c: event nodes mean what CUDA's mean: a launch records its events
 * and binds its waits when it is launched, not when the node runs (measured on an H200, see
 * docs/design/driver-facts.md). */
#include "support/support.h"

#include "base/alloc.h"
#include "support/test.h"
#include <stdio.h>

static t_world world;
static ph_stream *a, *b;
static ph_event *event, *other;
static ph_graph *graph;
static t_gate gate, second;
static int32_t *x, *y;

static void open_on(const char *device)
{
    ph_event_options external = {.external = true};
    t_open(&world, device);
    a = world.stream;
    assert_ok(ph_stream_create(&b, world.device, NULL));
    assert_ok(ph_event_create(&event, world.device, &external));
    assert_ok(ph_event_create(&other, world.device, &external));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(PH_NEW(&x, 4, a));
    assert_ok(PH_NEW(&y, 4, a));
    assert_ok(t_fill(&world, a, x, 4, 0));
    assert_ok(t_fill(&world, a, y, 4, 0));
    assert_ok(ph_device_synchronize(world.device));
}

static void close_all(void)
{
    ph_graph_destroy(graph);
    ph_event_destroy(event);
    ph_event_destroy(other);
    ph_free(x, a);
    ph_free(y, a);
    ph_stream_destroy(b);
    t_close(&world);
}

static ph_status work_then_record(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_gate_wait(&gate, stream));
    PH_TRY(t_add(&world, stream, x, x, 4, 1));
    return ph_event_record(event, stream);
}

TEST(a_launch_records_its_events_at_once)
{
    bool done;
    open_on(NULL);
    assert_ok(ph_event_record(event, b));
    assert_ok(ph_event_synchronize(event));
    assert_ok(ph_graph_capture(graph, a, NULL, work_then_record, NULL));
    assert_error(ph_graph_node_set_enabled(graph, 2, false), PH_ERROR_UNSUPPORTED,
                 "node 2 is an event_record node");
    assert_ok(ph_event_query(&done, event));
    assert_true(done);
    for (int i = 1; i <= 2; i++) {
        t_gate_shut(&gate);
        assert_ok(ph_graph_replay(graph, a));
        assert_ok(ph_event_query(&done, event));
        if (t_gate_held(&gate))
            assert_false(done);
        assert_ok(ph_stream_wait_event(b, event));
        assert_ok(t_add(&world, b, x, y, 4, 0));
        t_gate_open(&gate);
        t_all(y, 4, i, b);
        assert_ok(ph_stream_synchronize(a));
        assert_ok(ph_event_query(&done, event));
        assert_true(done);
    }
    close_all();
}

static ph_status wait_then_work(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_stream_wait_event(stream, event));
    return t_add(&world, stream, x, y, 4, 0);
}

TEST(a_wait_is_bound_at_the_launch)
{
    open_on(NULL);
    assert_ok(ph_event_record(event, b));
    assert_ok(ph_graph_capture(graph, a, NULL, wait_then_work, NULL));
    /* A record before the launch is waited for, */
    atomic_store(&gate.open, 0);
    assert_ok(t_gate_wait_guarded(&gate, b));
    assert_ok(t_fill(&world, b, x, 4, 7));
    assert_ok(ph_event_record(event, b));
    assert_ok(ph_graph_replay(graph, a));
    bool done;
    assert_ok(ph_stream_query(&done, a));
    if (t_gate_held(&gate))
        assert_false(done);
    t_gate_open(&gate);
    t_all(y, 4, 7, a);
    /* one after it is not. */
    t_gate_shut(&gate);
    atomic_store(&second.open, 0);
    assert_ok(t_gate_wait(&gate, a));
    assert_ok(ph_graph_replay(graph, a));
    assert_ok(t_gate_wait_guarded(&second, b));
    assert_ok(ph_event_record(event, b));
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(a));
    t_gate_open(&second);
    assert_ok(ph_stream_synchronize(b));
    close_all();
}

static ph_status wait_then_record(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_stream_wait_event(stream, event));
    PH_TRY(t_add(&world, stream, x, x, 4, 1));
    return ph_event_record(event, stream);
}

TEST(a_wait_before_its_own_record_waits_for_the_launch_before)
{
    static const char *const devices[] = {NULL, "host:chaos=1", "host:chaos=2", "host:chaos=3"};
    for (size_t i = 0; i < (t_on_host() ? sizeof devices / sizeof devices[0] : 1); i++) {
        open_on(devices[i]);
        assert_ok(ph_event_record(event, b));
        assert_ok(ph_graph_capture(graph, a, NULL, wait_then_record, NULL));
        for (int k = 0; k < 5; k++)
            assert_ok(ph_graph_replay(graph, k % 2 ? a : b));
        assert_ok(ph_stream_wait_event(a, event));
        t_all(x, 4, 5, a);
        close_all();
    }
}

static ph_status forward(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_stream_wait_event(stream, other));
    PH_TRY(t_add(&world, stream, y, x, 4, 1));
    return ph_event_record(event, stream);
}

/* Two graphs that hand work to each other through external events; on the host under random
 * orders. */
TEST(graphs_are_ordered_by_external_events)
{
    for (int seed = 1; seed <= 20; seed++) {
        char name[32];
        ph_graph *back;
        (void)snprintf(name, sizeof name, "host:chaos=%d", seed);
        open_on(t_on_host() ? name : NULL);
        assert_ok(ph_graph_create(&back, NULL));
        assert_ok(ph_event_record(event, a));
        assert_ok(ph_event_record(other, b));
        assert_ok(
            /* waits for other; x = y + 1; records event */
            ph_graph_capture(graph, a, NULL, forward, NULL));
        /* waits for event; y = x + 1; records other */
        assert_ok(ph_graph_capture_begin(back, b, NULL));
        assert_ok(ph_stream_wait_event(b, event));
        assert_ok(t_add(&world, b, x, y, 4, 1));
        assert_ok(ph_event_record(other, b));
        assert_ok(ph_graph_capture_end(back, PH_OK));
        for (int i = 0; i < 4; i++) {
            assert_ok(ph_graph_replay(graph, a));
            assert_ok(ph_graph_replay(back, b));
        }
        assert_ok(ph_device_synchronize(world.device));
        t_all(y, 4, 8, b);
        ph_graph_destroy(back);
        close_all();
    }
}

/* ---- events that go before the graphs that they are nodes of ---- */

/* The user lets go of both right behind their submission. */
static ph_status record_and_wait_briefly(ph_stream *stream, void *user)
{
    const ph_event_options external = {.external = true};
    ph_event *brief = NULL;
    (void)user;
    PH_TRY(ph_event_create(&brief, world.device, &external));
    ph_status status = t_add(&world, stream, x, x, 4, 1);
    if (status == PH_OK)
        status = ph_event_record(brief, stream);
    if (status == PH_OK)
        status = ph_stream_wait_event(stream, brief);
    ph_event_destroy(brief);
    return status;
}

static void replay_and_check(ph_graph *of, int32_t *value)
{
    assert_ok(ph_graph_replay(of, a));
    t_all(x, 4, ++*value, a);
}

static ph_status replay_inner(ph_stream *stream, void *inner)
{
    return ph_graph_replay(inner, stream);
}

TEST(an_event_may_go_before_its_graph)
{
    int32_t value = 0;
    ph_graph *outer, *from;
    const ph_graph_options kept = {.keep_graph = true};
    open_on(NULL);
    assert_ok(ph_graph_capture(graph, a, NULL, record_and_wait_briefly, NULL));
    replay_and_check(graph, &value);
    replay_and_check(graph, &value);
    /* In a copy of the graph, which outlives it. */
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture(outer, a, NULL, replay_inner, graph));
    assert_ok(ph_graph_reset(graph));
    replay_and_check(outer, &value);
    ph_graph_destroy(outer);
    /* Brought by an update, from a graph that goes. */
    assert_ok(ph_graph_capture(graph, a, NULL, record_and_wait_briefly, NULL));
    assert_ok(ph_graph_create(&from, &kept));
    assert_ok(ph_graph_capture(from, a, NULL, record_and_wait_briefly, NULL));
    assert_ok(ph_graph_update(graph, from, NULL));
    ph_graph_destroy(from);
    replay_and_check(graph, &value);
    /* And of a capture that comes to nothing. */
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture_begin(graph, a, NULL));
    assert_ok(record_and_wait_briefly(a, NULL));
    ph_graph_capture_abort(graph);
    close_all();
    assert_int_equal(ph__alloc_live(), 0);
}

/* Its record in the capture is a node, and the event is as it was: asked like any event that no
 * capture orders. */
static ph_status ask_while_capturing(ph_stream *stream, void *user)
{
    const bool *allowed = user;
    bool done = false;
    PH_TRY(ph_event_record(event, stream));
    if (*allowed) {
        assert_ok(ph_event_query(&done, event));
        assert_true(done);
        assert_ok(ph_event_synchronize(event));
        return PH_OK;
    }
    assert_error(ph_event_query(&done, event), PH_ERROR_CAPTURE,
                 "ph_event_query (an event recorded outside of captures, or external)");
    assert_native(900);
    assert_error(ph_event_synchronize(event), PH_ERROR_CAPTURE,
                 "ph_event_synchronize (an event recorded outside of captures, or external)");
    assert_native(900);
    return PH_OK;
}

TEST(asking_one_that_the_capture_records)
{
    open_on(NULL);
    for (int relaxed = 0; relaxed < 2; relaxed++) {
        bool allowed = relaxed, done;
        ph_capture_options options = {.mode = relaxed ? PH_CAPTURE_RELAXED : PH_CAPTURE_GLOBAL};
        assert_ok(ph_graph_capture(graph, a, &options, ask_while_capturing, &allowed));
        assert_ok(ph_graph_replay(graph, a));
        assert_ok(ph_event_synchronize(event));
        assert_ok(ph_event_query(&done, event));
        assert_true(done);
        assert_ok(ph_graph_reset(graph));
    }
    close_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_launch_records_its_events_at_once),
        cmocka_unit_test(a_wait_is_bound_at_the_launch),
        cmocka_unit_test(a_wait_before_its_own_record_waits_for_the_launch_before),
        cmocka_unit_test(graphs_are_ordered_by_external_events),
        cmocka_unit_test(an_event_may_go_before_its_graph),
        cmocka_unit_test(asking_one_that_the_capture_records),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
