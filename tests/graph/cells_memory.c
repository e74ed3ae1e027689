/* SPDX-License-Identifier: MIT */
/* tests/graph/cells_memory.c: whose memory cells are, and how its uses are ordered: resets with
 * replays in flight, other users, captures beside it. */
#include "support/cells.h"
#include "support/test.h"

static size_t allocated(void)
{
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, cs.world.device));
    return stats.allocated;
}

TEST(cells_lie_outside_pools_and_go_with_a_reset)
{
    const cs_plan p = {.sources = 2, .count = 2};
    ph_graph_memory memory;
    ph_allocation where;
    ph_pool *pool;
    size_t before = allocated();
    assert_ok(ph_pool_create(&pool, cs.world.device, NULL));
    assert_ok(ph_pool_begin(pool));
    assert_ok(ph_graph_capture(cs.graph, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&p));
    assert_ok(ph_pool_end(pool));
    assert_int_equal(allocated() - before, 4 * CS_BLOCK);
    for (size_t i = 0; i < 4; i++) {
        assert_ok(ph_memory_lookup(&where, cs.world.device, cs.cells[i / 2][i % 2]));
        assert_ptr_equal(where.base, cs.cells[i / 2][i % 2]);
        assert_null(where.pool);
        assert_int_equal(where.size, CS_BLOCK);
    }
    assert_ok(ph_graph_get_memory(&memory, cs.graph));
    assert_int_equal(memory.cells, 4 * CS_BLOCK);
    assert_int_equal(memory.pool_allocated, 0);
    assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
    cs_check(&p, cs.world.stream, 0);
    assert_ok(ph_graph_reset(cs.graph));
    assert_ok(ph_device_synchronize(cs.world.device));
    assert_ok(ph_memory_trim(cs.world.device));
    assert_int_equal(allocated(), before);
    assert_int_equal(cs.sources[0].released, 1);
    ph_pool_release(pool);
}

/* Liveness sees memory from elsewhere, and cells are the graph's own. */
TEST(the_liveness_check_passes_over_cells)
{
    const cs_plan p = {.sources = 1, .count = 2};
    const ph_capture_options options = {.check_input_liveness = true};
    assert_ok(
        ph_graph_capture(cs.graph, cs.world.stream, &options, cs_body, (void *)(uintptr_t)&p));
    assert_ok(ph_graph_check_inputs(cs.graph));
    assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
    cs_check(&p, cs.world.stream, 0);
}

/* The replay is held up; its graph goes, and what is allocated next must not get the cells
 * before it is over. */
TEST(test_a_reset_while_replays_are_in_flight)
{
    enum {
        BLOCKS = 64
    };
    const cs_plan p = {.sources = 1, .count = 2};
    uint64_t *block[BLOCKS];
    t_gate gate = {.behind = true};
    ph_stream *first = ph_device_default_stream(cs.world.device);
    assert_ok(ph_graph_capture(cs.graph, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&p));
    assert_ok(t_gate_wait_guarded(&gate, cs.side));
    assert_ok(ph_graph_replay(cs.graph, cs.side));
    assert_ok(ph_graph_reset(cs.graph));
    assert_int_equal(cs.sources[0].released, 1);
    bool reused = false;
    for (int i = 0; i < BLOCKS; i++) {
        assert_ok(PH_NEW(&block[i], 1, first));
        reused = reused || block[i] == cs.cells[0][0] || block[i] == cs.cells[0][1];
    }
    if (t_gate_held(&gate))
        assert_false(reused);
    t_gate_open(&gate);
    cs_check(&p, cs.side, 0);
    for (int i = 0; i < BLOCKS; i++)
        ph_free(block[i], first);
}

/* What used the memory before on the default stream, where it was freed, is over before a replay
 * writes it. */
TEST(test_memory_that_others_have_used)
{
    enum {
        BLOCKS = 64
    };
    const cs_plan p = {.sources = 1, .count = 2};
    ph_stream *first = ph_device_default_stream(cs.world.device);
    t_gate gate = {0};
    void *block[BLOCKS];
    bool again = false;
    for (int i = 0; i < BLOCKS; i++)
        assert_ok(ph_malloc(&block[i], 1, CS_BLOCK, first));
    assert_ok(t_gate_wait_guarded(&gate, first));
    for (int i = 0; i < BLOCKS; i++) {
        assert_ok(ph_memset(block[i], 0xab, CS_BLOCK, first));
        ph_free(block[i], first);
    }
    assert_ok(ph_graph_capture(cs.graph, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&p));
    for (int i = 0; i < BLOCKS; i++)
        again = again || block[i] == cs.cells[0][0];
    assert_true(again);
    assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
    t_gate_open(&gate);
    cs_check(&p, cs.world.stream, 0);
}

/* Beside a capture with blocking streams nothing can be recorded on the default stream, neither
 * at the capture's end nor later. */
TEST(test_beside_a_blocking_capture)
{
    const cs_plan p = {.sources = 1, .count = 2};
    const ph_stream_options options = {.blocking = true};
    ph_stream *blocking;
    ph_graph *other;
    assert_ok(ph_stream_create(&blocking, cs.world.device, &options));
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_graph_capture_begin(other, blocking, NULL));
    assert_ok(ph_memset(cs.y, 0, sizeof *cs.y, blocking));
    assert_ok(ph_graph_capture(cs.graph, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&p));
    assert_error(ph_graph_replay(cs.graph, cs.world.stream), PH_ERROR_CAPTURE,
                 "ordering the graph's cells");
    assert_native(906);
    assert_int_equal(cs.sources[0].asked, 0);
    assert_ok(ph_graph_capture_end(other, PH_OK));
    assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
    cs_check(&p, cs.world.stream, 0);
    assert_ok(ph_graph_reset(other));
    assert_ok(
        /* where it has replayed before it goes on doing so */
        ph_graph_capture_begin(other, blocking, NULL));
    assert_ok(ph_memset(cs.y + 100, 0, sizeof *cs.y, blocking));
    assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
    ph_graph_capture_abort(other);
    cs_check(&p, cs.world.stream, 0);
    ph_graph_destroy(other);
    ph_stream_destroy(blocking);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, cs_open, cs_close)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(cells_lie_outside_pools_and_go_with_a_reset),
        WITH_WORLD(the_liveness_check_passes_over_cells),
        WITH_WORLD(test_a_reset_while_replays_are_in_flight),
        WITH_WORLD(test_memory_that_others_have_used),
        WITH_WORLD(test_beside_a_blocking_capture),
    };
    return cmocka_run_group_tests_name("graph.cells_memory", tests, NULL, NULL);
}
