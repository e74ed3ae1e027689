/* SPDX-License-Identifier: MIT */
/* tests/torch/graph_data.c: what PyTorch asks of CUDAGraph.get_graph_data, asked of the record.
 * Each test carries the name of the behaviour that it holds. */
#include "support/fixture.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

TEST(TestGetGraphData_test_basic_structure)
{
    const ph_record *record;
    capture();
    assert_ok(ph_graph_instantiate(graph));
    assert_ok(ph_graph_record(&record, graph));
    size_t count = ph_record_node_count(record), kernels = 0;
    assert_int_equal(count, 2);
    for (size_t i = 0; i < count; i++) {
        ph_node_info info;
        assert_ok(ph_record_node(&info, record, i));
        assert_int_equal(info.index, i);
        assert_string_equal(ph_node_kind_name(info.kind), "kernel");
        assert_string_equal(info.name, "add_i32");
        assert_int_equal(info.args_size, sizeof(struct t_add_i32));
        kernels += info.kind == PH_NODE_KERNEL;
    }
    assert_int_equal(kernels, 2);
    ph_node_info beyond;
    assert_status(ph_record_node(&beyond, record, count), PH_ERROR_NOT_FOUND);
}

static ph_status diamond(ph_stream *stream, void *user)
{
    ph_stream *side = user;
    PH_TRY(t_add(&world, stream, x, y, N, 1));
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(t_add(&world, side, y, z, N, 1));
    PH_TRY(t_add(&world, stream, y, x, N, 1));
    PH_TRY(ph_stream_wait_stream(stream, side));
    return t_add(&world, stream, z, y, N, 1);
}

static bool holds(const size_t *list, size_t count, size_t value)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == value)
            return true;
    return false;
}

TEST(TestGetGraphData_test_edges)
{
    ph_stream *side;
    const ph_record *record;
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, diamond, side));
    assert_ok(ph_graph_record(&record, graph));
    size_t edges = 0, count = ph_record_node_count(record);
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++) {
        ph_node_info node;
        assert_ok(ph_record_node(&node, record, i));
        const size_t *dependencies = ph_record_dependencies(record, i);
        for (size_t k = 0; k < node.dependency_count; k++) {
            ph_node_info before;
            assert_ok(ph_record_node(&before, record, dependencies[k]));
            assert_true(dependencies[k] < i);
            assert_true(
                holds(ph_record_dependents(record, dependencies[k]), before.dependent_count, i));
            edges++;
        }
    }
    assert_int_equal(edges, 4);
    assert_int_equal(ph_record_edge_count(record), edges);
    ph_stream_destroy(side);
}

static ph_status dump_to(const ph_graph_hook_info *info, void *user)
{
    const ph_record *record;
    PH_TRY(ph_graph_record(&record, info->graph));
    return ph_record_dump(record, user);
}

static char *read_all(const char *path)
{
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 16);
    assert_non_null(text);
    assert_true(fread(text, 1, (1 << 16) - 1, file) > 0);
    assert_int_equal(fclose(file), 0);
    return text;
}

TEST(TestGetGraphData_test_export_graph_data_hook)
{
    char path[64], *later;
    ph_hook *hook;
    const ph_record *record;
    (void)snprintf(path, sizeof path, "/tmp/phonograph-graph-data-%d.json", (int)getpid());
    for (int keep = 0; keep < 2; keep++) {
        ph_graph_options options = {.keep_graph = keep == 1};
        ph_graph *g;
        assert_ok(ph_graph_create(&g, &options));
        assert_ok(ph_graph_hook_add(&hook, g, PH_HOOK_INSTANTIATE, dump_to, path));
        assert_ok(ph_graph_capture(g, world.stream, NULL, two_kernels, NULL));
        assert_int_equal(access(path, F_OK) == 0, keep == 0);
        if (keep)
            assert_ok(ph_graph_instantiate(g));
        char *text = read_all(path);
        assert_ok(ph_graph_record(&record, g));
        assert_ok(ph_record_json(&later, record));
        assert_memory_equal(text, later, strlen(later));
        assert_non_null(strstr(text, "add_i32"));
        ph_string_free(later);
        free(text);
        ph_graph_hook_remove(hook);
        ph_graph_destroy(g);
        assert_int_equal(unlink(path), 0);
    }
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

/* Nothing is raised: the record is there whatever keep_graph says; the raw handle is what needs
 * it. */
TEST(TestGetGraphData_test_keep_graph_false_raises)
{
    ph_graph *dropped;
    const ph_record *record;
    void *raw;
    assert_ok(ph_graph_create(&dropped, NULL));
    assert_ok(ph_graph_capture(dropped, world.stream, NULL, two_kernels, NULL));
    assert_error(t_raw(&raw, dropped), PH_ERROR_STATE, "keep_graph");
    assert_ok(ph_graph_record(&record, dropped));
    assert_int_equal(ph_record_node_count(record), 2);
    ph_graph_destroy(dropped);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(TestGetGraphData_test_basic_structure),
        IN_WORLD(TestGetGraphData_test_edges),
        IN_WORLD(TestGetGraphData_test_export_graph_data_hook),
        IN_WORLD(TestGetGraphData_test_cached_across_instantiate_hooks),
        cmocka_unit_test_setup_teardown(
            TestGetGraphData_test_nested_graph_node_warns_but_reports_top_level, open_world,
            close_world),
        IN_WORLD(TestGetGraphData_test_keep_graph_false_raises),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
