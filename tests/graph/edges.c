/* SPDX-License-Identifier: MIT */
/* tests/graph/edges.c: kinds of dependencies, and memory nodes, in the record. */
#include "support/fixture.h"

#include "device/handles/device.h"
#include <string.h>

enum {
    N = 512
};
static t_world world;
static ph_graph *graph;
static int32_t *x;
static ph__driver table;
static const ph__driver *real;

static const t_fixture fixture = {
    .world = &world, .graphs = {&graph}, .arrays = {{&x, N, T_INTS, 0}}};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    real = world.device->driver;
    table = *real;
    return 0;
}

FIXTURE(close_world)
{
    world.device->driver = real;
    t_fixture_close(&fixture);
    return 0;
}

static ph_status launch_of(ph_stream *stream, size_t n, bool programmatic)
{
    struct t_add_i32 args = {n, x, x, 1};
    ph_launch_config config = t_config(n);
    config.programmatic = programmatic;
    return ph_launch(stream, world.add_i32, &config, &args, sizeof args);
}

static ph_status launch(ph_stream *stream, bool programmatic)
{
    return launch_of(stream, N, programmatic);
}

static ph_status body(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(launch(stream, false));
    PH_TRY(launch(stream, true));
    return launch(stream, false);
}

static const ph_record *record_of(ph_graph *of)
{
    const ph_record *record;
    assert_ok(ph_graph_record(&record, of));
    return record;
}

/* A hint: where the device takes it, the edge says so; the values are the same. */
TEST(test_programmatic_launch)
{
    ph_edge_kind kind;
    char *text;
    assert_ok(launch(world.stream, true)); /* outside captures, too */
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(t_fill(&world, world.stream, x, N, 0));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    const ph_record *record = record_of(graph);
    assert_ok(ph_record_edge(&kind, record, 1, 0));
    bool taken = kind == PH_EDGE_PROGRAMMATIC;
    if (t_on_host())
        assert_int_equal(kind, PH_EDGE_FULL);
    assert_ok(ph_record_json(&text, record));
    assert_int_equal(strstr(text, "\"dependency_kinds\":[\"programmatic\"]") != NULL, taken);
    ph_string_free(text);
    assert_ok(ph_record_dot(&text, record, false));
    assert_int_equal(strstr(text, "n0 -> n1 [style=dashed];") != NULL, taken);
    ph_string_free(text);
    assert_ok(ph_record_edge(&kind, record, 2, 0));
    assert_int_equal(kind, PH_EDGE_FULL);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
}

TEST(wrong_arguments_are_refused)
{
    ph_edge_kind kind = PH_EDGE_PROGRAMMATIC;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    const ph_record *record = record_of(graph);
    assert_error(ph_record_edge(NULL, record, 1, 0), PH_ERROR_ARGUMENT, "out is NULL");
    assert_error(ph_record_edge(&kind, NULL, 1, 0), PH_ERROR_ARGUMENT, "record is NULL");
    assert_error(ph_record_edge(&kind, record, 3, 0), PH_ERROR_NOT_FOUND, "node 3 does not exist");
    assert_error(ph_record_edge(&kind, record, 1, 1), PH_ERROR_NOT_FOUND, "has no dependency 1");
    assert_error(ph_record_edge(&kind, record, 0, 0), PH_ERROR_NOT_FOUND, "it has 0");
    assert_int_equal(kind, PH_EDGE_FULL);
}

/* ---- what only other programs' graphs have ---- a table in front of the driver's reads two
 * host functions as an allocation of x and its end, and makes some edges programmatic. */
static ph_edge_kind kinds[2];
static uint32_t marked_grid; /* edges from the kernel with this grid are programmatic */
static int node_info(ph__drv_node_info *out, ph__drv_node *node)
{
    int result = real->node_info(out, node);
    if (result != 0 || out->kind != PH_NODE_HOST)
        return result;
    out->kind = out->dependency_count == 0 ? PH_NODE_MEM_ALLOC : PH_NODE_MEM_FREE;
    out->memory = x;
    out->memory_bytes = N * sizeof *x;
    for (size_t d = 0; d < out->dependency_count; d++) {
        ph__drv_node_info from;
        memset(&from, 0, sizeof from);
        result = result ? result : real->node_info(&from, out->dependencies[d]);
        kinds[d] = from.launch.grid[0] == marked_grid ? PH_EDGE_PROGRAMMATIC : PH_EDGE_FULL;
    }
    out->dependency_kinds = out->dependency_count ? kinds : NULL;
    return result;
}

static void nothing(void *user)
{
    (void)user;
}

/* host; two branches behind it; host behind both, its dependencies in an order of the driver's. */
static ph_status diamond(ph_stream *stream, void *user)
{
    ph_stream *side = user;
    PH_TRY(ph_launch_host(stream, nothing, NULL));
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(launch_of(side, N, false));
    PH_TRY(launch_of(stream, N / 2, false));
    PH_TRY(ph_stream_wait_stream(stream, side));
    return ph_launch_host(stream, nothing, NULL);
}

static ph_edge_kind edge(const ph_record *record, size_t node, size_t dependency)
{
    ph_edge_kind kind;
    assert_ok(ph_record_edge(&kind, record, node, dependency));
    return kind;
}

TEST(test_kinds_go_with_their_edges)
{
    ph_stream *side;
    ph_graph *kept;
    ph_node_info node;
    ph_graph_options keep = {.keep_graph = true};
    assert_ok(ph_stream_create(&side, world.device, NULL));
    for (marked_grid = 1; marked_grid <= 2; marked_grid++) {
        assert_ok(ph_graph_create(&kept, &keep));
        world.device->driver = &table;
        table.node_info = node_info;
        assert_ok(ph_graph_capture(kept, world.stream, NULL, diamond, side));
        const ph_record *record = record_of(kept);
        world.device->driver = real;
        const size_t *dependencies = ph_record_dependencies(record, 3);
        for (size_t d = 0; d < 2; d++) {
            assert_int_equal(dependencies[d], d + 1);
            assert_ok(ph_record_node(&node, record, dependencies[d]));
            assert_int_equal(edge(record, 3, d),
                             node.grid[0] == marked_grid ? PH_EDGE_PROGRAMMATIC : PH_EDGE_FULL);
        }
        ph_graph_destroy(kept);
    }
    ph_stream_destroy(side);
}

/* A table in front of the driver's, too, gives a host function two edges from the node before
 * it. */
static int node_info_twice(ph__drv_node_info *out, ph__drv_node *node)
{
    static ph__drv_node *from[2];
    int result = real->node_info(out, node);
    if (result != 0 || out->dependency_count != 1)
        return result;
    from[0] = from[1] = out->dependencies[0];
    out->dependencies = from;
    out->dependency_kinds = kinds;
    out->dependency_count = 2;
    return result;
}

static ph_status kernel_and_host(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(launch(stream, false));
    return ph_launch_host(stream, nothing, NULL);
}

/* They are one, as files and ph_record_create have it, and full where one of them is. */
TEST(test_two_edges_between_the_same_nodes)
{
    for (int i = 0; i < 4; i++) {
        ph_graph *kept;
        ph_node_info node;
        char *json;
        kinds[0] = i & 1 ? PH_EDGE_PROGRAMMATIC : PH_EDGE_FULL;
        kinds[1] = i & 2 ? PH_EDGE_PROGRAMMATIC : PH_EDGE_FULL;
        assert_ok(ph_graph_create(&kept, &(ph_graph_options){.keep_graph = true}));
        world.device->driver = &table;
        table.node_info = node_info_twice;
        assert_ok(ph_graph_capture(kept, world.stream, NULL, kernel_and_host, NULL));
        const ph_record *record = record_of(kept);
        world.device->driver = real;
        assert_ok(ph_record_node(&node, record, 1));
        assert_int_equal(node.dependency_count, 1);
        assert_int_equal(edge(record, 1, 0), i == 3 ? PH_EDGE_PROGRAMMATIC : PH_EDGE_FULL);
        assert_ok(ph_record_node(&node, record, 0));
        assert_int_equal(node.dependent_count, 1);
        assert_int_equal(ph_record_edge_count(record), 1);
        assert_ok(ph_record_json(&json, record));
        assert_non_null(strstr(json, "\"edge_count\":1"));
        assert_non_null(strstr(json, "\"dependencies\":[0]"));
        assert_non_null(strstr(json, "\"dependents\":[1]"));
        ph_string_free(json);
        ph_graph_destroy(kept);
    }
}

TEST(test_memory_nodes)
{
    ph_stream *side;
    ph_graph *kept;
    ph_node_info node;
    ph_word word;
    char *text;
    ph_graph_options keep = {.keep_graph = true};
    ph_capture_options checking = {.check_input_liveness = true};
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(ph_graph_create(&kept, &keep));
    world.device->driver = &table;
    table.node_info = node_info;
    assert_ok(ph_graph_capture(kept, world.stream, &checking, diamond, side));
    world.device->driver = real;
    const ph_record *record = record_of(kept);
    assert_ok(ph_record_node(&node, record, 0));
    assert_int_equal(node.kind, PH_NODE_MEM_ALLOC);
    assert_string_equal(node.name, "mem_alloc");
    assert_ptr_equal(node.dst, x);
    assert_int_equal(node.bytes, N * sizeof *x);
    assert_ok(ph_record_node(&node, record, 3));
    assert_int_equal(node.kind, PH_NODE_MEM_FREE);
    assert_ptr_equal(node.dst, x);
    assert_int_equal(node.bytes, 0);
    assert_ok(ph_record_word(&word, record, 1, 1));
    assert_int_equal(word.value, (uintptr_t)x);
    assert_true(word.internal);
    assert_ok(ph_record_json(&text, record));
    assert_non_null(strstr(text, "\"kind\":\"mem_alloc\""));
    ph_string_free(text);
    assert_ok(ph_record_dot(&text, record, true));
    assert_non_null(strstr(text, "shape=cylinder"));
    ph_string_free(text);
    ph_free(x, world.stream);
    assert_ok(ph_graph_check_inputs(kept)); /* what a node gives is no input */
    assert_ok(PH_NEW(&x, N, world.stream));
    ph_graph_destroy(kept);
    ph_stream_destroy(side);
}

TEST(test_names_of_kinds)
{
    static const char *const names[] = {"kernel",         "memcpy",       "memset",
                                        "host",           "graph",        "empty",
                                        "event_wait",     "event_record", "semaphore_signal",
                                        "semaphore_wait", "mem_alloc",    "mem_free",
                                        "batch_mem_op",   "conditional"};
    for (int i = 0; i < 14; i++)
        assert_string_equal(ph_node_kind_name((ph_node_kind)i), names[i]);
    assert_string_equal(ph_node_kind_name((ph_node_kind)14), "unknown");
}

static ph_status add_one(ph_stream *stream, bool programmatic)
{
    struct t_add_i32 args = {N, x, x, 1};
    ph_launch_config config = t_config(N);
    config.programmatic = programmatic;
    return ph_launch(stream, world.add_i32, &config, &args, sizeof args);
}

/* The last launch depends on a kernel, which it may overtake, and on a branch that ends in a
 * copy, which it may not. */
static ph_status mixed(ph_stream *stream, void *side)
{
    PH_TRY(add_one(stream, false));
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(ph_memcpy(x + N / 2, x, 64, side));
    PH_TRY(add_one(stream, false));
    PH_TRY(ph_stream_wait_stream(stream, side));
    return add_one(stream, true);
}

TEST(test_mixed_edges)
{
    ph_stream *side;
    ph_graph *fork;
    const ph_record *record;
    ph_node_info last;
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(ph_graph_create(&fork, NULL));
    assert_ok(ph_graph_capture(fork, world.stream, NULL, mixed, side));
    assert_ok(ph_graph_record(&record, fork));
    size_t at = ph_record_node_count(record) - 1;
    assert_ok(ph_record_node(&last, record, at));
    assert_int_equal(last.dependency_count, 2);
    for (size_t d = 0; d < 2; d++) {
        ph_edge_kind kind;
        ph_node_info from;
        assert_ok(ph_record_edge(&kind, record, at, d));
        assert_ok(ph_record_node(&from, record, ph_record_dependencies(record, at)[d]));
        if (from.kind == PH_NODE_MEMCPY || t_on_host())
            assert_int_equal(kind, PH_EDGE_FULL);
        else
            assert_true(kind == PH_EDGE_PROGRAMMATIC || kind == PH_EDGE_FULL);
    }
    ph_graph_destroy(fork);
    ph_stream_destroy(side);
}

static ph_status chain(ph_stream *stream, void *count)
{
    for (int i = 0; i < *(int *)count; i++)
        PH_TRY(add_one(stream, true));
    return PH_OK;
}

/* What a template takes grows with its nodes, not with their square. */
TEST(test_programmatic_chain_is_linear)
{
    size_t bytes[2];
    for (int i = 0; i < 2; i++) {
        int count = i ? 2000 : 1000;
        ph_graph *long_one;
        ph_graph_memory memory;
        assert_ok(ph_graph_create(&long_one, NULL));
        assert_ok(ph_graph_capture(long_one, world.stream, NULL, chain, &count));
        assert_ok(ph_graph_get_memory(&memory, long_one));
        bytes[i] = memory.template_host;
        ph_graph_destroy(long_one);
    }
    assert_true(bytes[1] < 3 * bytes[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_programmatic_launch),
        IN_WORLD(wrong_arguments_are_refused),
        IN_WORLD(test_kinds_go_with_their_edges),
        IN_WORLD(test_two_edges_between_the_same_nodes),
        IN_WORLD(test_memory_nodes),
        IN_WORLD(test_names_of_kinds),
        IN_WORLD(test_mixed_edges),
        IN_WORLD(test_programmatic_chain_is_linear),
    };
    return cmocka_run_group_tests_name("graph.edges", tests, NULL, NULL);
}
