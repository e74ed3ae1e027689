/* SPDX-License-Identifier: MIT */
/* tests/cuda/lazy.c: which of libcuda's calls a capture's end, an update and a record make, for
 * kernels that this library did not load; and records whose kernels were unloaded meanwhile. */
#include "module.h"
#include "support/test.h"
#include <phonograph/cuda.h>
#include <phonograph/inspect/changes.h>

enum {
    N = 256,
    NODES = 20
};

#define ENTRY(name)                                                                                \
    ".visible .entry " name "(.param .u64 " name "_param_0, .param .u32 " name "_param_1)\n"       \
    "{\n    .reg .b64 %y;\n    .reg .b32 %v;\n    ld.param.u64 %y, [" name                         \
    "_param_0];\n    ld.param.u32 %v, [" name "_param_1];\n    st.u32 [%y], %v;\n    ret;\n}\n"
static const char ptx[] =
    ".version 7.0\n.target sm_60\n.address_size 64\n" ENTRY("t_put") ENTRY("t_set");
/* t_put with other parameters */
static const char other_ptx[] =
    ".version 7.0\n.target sm_60\n.address_size 64\n"
    ".visible .entry t_put(.param .u64 t_put_param_0, .param .u64 t_put_param_1)\n"
    "{\n    .reg .b64 %y;\n    .reg .b64 %v;\n    ld.param.u64 %y, [t_put_param_0];\n"
    "    ld.param.u64 %v, [t_put_param_1];\n    st.u32 [%y], %v;\n    ret;\n}\n";

static void put_on_host(const ph_block_range *range, const void *args)
{
    struct {
        int32_t *y;
        int32_t value;
    } p;
    (void)range;
    memcpy(&p, args, sizeof p);
    *p.y = p.value;
}

static ph__cu_function put, set;
static int32_t *y;

FIXTURE(open_world)
{
    if (fake_cuda()) {
        fake_cuda()->register_kernel("t_put", put_on_host);
        fake_cuda()->register_kernel("t_set", put_on_host);
    }
    module_open(ptx);
    put = module_function("t_put");
    set = module_function("t_set");
    assert_ok(PH_NEW(&y, N, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    return 0;
}

FIXTURE(close_world)
{
    ph_free(y, world.stream);
    module_close();
    return 0;
}

typedef struct chain {
    int32_t *y;
    int32_t value;
    unsigned grid;
} chain;

static ph_status launches(ph_stream *stream, void *user)
{
    chain *c = user;
    struct CUstream_st *native;
    PH_TRY(ph_stream_cuda(&native, stream));
    for (int i = 0; i < NODES; i++) {
        int32_t value = c->value + i;
        void *params[] = {&c->y, &value};
        cu(LaunchKernel(i % 2 ? set : put, c->grid, 1, 1, 1, 1, 1, 0, native, params, NULL));
    }
    return PH_OK;
}

static ph_graph *captured(chain *c, const ph_capture_options *options)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, options, launches, c));
    return graph;
}

static int64_t calls_of(const char *name)
{
    return fake_cuda() ? fake_cuda()->calls_of(name) : 0;
}

/* All that reads nodes or their kernels, or asks about words. */
static const char *const reading[] = {"cuGraphKernelNodeGetParams", "cuFuncGetParamInfo",
                                      "cuFuncGetName", "cuGraphNodeGetDependencies",
                                      "cuPointerGetAttributes"};
enum {
    READING = sizeof reading / sizeof *reading,
    LINKS = 3 /* of them, the one for what a node depends on */
};

static void count_reading(int64_t out[READING])
{
    for (int i = 0; i < READING; i++)
        out[i] = calls_of(reading[i]);
}

static void assert_nothing_read(const int64_t before[READING])
{
    for (int i = 0; i < READING; i++)
        assert_int_equal(calls_of(reading[i]), before[i]);
}

static int32_t first_of(void)
{
    int32_t value = 0;
    assert_ok(ph_memcpy(&value, y, sizeof value, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    return value;
}

TEST(test_what_a_captures_end_reads)
{
    int64_t before[READING], types = calls_of("cuGraphNodeGetType");
    const ph_record *record;
    chain c = {y, 1, 1};
    count_reading(before);
    ph_graph *graph = captured(&c, NULL);
    assert_nothing_read(before);
    if (fake_cuda())
        assert_int_equal(calls_of("cuGraphNodeGetType") - types, NODES);
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), NODES);
    if (fake_cuda()) {
        assert_int_equal(calls_of("cuGraphKernelNodeGetParams") - before[0], NODES);
        assert_int_equal(calls_of("cuGraphNodeGetDependencies") - before[LINKS], NODES);
    }
    int64_t again = calls_of("cuGraphKernelNodeGetParams");
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(calls_of("cuGraphKernelNodeGetParams"), again);
    ph_graph_destroy(graph);
    count_reading(before);
    graph = captured(&c, &(ph_capture_options){.check_input_liveness = true});
    if (fake_cuda())
        assert_int_equal(calls_of("cuGraphKernelNodeGetParams") - before[0], NODES);
    ph_graph_destroy(graph);
}

static ph_status annotated_by(ph_capture_fn work, ph_stream *stream, void *user)
{
    PH_TRY(ph_annotation_push(stream, "outer", NULL));
    PH_TRY(work(stream, user));
    PH_TRY(ph_annotation_push(stream, "inner", NULL));
    PH_TRY(work(stream, user));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(work(stream, user));
    PH_TRY(ph_annotation_pop(stream));
    return work(stream, user);
}

static ph_status annotated_launches(ph_stream *stream, void *user)
{
    return annotated_by(launches, stream, user);
}

static const char *name_at(const ph_graph *graph, size_t node)
{
    const ph_record *record;
    const ph_annotation_pair *pairs;
    size_t count;
    assert_ok(ph_graph_record(&record, (ph_graph *)(uintptr_t)graph));
    assert_ok(ph_record_annotation(&pairs, &count, record, node));
    return count ? pairs[0].text : "";
}

static ph_graph *captured_annotated(ph_capture_fn body, chain *c)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream,
                               &(ph_capture_options){.enable_annotations = true}, body, c));
    return graph;
}

static void assert_scopes(const ph_graph *graph)
{
    static const char *const names[] = {"outer", "inner", "outer", ""};
    for (size_t part = 0; part < 4; part++)
        for (size_t end = 0; end < 2; end++)
            assert_string_equal(name_at(graph, part * NODES + end * (NODES - 1)), names[part]);
}

/* Modules of other code may be unloaded when somebody asks. */
TEST(test_annotated_nodes_of_other_code_are_read_at_the_end)
{
    chain c = {y, 1, 1};
    int64_t before = calls_of("cuGraphKernelNodeGetParams");
    ph_graph *graph = captured_annotated(annotated_launches, &c);
    if (fake_cuda())
        assert_int_equal(calls_of("cuGraphKernelNodeGetParams") - before, 4 * NODES);
    assert_scopes(graph);
    ph_graph_destroy(graph);
}

static ph_status own_adds(ph_stream *stream, void *user)
{
    const chain *c = user;
    for (int i = 0; i < NODES; i++)
        PH_TRY(t_add(&world, stream, c->y, c->y, N, 1));
    return PH_OK;
}

static ph_status annotated_own(ph_stream *stream, void *user)
{
    return annotated_by(own_adds, stream, user);
}

/* Nobody has asked where the scopes' nodes are; the list of all annotated nodes asks. */
TEST(test_annotated_nodes_of_own_work_are_read_later)
{
    for (int lists = 0; lists < 2; lists++) {
        int64_t before[READING];
        size_t count;
        chain c = {y, 1, 1};
        count_reading(before);
        ph_graph *graph = captured_annotated(annotated_own, &c);
        assert_nothing_read(before);
        assert_ok(ph_graph_replay(graph, world.stream));
        assert_nothing_read(before);
        if (lists) {
            assert_ok(ph_get_kernel_annotations(NULL, 0, &count));
            assert_int_equal(count, 3 * NODES);
        }
        assert_scopes(graph);
        if (fake_cuda())
            assert_true(calls_of("cuGraphNodeGetDependencies") > before[LINKS]);
        ph_graph_destroy(graph);
    }
}

/* A kernel's parameters are asked for once, and later graphs ask for the last of them and the
 * end. */
TEST(test_layouts_are_kept)
{
    NEED_FAKE();
    const ph_record *record;
    chain c = {y, 1, 1};
    for (int i = 0; i < 3; i++) {
        ph_graph *graph = captured(&c, NULL);
        int64_t before = calls_of("cuFuncGetParamInfo");
        assert_ok(ph_graph_record(&record, graph));
        assert_int_equal(calls_of("cuFuncGetParamInfo") - before, i == 0 ? 2 * 3 : 2 * 2);
        ph_graph_destroy(graph);
    }
}

TEST(test_what_an_update_reads)
{
    int64_t before[READING];
    chain c = {y, 100, 1};
    ph_graph *graph = captured(&c, NULL);
    for (int i = 0; i < 3; i++) {
        c.value = 200 + 100 * i;
        ph_graph *from = captured(&c, NULL);
        count_reading(before);
        assert_ok(ph_graph_update(graph, from, NULL));
        /* each of what is new, and once each of the graph's own */
        before[LINKS] += fake_cuda() ? (i == 0 ? 2 : 1) * NODES : 0;
        assert_nothing_read(before);
        ph_graph_destroy(from);
        assert_nothing_read(before);
        assert_ok(ph_graph_replay(graph, world.stream));
        assert_int_equal(first_of(), c.value + NODES - 1);
    }
    ph_graph_destroy(graph);
}

static ph_status own_launches(ph_stream *stream, void *user)
{
    chain *c = user;
    for (int i = 0; i < NODES; i++)
        PH_TRY(t_add(&world, stream, c->y, c->y, N, 1));
    return PH_OK;
}

/* Of what this library submitted nothing is read at the end but which nodes there are. */
TEST(test_what_the_end_of_own_work_reads)
{
    int64_t before[READING], types = calls_of("cuGraphNodeGetType");
    const ph_record *record;
    ph_node_info node;
    chain c = {y, 1, 1};
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    count_reading(before);
    assert_ok(ph_graph_capture(graph, world.stream, NULL, own_launches, &c));
    assert_nothing_read(before);
    assert_int_equal(calls_of("cuGraphNodeGetType"), types);
    assert_ok(ph_graph_record(&record, graph));
    before[LINKS] += fake_cuda() ? NODES : 0;
    assert_nothing_read(before);
    for (size_t i = 1; i < NODES; i++) {
        assert_ok(ph_record_node(&node, record, i));
        assert_int_equal(node.dependency_count, 1);
        assert_int_equal(ph_record_dependencies(record, i)[0], i - 1);
    }
    ph_graph_destroy(graph);
}

/* Asked after each update the grids are known, and of updates that followed one another not. */
TEST(test_changed_grids)
{
    ph_graph_changes changes;
    chain c = {y, 1, 1};
    ph_graph *graph = captured(&c, NULL), *from;
    for (int i = 0; i < 4; i++) {
        static const unsigned grids[] = {1, 1, 2, 1};
        c.grid = grids[i];
        from = captured(&c, NULL);
        assert_ok(ph_graph_update(graph, from, NULL));
        ph_graph_destroy(from);
        assert_ok(ph_graph_get_changes(&changes, graph));
        assert_int_equal(changes.updates, i + 1);
        assert_int_equal(changes.demoted, i < 2 ? 0 : NODES);
        assert_int_equal(changes.untold, 0);
    }
    ph_graph_destroy(graph);
    graph = captured(&c, NULL);
    for (int i = 0; i < 2; i++) {
        from = captured(&c, NULL);
        assert_ok(ph_graph_update(graph, from, NULL));
        ph_graph_destroy(from);
    }
    assert_ok(ph_graph_get_changes(&changes, graph));
    assert_int_equal(changes.demoted, 0);
    assert_int_equal(changes.untold, NODES);
    ph_graph_destroy(graph);
}

/* ---- modules that go ---- */
static ph__cu_module load(const char *text, ph__cu_function *function)
{
    ph__cu_module loaded;
    cu(CtxPushCurrent(own));
    cu(ModuleLoadDataEx(&loaded, text, 0, NULL, NULL));
    cu(ModuleGetFunction(function, loaded, "t_put"));
    pop(own);
    return loaded;
}

static void unload(ph__cu_module loaded)
{
    cu(CtxPushCurrent(own));
    cu(ModuleUnload(loaded));
    pop(own);
}

/* Kernels of one name and other parameters, perhaps at the same handle. */
TEST(test_a_kernel_in_the_place_of_another)
{
    ph__cu_function before = put;
    const char *const texts[] = {ptx, other_ptx};
    chain c = {y, 1, 1};
    for (int i = 0; i < 6; i++) {
        const ph_record *record;
        ph_node_info node;
        struct CUstream_st *native;
        int64_t wide = 7;
        void *params[] = {&c.y, &wide};
        ph__cu_module loaded = load(texts[i % 2], &put);
        ph_graph *graph;
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
        assert_ok(ph_stream_cuda(&native, world.stream));
        cu(LaunchKernel(put, 1, 1, 1, 1, 1, 1, 0, native, params, NULL));
        assert_ok(ph_graph_capture_end(graph, PH_OK));
        assert_ok(ph_graph_record(&record, graph));
        assert_ok(ph_record_node(&node, record, 0));
        assert_int_equal(node.args_size, i % 2 ? 16 : 12);
        ph_graph_destroy(graph);
        unload(loaded);
    }
    put = before;
}

/* The record that was made before says all it said. */
TEST(test_a_kernel_that_was_unloaded)
{
    const ph_capture_options at_end = {.record_at_end = true};
    ph__cu_function before = put;
    const ph_record *record;
    ph_node_info node;
    chain c = {y, 1, 1};
    int64_t read = calls_of("cuGraphKernelNodeGetParams");
    ph__cu_module loaded = load(ptx, &put);
    ph_graph *graph = captured(&c, &at_end);
    if (fake_cuda())
        assert_int_equal(calls_of("cuGraphKernelNodeGetParams") - read, NODES);
    unload(loaded);
    put = before;
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), NODES);
    assert_ok(ph_record_node(&node, record, 0));
    assert_string_equal(node.name, "t_put");
    assert_int_equal(node.args_size, 12);
    ph_graph_destroy(graph);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_what_a_captures_end_reads),
        CASE(test_annotated_nodes_of_other_code_are_read_at_the_end),
        CASE(test_annotated_nodes_of_own_work_are_read_later),
        CASE(test_layouts_are_kept),
        CASE(test_what_an_update_reads),
        CASE(test_what_the_end_of_own_work_reads),
        CASE(test_changed_grids),
        CASE(test_a_kernel_in_the_place_of_another),
        CASE(test_a_kernel_that_was_unloaded),
    };
    return cmocka_run_group_tests_name("cuda.lazy", tests, NULL, NULL);
}
