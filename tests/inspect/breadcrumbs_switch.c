/* SPDX-License-Identifier: MIT */
/* tests/inspect/breadcrumbs_switch.c: breadcrumbs switched on and off, what they cost when they are
 * off, and the nodes that they are. */
#include "support/breadcrumbs.h"
#include "support/fault.h"

#include "driver/driver.h"
#include "support/test.h"
#include <string.h>

static int64_t driver_calls_of_a_replay(ph_graph *which)
{
    bc_replay_and_wait(which); /* the first one notes the stream */
    int64_t before = ph__driver_calls();
    assert_ok(ph_graph_replay(which, bc.world.stream));
    int64_t calls = ph__driver_calls() - before;
    assert_ok(ph_stream_synchronize(bc.world.stream));
    return calls;
}

TEST(test_off_costs_and_writes_nothing)
{
    ph_graph *plain;
    ph_graph_memory memory;
    ph_progress at;
    assert_ok(ph_graph_create(&plain, NULL));
    assert_ok(ph_graph_capture(plain, bc.world.stream, NULL, bc_body, NULL));
    bc_capture();
    assert_int_equal(driver_calls_of_a_replay(bc.graph), driver_calls_of_a_replay(plain));
    assert_ok(ph_graph_get_memory(&memory, bc.graph));
    assert_int_equal(memory.pinned, 0);
    assert_error(ph_graph_where(&at, bc.graph), PH_ERROR_STATE, "no replay has begun");
    assert_null(at.open);
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    assert_error(ph_graph_where(&at, bc.graph), PH_ERROR_STATE, "no replay has begun");
    assert_int_equal(driver_calls_of_a_replay(bc.graph), driver_calls_of_a_replay(plain));
    assert_ok(ph_graph_get_memory(&memory, bc.graph));
    assert_int_equal(memory.pinned, 9 * sizeof(uint64_t));
    bc_assert_complete(8);
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, false));
    t_gate_shut(&bc.gate);
    assert_ok(ph_graph_replay(bc.graph, bc.world.stream));
    if (t_gate_held(&bc.gate))
        bc_assert_complete(8); /* of the one before it */
    t_gate_open(&bc.gate);
    assert_ok(ph_stream_synchronize(bc.world.stream));
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    t_gate_shut(&bc.gate);
    assert_ok(ph_graph_replay(bc.graph, bc.world.stream));
    if (t_gate_held(&bc.gate))
        assert_int_equal(bc_wait_until(4).open_count, 2);
    t_gate_open(&bc.gate);
    assert_ok(ph_stream_synchronize(bc.world.stream));
    ph_graph_destroy(plain);
}

/* Nodes of the record are breadcrumbs by their name. */
static bool is_breadcrumb(size_t node)
{
    const ph_record *record;
    ph_node_info info;
    assert_ok(ph_graph_record(&record, bc.graph));
    assert_ok(ph_record_node(&info, record, node));
    return strcmp(info.name, "phonograph_breadcrumb") == 0;
}

TEST(test_breadcrumbs_as_nodes)
{
    const ph_record *record;
    size_t breadcrumbs = 0, some = 0;
    bool enabled;
    bc_capture();
    assert_ok(ph_graph_record(&record, bc.graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        if (!is_breadcrumb(i))
            continue;
        breadcrumbs++;
        some = i;
        assert_ok(ph_graph_node_get_enabled(&enabled, bc.graph, i));
        assert_false(enabled);
    }
    assert_int_equal(breadcrumbs, 8 + 1); /* and the one that comes before all */
    const uint64_t args[2] = {0};
    assert_error(ph_graph_node_set_launch(bc.graph, some, NULL, args, sizeof args),
                 PH_ERROR_UNSUPPORTED, "ph_graph_breadcrumbs_enable");
    assert_ok(ph_graph_node_set_enabled(bc.graph, some, true)); /* it has nothing to write yet */
    bc_replay_and_wait(bc.graph);
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    assert_ok(ph_graph_node_set_enabled(bc.graph, some, false));
    bc_replay_and_wait(bc.graph);
    assert_int_equal(bc_where().passed, 7);
}

TEST(test_a_new_executable)
{
    ph_graph_options options = {.keep_graph = true};
    ph_graph_destroy(bc.graph);
    assert_ok(ph_graph_create(&bc.graph, &options));
    bc_capture();
    assert_error(ph_graph_breadcrumbs_enable(bc.graph, true), PH_ERROR_STATE, "no executable");
    assert_ok(ph_graph_instantiate(bc.graph));
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    bc_replay_and_wait(bc.graph);
    bc_assert_complete(8);
    assert_ok(ph_graph_instantiate(bc.graph)); /* off again */
    t_gate_shut(&bc.gate);
    assert_ok(ph_graph_replay(bc.graph, bc.world.stream));
    if (t_gate_held(&bc.gate))
        bc_assert_complete(8);
    t_gate_open(&bc.gate);
    assert_ok(ph_stream_synchronize(bc.world.stream));
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    bc_replay_and_wait(bc.graph);
    bc_assert_complete(8);
    assert_ok(ph_graph_reset(bc.graph));
    ph_progress at;
    assert_error(ph_graph_where(&at, bc.graph), PH_ERROR_STATE, "NEW");
    bc_capture();
    assert_error(ph_graph_where(&at, bc.graph), PH_ERROR_STATE, "no replay has begun");
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, bc_open, bc_close)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_off_costs_and_writes_nothing),
        WITH_WORLD(test_breadcrumbs_as_nodes),
        WITH_WORLD(test_a_new_executable),
    };
    return cmocka_run_group_tests_name("inspect.breadcrumbs_switch", tests, NULL, NULL);
}
