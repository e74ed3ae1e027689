/* SPDX-License-Identifier: MIT */
/* tests/graph/changes.c: ph_graph_get_changes: uploads, updates, launches that were set, and nodes
 * whose grid or block changed. */
#include "support/uploads.h"

#include "support/test.h"

static const ph_graph_options keep = {.keep_graph = true};

static ph_graph_changes changes_of(ph_graph *graph)
{
    ph_graph_changes changes;
    assert_ok(ph_graph_get_changes(&changes, graph));
    return changes;
}

static void check(ph_graph *graph, uint64_t uploads, uint64_t updates, uint64_t sets,
                  size_t demoted)
{
    ph_graph_changes changes = changes_of(graph);
    assert_int_equal(changes.uploads, uploads);
    assert_int_equal(changes.updates, updates);
    assert_int_equal(changes.sets, sets);
    assert_int_equal(changes.demoted, demoted);
    assert_int_equal(changes.untold, 0);
}

static ph_status twos(ph_stream *stream, void *user)
{
    (void)user;
    return t_fill(&world, stream, x, N, 2);
}

/* In another grid. */
static ph_status wide(ph_stream *stream, void *user)
{
    const struct t_fill_i32 args = {N, x, 3};
    ph_launch_config config = t_config(N);
    (void)user;
    config.grid[0] += 1;
    return ph_launch(stream, world.fill_i32, &config, &args, sizeof args);
}

TEST(a_graph_is_uploaded_once_by_whatever_comes_first)
{
    ph_graph *graph = captured(NULL);
    check(graph, 1, 0, 0, 0);
    assert_ok(ph_graph_upload(graph, other));
    assert_replays(graph, world.stream, 1);
    check(graph, 1, 0, 0, 0);
    ph_graph_destroy(graph);
    graph = captured(&defer);
    check(graph, 0, 0, 0, 0);
    assert_replays(graph, world.stream, 1);
    check(graph, 1, 0, 0, 0);
    ph_graph_destroy(graph);
    graph = captured(&defer);
    assert_ok(ph_graph_upload(graph, other));
    assert_ok(ph_graph_upload(graph, other));
    check(graph, 1, 0, 0, 0);
    ph_graph_destroy(graph);
}

/* Each kind of change uploads first, and once. */
TEST(test_changes_upload_first)
{
    const struct t_fill_i32 args = {N, x, 7};
    const ph_launch_config config = t_config(N);
    ph_graph *from = captured(NULL), *graph = captured(&defer);
    assert_ok(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
    check(graph, 1, 0, 1, 0);
    assert_ok(ph_graph_upload(graph, other));
    check(graph, 1, 0, 1, 0);
    assert_replays(graph, world.stream, 7);
    ph_graph_destroy(graph);
    graph = captured(&defer);
    assert_ok(ph_graph_node_set_enabled(graph, 0, false));
    check(graph, 1, 0, 0, 0);
    ph_graph_destroy(graph);
    graph = captured(&defer);
    assert_ok(ph_graph_update(graph, from, NULL));
    check(graph, 1, 1, 0, 0);
    assert_replays(graph, world.stream, 1);
    check(graph, 1, 1, 0, 0);
    ph_graph_destroy(graph);
    ph_graph_destroy(from);
}

TEST(test_other_grids)
{
    const struct t_fill_i32 args = {N, x, 9};
    ph_launch_config config = t_config(N);
    ph_graph *graph, *from;
    assert_ok(ph_graph_create(&graph, &keep));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, ones, NULL));
    check(graph, 0, 0, 0, 0);
    assert_ok(ph_graph_instantiate(graph));
    assert_ok(ph_graph_create(&from, NULL));
    assert_ok(ph_graph_capture(from, world.stream, NULL, twos, NULL));
    assert_ok(ph_graph_update(graph, from, NULL));
    check(graph, 1, 1, 0, 0);
    assert_ok(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
    check(graph, 1, 1, 1, 0);
    config.block[0] *= 2;
    assert_ok(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
    check(graph, 1, 1, 2, 1);
    /* the captured grid again makes it no faster: a new executable does */
    assert_ok(ph_graph_update(graph, from, NULL));
    check(graph, 1, 2, 2, 1);
    assert_ok(ph_graph_instantiate(graph));
    check(graph, 1, 0, 0, 0);
    ph_graph_destroy(from);
    assert_ok(ph_graph_create(&from, NULL));
    assert_ok(ph_graph_capture(from, world.stream, NULL, wide, NULL));
    assert_ok(ph_graph_update(graph, from, NULL));
    ph_graph_destroy(from);
    check(graph, 1, 1, 0, 1);
    assert_replays(graph, world.stream, 3);
    ph_graph_destroy(graph);
}

static ph_status copies(ph_stream *stream, void *user)
{
    (void)user;
    return ph_memcpy(x + N / 2, x, N / 2 * sizeof *x, stream);
}

/* Copies have no grid. */
TEST(updates_of_copies_are_counted_without_a_grid)
{
    ph_graph *graph, *from;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, copies, NULL));
    for (int i = 0; i < 3; i++) {
        assert_ok(ph_graph_create(&from, NULL));
        assert_ok(ph_graph_capture(from, world.stream, NULL, copies, NULL));
        assert_ok(ph_graph_update(graph, from, NULL));
        ph_graph_destroy(from);
    }
    check(graph, 1, 3, 0, 0);
    ph_graph_destroy(graph);
}

TEST(test_wrong_arguments)
{
    ph_graph_changes changes;
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_get_changes(&changes, graph), PH_ERROR_STATE, "capture");
    assert_error(ph_graph_get_changes(NULL, graph), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_graph_get_changes(&changes, NULL), PH_ERROR_ARGUMENT, "graph");
    ph_graph_destroy(graph);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(a_graph_is_uploaded_once_by_whatever_comes_first),
        CASE(test_changes_upload_first),
        CASE(test_other_grids),
        CASE(updates_of_copies_are_counted_without_a_grid),
        CASE(test_wrong_arguments),
    };
    return cmocka_run_group_tests_name("graph.changes", tests, NULL, NULL);
}
