/* SPDX-License-Identifier: MIT */
/* tests/graph/events.c: events and the edges of captures: external waits before any record, and
 * events whose capture is over. */
#include "support/support.h"
#include "support/test.h"
#include <phonograph/graph.h>
#include <phonograph/inspect/record.h>
#include <string.h>

/* What a replay waits for is recorded after the capture, so that the wait must be a node now. */
TEST(an_external_wait_needs_no_record_before)
{
    t_world world;
    t_gate gate = {0};
    ph_stream *other;
    ph_event *external;
    ph_graph *graph;
    int32_t *x;
    const ph_record *record;
    ph_node_info node;
    bool done = true;
    t_open(&world, NULL);
    assert_ok(ph_stream_create(&other, world.device, NULL));
    assert_ok(ph_event_create(&external, world.device, &(ph_event_options){.external = true}));
    assert_ok(PH_NEW(&x, 64, world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_stream_wait_event(world.stream, external));
    assert_ok(t_fill(&world, world.stream, x, 64, 5));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), 2);
    assert_ok(ph_record_node(&node, record, 0));
    assert_int_equal(node.kind, PH_NODE_EVENT_WAIT);
    assert_ok(ph_graph_replay(graph, world.stream)); /* nothing is recorded: no wait */
    t_all(x, 64, 5, world.stream);
    assert_ok(t_gate_wait_guarded(&gate, other));
    assert_ok(ph_event_record(external, other));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_query(&done, world.stream));
    if (t_gate_held(&gate))
        assert_false(done);
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(world.stream));
    ph_graph_destroy(graph);
    ph_free(x, world.stream);
    ph_event_destroy(external);
    ph_stream_destroy(other);
    t_close(&world);
}

/* Such an event stays one that never completes; the words must not speak of a capture that is
 * open. */
TEST(an_event_of_a_capture_that_is_over)
{
    t_world world;
    ph_event *event;
    ph_graph *graph;
    bool done;
    t_open(&world, NULL);
    assert_ok(ph_event_create(&event, world.device, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_event_record(event, world.stream));
    assert_error(ph_event_query(&done, event), PH_ERROR_CAPTURE,
                 "refused before it could harm the capture");
    assert_native(907);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_error(ph_event_query(&done, event), PH_ERROR_CAPTURE, "a capture, which is over");
    assert_native(907);
    assert_null(strstr(ph_error_last()->message, "could harm the capture"));
    assert_error(ph_event_synchronize(event), PH_ERROR_CAPTURE, "record it again");
    assert_native(907);
    assert_ok(ph_event_record(event, world.stream));
    assert_ok(ph_event_synchronize(event));
    ph_graph_destroy(graph);
    ph_event_destroy(event);
    t_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_external_wait_needs_no_record_before),
        cmocka_unit_test(an_event_of_a_capture_that_is_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
