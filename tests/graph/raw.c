/* SPDX-License-Identifier: MIT */
/* tests/graph/raw.c: keep_graph, raw handles, instantiate, debug dumps. The tests named
 * test_cuda_graph... and test_graph... hold the behaviours of the same names. */
#include "support/fixture.h"

#include <phonograph/cuda.h>
#include <phonograph/host.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    N = 2000
};
static t_world world;
static int32_t *x, *y;
static const ph_capture_options relaxed = {.mode = PH_CAPTURE_RELAXED};

WORLD(world, .arrays = {{&x, N, T_INTS, 0}, {&y, N}});

static ph_status add(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, x, y, N, 1);
}

static ph_graph *captured(bool keep)
{
    ph_graph *graph;
    ph_graph_options options = {.keep_graph = keep};
    assert_ok(ph_graph_create(&graph, &options));
    assert_ok(ph_graph_capture(graph, world.stream, &relaxed, add, NULL));
    return graph;
}

TEST(test_cuda_graph_raw_graph_keep_graph_false)
{
    void *raw = &raw;
    const ph_record *record;
    ph_graph *graph = captured(false);
    assert_error(ph_graph_instantiate(graph), PH_ERROR_STATE,
                 "is meant to be called only when keep_graph is set");
    assert_error(t_raw(&raw, graph), PH_ERROR_STATE, "visible only when keep_graph is set");
    assert_null(raw);
    /* The record is there all the same. */
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), 1);
    ph_graph_destroy(graph);
}

/* What the handle of the host's graph leads to. */
static void check_host_graph(void *raw)
{
    size_t count;
    ph_host_node *nodes[4];
    ph_node_kind kind;
    assert_ok(ph_host_graph_nodes(NULL, 0, &count, raw));
    assert_int_equal(count, 1);
    assert_ok(ph_host_graph_nodes(nodes, 4, &count, raw));
    for (size_t i = 0; i < count; i++) {
        assert_ok(ph_host_node_kind(&kind, nodes[i]));
        assert_int_equal(kind, PH_NODE_KERNEL);
    }
}

TEST(test_cuda_graph_raw_graph)
{
    void *raw;
    ph_graph *graph = captured(true);
    assert_ok(t_raw(&raw, graph));
    assert_non_null(raw);
    if (t_on_host())
        check_host_graph(raw);
    assert_ok(ph_graph_replay(graph, world.stream)); /* instantiates */
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_READY);
    t_all(y, N, 1, world.stream);
    ph_graph_destroy(graph);
}

TEST(test_cuda_graph_raw_graph_exec)
{
    for (int keep = 0; keep < 2; keep++) {
        void *raw;
        ph_graph *graph = captured(keep != 0);
        if (keep) {
            assert_error(t_raw_exec(&raw, graph), PH_ERROR_STATE, "no executable yet");
            assert_ok(ph_graph_instantiate(graph));
        }
        assert_ok(t_raw_exec(&raw, graph));
        assert_non_null(raw);
        assert_ok(ph_graph_replay(graph, world.stream));
        ph_graph_destroy(graph);
    }
}

TEST(test_cuda_handles)
{
    struct CUgraph_st *template;
    struct CUgraphExec_st *exec;
    struct CUstream_st *stream;
    ph_status there = t_on_host() ? PH_ERROR_UNSUPPORTED : PH_OK;
    ph_graph *graph = captured(false);
    assert_error(ph_graph_cuda(&template, graph), PH_ERROR_STATE, "keep_graph");
    assert_status(ph_graph_exec_cuda(&exec, graph), there);
    assert_true((exec == NULL) == t_on_host());
    assert_true(!t_on_host() || strstr(ph_error_last()->message, "host device"));
    assert_status(ph_stream_cuda(&stream, world.stream), there);
    ph_graph_destroy(graph);
    graph = captured(true);
    assert_status(ph_graph_cuda(&template, graph), there);
    assert_status(ph_graph_exec_cuda(&exec, graph), PH_ERROR_STATE);
    ph_graph_destroy(graph);
}

TEST(test_host_handles)
{
    ph_host_graph *template;
    ph_host_exec *exec;
    ph_status there = t_on_host() ? PH_OK : PH_ERROR_UNSUPPORTED;
    ph_graph *graph = captured(false);
    assert_error(ph_graph_host(&template, graph), PH_ERROR_STATE, "keep_graph");
    assert_null(template);
    assert_status(ph_graph_exec_host(&exec, graph), there);
    assert_true((exec != NULL) == t_on_host());
    assert_true(t_on_host() || strstr(ph_error_last()->message, "host device"));
    ph_graph_destroy(graph);
    graph = captured(true);
    assert_status(ph_graph_host(&template, graph), there);
    assert_true((template != NULL) == t_on_host());
    assert_error(ph_graph_exec_host(&exec, graph), PH_ERROR_STATE, "no executable yet");
    assert_null(exec);
    ph_graph_destroy(graph);
}

static uint64_t ids[4];
static int id_count;
static ph_status note_id(const ph_graph_hook_info *info, void *user)
{
    (void)user;
    ids[id_count++] = info->exec_id;
    return PH_OK;
}

TEST(test_instantiate_again)
{
    ph_hook *hook;
    void *first, *second;
    ph_graph *graph = captured(true);
    id_count = 0;
    assert_ok(ph_graph_hook_add(&hook, graph, PH_HOOK_INSTANTIATE, note_id, NULL));
    assert_ok(ph_graph_instantiate(graph));
    assert_ok(t_raw_exec(&first, graph));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_instantiate(graph)); /* while that replay may be in flight */
    assert_ok(t_raw_exec(&second, graph));
    assert_int_equal(id_count, 2);
    assert_true(ids[1] > ids[0] && ids[0] > 0);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 1, world.stream);
    ph_graph_hook_remove(hook);
    ph_graph_destroy(graph);
}

/* ---- dumps ---- */
static char *read_file(const char *path)
{
    char *text = calloc(1, 65536);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_non_null(text);
    assert_true(fread(text, 1, 65535, file) > 0);
    fclose(file);
    return text;
}

TEST(test_graph_debugdump)
{
    ph_stream *s1;
    ph_graph *graph;
    int32_t *z;
    char path[64];
    snprintf(path, sizeof path, "/tmp/phonograph-dump-%d.dot", (int)getpid());
    assert_ok(ph_stream_create(&s1, world.device, NULL));
    ph_graph_options options = {.keep_graph = true};
    assert_ok(ph_graph_create(&graph, &options));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(PH_NEW(&z, N, world.stream));
    assert_ok(t_add(&world, world.stream, x, z, N, 1));
    assert_ok(ph_stream_wait_stream(s1, world.stream));
    assert_ok(t_add(&world, s1, z, y, N, 1));
    assert_ok(ph_stream_wait_stream(world.stream, s1));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_debug_dump(graph, path, true));
    char *text = read_file(path);
    assert_memory_equal(text, "digraph", 7);
    assert_non_null(strstr(text, "n0 [shape=box, label=\"0: add_i32"));
    assert_non_null(strstr(text, "n1 [shape=box, label=\"1: add_i32"));
    assert_non_null(strstr(text, "n0 -> n1;"));
    free(text);
    unlink(path);
    assert_status(ph_graph_debug_dump(graph, "/nonexistent/folder/graph.dot", false), PH_ERROR_IO);
    assert_error(ph_graph_debug_dump(graph, NULL, false), PH_ERROR_ARGUMENT, "path is NULL");
    ph_free(z, world.stream);
    ph_graph_destroy(graph);
    ph_stream_destroy(s1);
}

static ph_status dump_record(const ph_graph_hook_info *info, void *user)
{
    const ph_record *record;
    PH_TRY(ph_graph_record(&record, info->graph));
    return ph_record_dump(record, user);
}

TEST(TestGetGraphData_test_export_graph_data_hook)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/phonograph-hook-%d.json", (int)getpid());
    for (int keep = 0; keep < 2; keep++) {
        ph_graph *graph;
        ph_hook *hook;
        const ph_record *record;
        char *later;
        ph_graph_options options = {.keep_graph = keep != 0};
        assert_ok(ph_graph_create(&graph, &options));
        assert_ok(ph_graph_hook_add(&hook, graph, PH_HOOK_INSTANTIATE, dump_record, path));
        assert_ok(ph_graph_capture(graph, world.stream, NULL, add, NULL));
        assert_int_equal(access(path, F_OK) == 0, keep == 0);
        if (keep)
            assert_ok(ph_graph_instantiate(graph));
        char *text = read_file(path);
        assert_ok(ph_graph_record(&record, graph));
        assert_ok(ph_record_json(&later, record));
        assert_memory_equal(text, later, strlen(later));
        assert_non_null(strstr(text, "\"kind\":\"kernel\",\"name\":\"add_i32\""));
        ph_string_free(later);
        free(text);
        assert_int_equal(unlink(path), 0);
        ph_graph_hook_remove(hook);
        ph_graph_destroy(graph);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_cuda_graph_raw_graph_keep_graph_false),
        IN_WORLD(test_cuda_graph_raw_graph),
        IN_WORLD(test_cuda_graph_raw_graph_exec),
        IN_WORLD(test_cuda_handles),
        IN_WORLD(test_host_handles),
        IN_WORLD(test_instantiate_again),
        IN_WORLD(test_graph_debugdump),
        IN_WORLD(TestGetGraphData_test_export_graph_data_hook),
    };
    return cmocka_run_group_tests_name("graph.raw", tests, NULL, NULL);
}
