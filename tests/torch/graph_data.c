/* SPDX-License-Identifier: MIT */
/* tests/torch/graph_data.c: what PyTorch asks of CUDAGraph.get_graph_data, asked of the record.
 * Each test carries the name of the behaviour that it holds; others of these are in
 * tests/graph/record.c and raw.c. */
#include "support/fixture.h"
#include <string.h>

enum {
    N = 2000
};
static t_world world;
static ph_graph *graph;
static int32_t *x, *y, *z;

WORLD(world, .graphs = {&graph}, .arrays = {{&x, N, T_INTS, 0}, {&y, N}, {&z, N}},
      .keep_graph = true);

static ph_status two_kernels(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_add(&world, stream, x, y, N, 1));
    return t_add(&world, stream, y, z, N, 2);
}

static void capture(void)
{
    ph_capture_options relaxed = {.mode = PH_CAPTURE_RELAXED};
    assert_ok(ph_graph_capture(graph, world.stream, &relaxed, two_kernels, NULL));
}

static ph_status keep_record(const ph_graph_hook_info *info, void *user)
{
    return ph_graph_record(user, info->graph);
}

TEST(TestGetGraphData_test_cached_across_instantiate_hooks)
{
    const ph_record *first = NULL, *second = NULL, *later;
    ph_hook *hooks[2];
    assert_ok(ph_graph_hook_add(&hooks[0], graph, PH_HOOK_INSTANTIATE, keep_record, &first));
    assert_ok(ph_graph_hook_add(&hooks[1], graph, PH_HOOK_INSTANTIATE, keep_record, &second));
    capture();
    assert_ok(ph_graph_instantiate(graph));
    assert_non_null(first);
    assert_ptr_equal(first, second);
    assert_ok(ph_graph_record(&later, graph));
    assert_ptr_equal(first, later);
    ph_graph_hook_remove(hooks[0]);
    ph_graph_hook_remove(hooks[1]);
}

static ph_status fill_64(ph_stream *stream, void *user)
{
    (void)user;
    return ph_memset(y, 1, 64 * sizeof *y, stream);
}

static ph_status nest(ph_stream *stream, void *inner)
{
    PH_TRY(t_add(&world, stream, x, y, N, 1));
    return ph_graph_replay(inner, stream);
}

/* Nothing is to be warned of: the top level has one such node and none of its body's, which is
 * told with it. */
TEST(TestGetGraphData_test_nested_graph_node_warns_but_reports_top_level)
{
    ph_graph *inner;
    const ph_record *record;
    size_t graphs = 0, memsets = 0;
    ph_node_info info, inside;
    assert_ok(ph_graph_create(&inner, NULL));
    assert_ok(ph_graph_capture(inner, world.stream, NULL, fill_64, NULL));
    t_log_start();
    assert_ok(ph_graph_capture(graph, world.stream, NULL, nest, inner));
    assert_ok(ph_graph_instantiate(graph));
    assert_ok(ph_graph_record(&record, graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        assert_ok(ph_record_node(&info, record, i));
        graphs += info.kind == PH_NODE_GRAPH;
        memsets += info.kind == PH_NODE_MEMSET;
        if (info.kind != PH_NODE_GRAPH)
            continue;
        assert_int_equal(ph_record_node_count(info.body), 1);
        assert_ok(ph_record_node(&inside, info.body, 0));
        assert_int_equal(inside.kind, PH_NODE_MEMSET);
        assert_int_equal(inside.bytes, 64 * sizeof *y);
    }
    assert_int_equal(graphs, 1);
    assert_int_equal(memsets, 0);
    assert_int_equal(t_log_count(""), 0);
    t_log_stop();
    ph_graph_destroy(inner);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(TestGetGraphData_test_cached_across_instantiate_hooks),
        cmocka_unit_test_setup_teardown(
            TestGetGraphData_test_nested_graph_node_warns_but_reports_top_level, open_world,
            close_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
