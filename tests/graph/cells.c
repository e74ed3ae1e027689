/* SPDX-License-Identifier: MIT */
/* tests/graph/cells.c: values that a graph takes anew at each replay: forks, many of them,
 * launches in flight, and the nodes that write them. */
#include "support/cells.h"
#include "support/test.h"
#include <string.h>

static void run(const cs_plan *p)
{
    assert_ok(ph_graph_capture(cs.graph, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)p));
    for (int replay = 0; replay < 3; replay++) {
        assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
        cs_check(p, cs.world.stream, p->fork != NULL);
    }
    for (size_t i = 0; i < p->sources; i++) {
        assert_int_equal(cs.sources[i].asked, 3);
        assert_int_equal(cs.sources[i].out, 3);
        assert_int_equal(cs.sources[i].stopped, 0);
        assert_int_equal(cs.sources[i].captured, 1);
        assert_int_equal(cs.sources[i].released, 0);
    }
}

/* ---- values ---- */
TEST(test_each_replay_has_its_own)
{
    run(&(cs_plan){.sources = 1, .count = 2});
}

TEST(test_a_fork_after_the_first_cell)
{
    run(&(cs_plan){.sources = 2, .count = 1, .fork = cs.side});
}

TEST(test_a_fork_before_the_first_cell)
{
    run(&(cs_plan){.sources = 1, .count = 2, .fork = cs.side, .fork_first = true});
}

TEST(test_cells_made_on_a_fork)
{
    run(&(cs_plan){
        .sources = 1, .count = 2, .fork = cs.side, .fork_first = true, .create_on_fork = true});
}

/* 400 cells: more than one node carries. */
TEST(test_many_sources)
{
    const ph_record *record;
    run(&(cs_plan){.sources = CS_MOST, .count = 4, .fork = cs.side, .fork_first = true});
    assert_ok(ph_graph_record(&record, cs.graph));
    size_t roots = 0;
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        ph_node_info info;
        assert_ok(ph_record_node(&info, record, i));
        roots += strncmp(info.name, "ph_core_cells", 13) == 0;
    }
    assert_int_equal(roots, 1 + (400 - 8 + 59) / 60);
}

TEST(test_sixteen_cells_of_one_source)
{
    uint64_t seen[PH_CELLS_MAX];
    assert_ok(ph_graph_capture_begin(cs.graph, cs.world.stream, NULL));
    cs.sources[0].count = PH_CELLS_MAX;
    assert_ok(cs_make_of(cs.cells[0], cs.world.stream, &cs.sources[0]));
    for (size_t i = 0; i < PH_CELLS_MAX; i++)
        assert_ok(ph_memcpy(&cs.y[i], cs.cells[0][i], sizeof *cs.y, cs.world.stream));
    assert_ok(ph_graph_capture_end(cs.graph, PH_OK));
    assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
    t_read(seen, cs.y, sizeof seen, cs.world.stream);
    for (size_t i = 0; i < PH_CELLS_MAX; i++)
        assert_int_equal(seen[i], 1000 + 100 * i);
}

/* Replays that wait behind a gate have kept what their sources said when they were submitted. */
TEST(test_replays_in_flight_keep_theirs)
{
    enum {
        REPLAYS = 5
    };
    const cs_plan p = {.sources = 1, .count = 2};
    uint64_t seen[2 * REPLAYS];
    t_gate gate = {0};
    assert_ok(ph_graph_capture(cs.graph, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&p));
    assert_ok(t_gate_wait_guarded(&gate, cs.world.stream));
    for (size_t i = 0; i < REPLAYS; i++) {
        assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
        assert_ok(ph_memcpy(cs.y + 10 + 2 * i, cs.y, 2 * sizeof *cs.y, cs.world.stream));
    }
    assert_int_equal(cs.sources[0].asked, REPLAYS);
    t_gate_open(&gate);
    t_read(seen, cs.y + 10, sizeof seen, cs.world.stream);
    for (size_t i = 0; i < REPLAYS; i++) {
        assert_int_equal(seen[2 * i], 1000 + i);
        assert_int_equal(seen[2 * i + 1], 1100 + i);
    }
}

/* Two graphs in flight at once, on two streams, with one source between them. */
TEST(test_two_graphs_of_one_source)
{
    uint64_t *cell[2], seen[2];
    t_gate gate = {0};
    ph_stream *streams[2] = {cs.world.stream, cs.side};
    ph_graph *graphs[2];
    cs.sources[0].count = 1;
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_graph_create(&graphs[i], NULL));
        assert_ok(ph_graph_capture_begin(graphs[i], streams[i], NULL));
        assert_ok(cs_make_of(&cell[i], streams[i], &cs.sources[0]));
        assert_ok(ph_memcpy(&cs.y[i], cell[i], sizeof *cs.y, streams[i]));
        assert_ok(ph_graph_capture_end(graphs[i], PH_OK));
    }
    assert_ptr_not_equal(cell[0], cell[1]);
    /* One gate for both: on a GPU one thread may run the host functions of all streams. */
    assert_ok(t_gate_wait_guarded(&gate, streams[0]));
    assert_ok(ph_stream_wait_stream(streams[1], streams[0]));
    for (int i = 0; i < 2; i++)
        assert_ok(ph_graph_replay(graphs[i], streams[i]));
    t_gate_open(&gate);
    for (int i = 0; i < 2; i++) {
        t_read(&seen[i], &cs.y[i], sizeof *cs.y, streams[i]);
        assert_int_equal(seen[i], 1000 + i);
    }
    for (int i = 0; i < 2; i++)
        ph_graph_destroy(graphs[i]);
    assert_int_equal(cs.sources[0].captured, 2);
    assert_int_equal(cs.sources[0].released, 2);
}

/* keep_graph: what replays first after another instantiate has its values, though they did not
 * change. */
TEST(test_instantiated_again)
{
    const cs_plan p = {.sources = 2, .count = 2};
    const ph_graph_options keep = {.keep_graph = true};
    ph_graph_destroy(cs.graph);
    assert_ok(ph_graph_create(&cs.graph, &keep));
    cs.sources[0].step = cs.sources[1].step = 0;
    assert_ok(ph_graph_capture(cs.graph, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&p));
    for (int i = 0; i < 3; i++) {
        assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
        cs_check(&p, cs.world.stream, 0);
        assert_ok(ph_graph_instantiate(cs.graph));
    }
    assert_int_equal(cs.sources[0].captured, 1);
}

/* ---- the nodes ---- */
static size_t root_of(const ph_record *record)
{
    ph_node_info info;
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        assert_ok(ph_record_node(&info, record, i));
        if (strncmp(info.name, "ph_core_cells", 13) == 0)
            return i;
    }
    fail_msg("no node writes cells");
    return 0;
}

static bool depends_on(const ph_record *record, size_t node, size_t root)
{
    ph_node_info info;
    assert_ok(ph_record_node(&info, record, node));
    for (size_t i = 0; i < info.dependency_count; i++)
        if (ph_record_dependencies(record, node)[i] == root)
            return true;
    return false;
}

TEST(test_the_record)
{
    const cs_plan p = {.sources = 1, .count = 2};
    const ph_record *record;
    ph_node_info info;
    ph_word word;
    assert_ok(ph_graph_capture(cs.graph, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&p));
    assert_ok(ph_graph_record(&record, cs.graph));
    size_t root = root_of(record);
    assert_ok(ph_record_node(&info, record, root));
    assert_int_equal(info.dependency_count, 0);
    assert_int_equal(info.grid[0], 1);
    assert_string_equal(info.name, "ph_core_cells_8");
    assert_ok(ph_record_word(&word, record, root, 0));
    assert_string_equal(word.name, "count");
    assert_int_equal(word.value, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_ok(ph_record_word(&word, record, root, 1 + 2 * i));
        assert_int_equal(word.kind, PH_WORD_PROVED);
        assert_int_equal(word.value, (uintptr_t)cs.cells[0][i]);
        assert_ptr_equal(word.base, cs.cells[0][i]);
        assert_int_equal(word.allocation_bytes, CS_BLOCK);
        assert_true(word.internal);
        assert_ok(ph_record_word(&word, record, root, 2 + 2 * i));
        assert_int_equal(word.kind, PH_WORD_VALUE);
    }
    assert_ok(ph_record_word(&word, record, root, 1));
    assert_string_equal(word.name, "at0");
    char *text;
    assert_ok(ph_record_json(&text, record));
    assert_non_null(strstr(text, "ph_core_cells_8"));
    ph_string_free(text);
}

/* What stands before the first cell is not put behind it. */
TEST(test_what_comes_before_stays_before)
{
    const cs_plan p = {.sources = 1, .count = 1, .fork = cs.side, .fork_first = true};
    const ph_record *record;
    ph_node_info info;
    assert_ok(ph_graph_capture(cs.graph, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&p));
    assert_ok(ph_graph_record(&record, cs.graph));
    size_t root = root_of(record), behind = 0;
    assert_int_equal(ph_record_node_count(record), 4); /* a fill, the root, a copy on each stream */
    for (size_t i = 0; i < 4; i++) {
        assert_ok(ph_record_node(&info, record, i));
        behind += depends_on(record, i, root);
        if (info.kind == PH_NODE_MEMSET)
            assert_false(depends_on(record, i, root));
        if (info.kind == PH_NODE_MEMCPY)
            assert_int_equal(info.dependency_count, 2);
    }
    assert_int_equal(behind, 2);
}

/* A launch that may begin before the one before it has ended begins after the cells are written
 * all the same. */
TEST(test_a_programmatic_launch)
{
    const ph_record *record;
    ph_node_info info;
    ph_edge_kind kind;
    ph_launch_config config = t_config(1);
    config.programmatic = true;
    int32_t *to = (int32_t *)(void *)cs.y;
    struct t_add_i32 args = {1, to, to, 0};
    cs.sources[0].count = 1;
    assert_ok(ph_graph_capture_begin(cs.graph, cs.world.stream, NULL));
    assert_ok(ph_launch(cs.world.stream, cs.world.add_i32, &config, &args, sizeof args));
    assert_ok(cs_make_of(cs.cells[0], cs.world.stream, &cs.sources[0]));
    args.x = (const int32_t *)(const void *)cs.cells[0][0];
    assert_ok(ph_launch(cs.world.stream, cs.world.add_i32, &config, &args, sizeof args));
    args.x = to;
    assert_ok(ph_launch(cs.world.stream, cs.world.add_i32, &config, &args, sizeof args));
    assert_ok(ph_graph_capture_end(cs.graph, PH_OK));
    assert_ok(ph_graph_record(&record, cs.graph));
    size_t root = root_of(record), behind = 0;
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        assert_ok(ph_record_node(&info, record, i));
        for (size_t d = 0; d < info.dependency_count && depends_on(record, i, root); d++) {
            assert_ok(ph_record_edge(&kind, record, i, d));
            assert_int_equal(kind, PH_EDGE_FULL);
            behind++;
        }
    }
    assert_int_equal(behind, 2); /* one node, both its edges */
    for (int i = 0; i < 3; i++) {
        assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
        t_all(to, 1, 1000 + i, cs.world.stream);
    }
}

TEST(test_what_writes_cells_is_left_alone)
{
    const cs_plan p = {.sources = 1, .count = 2};
    const ph_record *record;
    ph_node_info info;
    bool enabled = false;
    assert_ok(ph_graph_capture(cs.graph, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&p));
    assert_ok(ph_graph_record(&record, cs.graph));
    size_t root = root_of(record);
    assert_ok(ph_record_node(&info, record, root));
    assert_error(ph_graph_node_set_launch(cs.graph, root, NULL, info.args, info.args_size),
                 PH_ERROR_UNSUPPORTED, "writes the graph's cells");
    assert_error(ph_graph_node_set_enabled(cs.graph, root, false), PH_ERROR_UNSUPPORTED, "cells");
    assert_ok(ph_graph_node_get_enabled(&enabled, cs.graph, root));
    assert_true(enabled);
    assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
    cs_check(&p, cs.world.stream, 0);
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, cs_open, cs_close)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_each_replay_has_its_own),
        WITH_WORLD(test_a_fork_after_the_first_cell),
        WITH_WORLD(test_a_fork_before_the_first_cell),
        WITH_WORLD(test_cells_made_on_a_fork),
        WITH_WORLD(test_many_sources),
        WITH_WORLD(test_sixteen_cells_of_one_source),
        WITH_WORLD(test_replays_in_flight_keep_theirs),
        WITH_WORLD(test_two_graphs_of_one_source),
        WITH_WORLD(test_instantiated_again),
        WITH_WORLD(test_the_record),
        WITH_WORLD(test_what_comes_before_stays_before),
        WITH_WORLD(test_a_programmatic_launch),
        WITH_WORLD(test_what_writes_cells_is_left_alone),
    };
    return cmocka_run_group_tests_name("graph.cells", tests, NULL, NULL);
}
