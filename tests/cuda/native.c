/* SPDX-License-Identifier: MIT */
/* tests/cuda/native.c: handles of the user's own, made by CUDA's own calls: streams, functions,
 * captures, graphs. */
#include "fake.h"
#include "support/test.h"
#include <phonograph/cuda.h>
#include <phonograph/foreign.h>

enum {
    N = 600
};

static t_world world;
static ph__cu_context own; /* of the device of the world, retained here too */
static ph__cu_stream theirs;
static ph_stream *stream; /* its wrapper */
static int32_t *x, *y;

FIXTURE(open_world)
{
    if (!fake_cuda())
        return 0; /* each test says why it skips */
    t_open(&world, NULL);
    own = primary(0);
    theirs = stream_in(own);
    assert_ok(ph_stream_wrap_cuda(&stream, theirs));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(PH_NEW(&y, N, world.stream));
    assert_ok(ph_memset(x, 0, N * sizeof *x, world.stream));
    assert_ok(ph_memset(y, 0, N * sizeof *y, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    return 0;
}

FIXTURE(close_world)
{
    if (!fake_cuda())
        return 0;
    ph_free(x, NULL);
    ph_free(y, NULL);
    ph_stream_destroy(stream);
    cu(StreamDestroy(theirs));
    t_close(&world);
    cu(DevicePrimaryCtxRelease(0));
    assert_int_equal(ph__alloc_live(), 0);
    assert_string_equal(left_behind(), "");
    assert_int_equal(fake_cuda()->misuses(), 0);
    return 0;
}

/* ---- streams ---- */
TEST(a_wrapped_stream)
{
    NEED_FAKE();
    struct CUstream_st *back;
    int status;
    assert_ptr_equal(ph_stream_device(stream), world.device);
    assert_ok(ph_stream_cuda(&back, stream));
    assert_ptr_equal(back, theirs);
    assert_ok(ph_stream_cuda(&back, ph_device_default_stream(world.device)));
    assert_null(back);
    assert_ok(t_fill(&world, stream, x, N, 4));
    t_all(x, N, 4, stream);
    ph_stream *second;
    assert_ok(ph_stream_wrap_cuda(&second, theirs));
    ph_stream_destroy(second);
    cu(StreamIsCapturing(theirs, &status)); /* it is still there */
}

TEST(the_second_gpus_stream)
{
    NEED_FAKE();
    ph__cu_context other = primary(1);
    ph__cu_stream raw = stream_in(other);
    ph_stream *wrapped;
    ph_device_info info;
    int32_t *memory;
    assert_ok(ph_stream_wrap_cuda(&wrapped, raw)); /* opens the device, which goes with it */
    assert_ok(ph_device_get_info(&info, ph_stream_device(wrapped)));
    assert_string_equal(info.name, "cuda:1");
    assert_ok(PH_NEW(&memory, N, wrapped));
    assert_ok(ph_memset_u32(memory, 6, N, wrapped));
    t_all(memory, N, 6, wrapped);
    assert_error(t_fill(&world, wrapped, x, N, 1), PH_ERROR_WRONG_DEVICE, "device");
    ph_free(memory, NULL);
    ph_stream_destroy(wrapped);
    cu(StreamDestroy(raw));
    cu(DevicePrimaryCtxRelease(1));
}

TEST(streams_that_are_refused)
{
    NEED_FAKE();
    void *other;
    ph_stream *wrapped;
    for (uintptr_t name = 0; name <= 2; name++)
        assert_error(ph_stream_wrap_cuda(&wrapped, (struct CUstream_st *)name), PH_ERROR_ARGUMENT,
                     name == 2 ? "another stream on each thread"
                               : "the legacy default stream, which cannot capture");
    assert_int_equal(fake_cuda()->context_create(&other, 0), 0);
    ph__cu_stream raw = stream_in(other);
    assert_error(ph_stream_wrap_cuda(&wrapped, raw), PH_ERROR_WRONG_DEVICE, "primary");
    assert_null(wrapped);
    cu(StreamDestroy(raw)); /* such a handle would crash the driver: one that never was */
    assert_error(ph_stream_wrap_cuda(&wrapped, (struct CUstream_st *)(uintptr_t)&world),
                 PH_ERROR_ARGUMENT, "no stream of CUDA's");
    fake_cuda()->context_destroy(other);
}

/* ---- captures that CUDA's own calls begin ---- */
static ph__cu_graph end_raw(ph__cu_stream raw)
{
    ph__cu_graph graph = NULL;
    cu(StreamEndCapture(raw, &graph));
    assert_non_null(graph);
    return graph;
}

static size_t count_nodes(ph__cu_graph graph)
{
    size_t count = 0;
    cu(GraphGetNodes(graph, NULL, &count));
    return count;
}

static void run_raw(ph__cu_graph graph)
{
    ph__cu_exec exec;
    ph__cu_instantiate_params params = {0};
    cu(CtxPushCurrent(own));
    cu(GraphInstantiateWithParams(&exec, graph, &params));
    cu(GraphLaunch(exec, theirs));
    cu(StreamSynchronize(theirs));
    cu(GraphExecDestroy(exec));
    pop(own);
}

/* As a capture's forks, which nobody could wrap before. */
TEST(a_stream_that_is_capturing)
{
    NEED_FAKE();
    ph_stream *late;
    ph_pool *pool;
    int32_t *memory;
    ph_allocation found;
    ph__cu_stream raw = stream_in(own);
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    cu(StreamBeginCapture(raw, PH_CAPTURE_GLOBAL));
    assert_error(ph_stream_wrap_cuda(&late, raw), PH_ERROR_CAPTURE, "the stream is capturing");
    assert_ok(ph_stream_wrap_cuda_on(&late, world.device, raw));
    assert_ptr_equal(ph_stream_device(late), world.device);
    assert_int_equal(ph_stream_priority(late), 0);
    assert_ok(ph_pool_capture_begin(pool, late));
    assert_ok(PH_NEW(&memory, N, late));
    assert_ok(ph_memory_lookup(&found, world.device, memory));
    assert_ptr_equal(found.pool, pool);
    assert_ok(t_fill(&world, late, memory, N, 10));
    ph__cu_graph captured = end_raw(raw);
    assert_int_equal(count_nodes(captured), 1);
    assert_ok(ph_pool_capture_end(pool));
    run_raw(captured);
    t_all(memory, N, 10, late);
    cu(GraphDestroy(captured));
    ph_free(memory, late);
    assert_ok(ph_pool_capture_release(pool));
    ph_pool_release(pool);
    ph_stream_destroy(late);
    ph__cu_context other = primary(1);
    ph__cu_stream elsewhere = stream_in(other);
    assert_status(ph_stream_wrap_cuda_on(&late, world.device, elsewhere), PH_ERROR_WRONG_DEVICE);
    assert_null(late);
    cu(StreamDestroy(elsewhere));
    cu(StreamDestroy(raw));
    cu(DevicePrimaryCtxRelease(1));
}

TEST(work_in_a_foreign_capture)
{
    NEED_FAKE();
    int32_t *memory = NULL;
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    cu(StreamBeginCapture(theirs, PH_CAPTURE_GLOBAL));
    assert_true(ph_stream_is_capturing(stream));
    assert_ok(t_fill(&world, stream, x, N, 10));
    assert_ok(ph_memcpy(y, x, N * sizeof *y, stream));
    /* a fill that small is a kernel of the library's own */
    assert_ok(ph_memset_u32(x, 3, N, stream));
    assert_int_not_equal(PH_NEW(&memory, N, stream), PH_OK);
    assert_null(memory);
    assert_error(ph_graph_capture_begin(graph, stream, NULL), PH_ERROR_CAPTURE, "capturing");
    ph__cu_graph raw = end_raw(theirs);
    assert_int_equal(count_nodes(raw), 3);
    run_raw(raw);
    t_all(y, N, 10, stream);
    t_all(x, N, 3, stream);
    cu(GraphDestroy(raw));
    ph_graph_destroy(graph);
}

TEST(a_replay_in_a_foreign_capture)
{
    NEED_FAKE();
    ph_graph *graph;
    int type;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_graph_capture_end(graph, t_add(&world, world.stream, x, x, N, 1)));
    assert_ok(ph_memset(x, 0, N * sizeof *x, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    cu(StreamBeginCapture(theirs, PH_CAPTURE_RELAXED));
    assert_ok(t_add(&world, stream, x, x, N, 100));
    assert_ok(ph_graph_replay(graph, stream));
    assert_ok(t_add(&world, stream, x, y, N, 1000));
    ph__cu_graph raw = end_raw(theirs);
    ph__cu_node nodes[4];
    size_t count = 4;
    cu(GraphGetNodes(raw, nodes, &count));
    assert_int_equal(count, 3);
    cu(GraphNodeGetType(nodes[1], &type));
    assert_int_equal(type, PH_NODE_GRAPH);
    run_raw(raw);
    t_all(y, N, 1101, stream);
    cu(GraphDestroy(raw));
    ph_graph_destroy(graph);
}

/* ---- the user's functions ---- */
static const char ptx[] =
    "// a kernel of the user's\n"
    ".version 7.0\n.target sm_70\n.address_size 64\n"
    ".visible .entry add_i32(\n"
    "    .param .u64 n, .param .u64 .ptr .align 4 from, .param .u64 to, .param .u32 value\n"
    ")\n{\n    ret;\n}\n";

static ph__cu_module load_module(ph__cu_function *function)
{
    ph__cu_module module;
    cu(CtxPushCurrent(own));
    cu(ModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
    cu(ModuleGetFunction(function, module, "add_i32"));
    pop(own);
    return module;
}

static ph_status launch_wrapped(ph_stream *on, ph_kernel *kernel, const int32_t *from, int32_t *to,
                                int32_t value)
{
    struct t_add_i32 args;
    ph_launch_config config = t_config(N);
    memset(&args, 0, sizeof args); /* the record of an untyped launch reads the padding too */
    args.n = N;
    args.x = from;
    args.y = to;
    args.value = value;
    return ph_launch(on, kernel, &config, &args, sizeof args);
}

TEST(a_wrapped_function)
{
    NEED_FAKE();
    ph__cu_function function;
    ph__cu_module module = load_module(&function);
    ph_kernel *kernel;
    ph_graph *graph;
    const ph_record *record;
    ph_node_info node;
    assert_ok(ph_kernel_wrap_cuda(&kernel, world.device, function, NULL, 0));
    assert_string_equal(ph_kernel_name(kernel), "add_i32");
    assert_int_equal(ph_kernel_args_size(kernel), sizeof(struct t_add_i32));
    assert_ok(ph_memset_u32(x, 1, N, stream));
    assert_ok(launch_wrapped(stream, kernel, x, y, 20));
    t_all(y, N, 21, stream);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, stream, NULL));
    assert_ok(ph_graph_capture_end(graph, launch_wrapped(stream, kernel, y, x, 5)));
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_node(&node, record, 0));
    assert_string_equal(node.name, "add_i32");
    assert_int_equal(node.args_size, sizeof(struct t_add_i32));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 26, world.stream);
    ph_graph_destroy(graph);
    ph_kernel_release(kernel);
    cu(ModuleUnload(module));
    assert_error(ph_kernel_wrap_cuda(&kernel, world.device, function, NULL, 0), PH_ERROR_ARGUMENT,
                 "");
}

/* ---- graphs that CUDA's own calls made ---- */
static void count_call(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

/* x = 7; y = x + 30; pinned = y; y = 0 in bytes; a call; launched in both ways of handing
 * arguments over. */
static ph__cu_graph capture_raw(ph__cu_function add, int32_t *pinned, atomic_int *calls)
{
    uint64_t n = N;
    const int32_t *from = x;
    int32_t *to = y, value = 10;
    void *params[] = {&n, &from, &to, &value};
    struct t_add_i32 args = {N, y, y, 20};
    size_t size = offsetof(struct t_add_i32, value) + sizeof args.value;
    void *extra[] = {PH__CU_LAUNCH_PARAM_BUFFER_POINTER, &args, PH__CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &size, PH__CU_LAUNCH_PARAM_END};
    cu(StreamBeginCapture(theirs, PH_CAPTURE_GLOBAL));
    cu(MemsetD32Async((uintptr_t)x, 7, N, theirs));
    cu(LaunchKernel(add, 3, 1, 1, 256, 1, 1, 0, theirs, params, NULL));
    cu(LaunchKernel(add, 3, 1, 1, 256, 1, 1, 0, theirs, NULL, extra));
    cu(MemcpyAsync((uintptr_t)pinned, (uintptr_t)y, N * sizeof *y, theirs));
    cu(MemsetD8Async((uintptr_t)y, 0, N * sizeof *y, theirs));
    cu(LaunchHostFunc(theirs, count_call, calls));
    return end_raw(theirs);
}

static void check_record(ph_graph *graph, const int32_t *pinned)
{
    static const ph_node_kind kinds[] = {PH_NODE_MEMSET, PH_NODE_KERNEL, PH_NODE_KERNEL,
                                         PH_NODE_MEMCPY, PH_NODE_MEMSET, PH_NODE_HOST};
    const ph_record *record;
    ph_node_info node;
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), 6);
    for (size_t i = 0; i < 6; i++) {
        assert_ok(ph_record_node(&node, record, i));
        assert_int_equal(node.kind, kinds[i]);
        assert_int_equal(node.dependency_count, i > 0);
        if (node.kind != PH_NODE_KERNEL)
            continue;
        assert_string_equal(node.name, "add_i32");
        const struct t_add_i32 *args = node.args;
        assert_true(node.args_size >= offsetof(struct t_add_i32, value) + sizeof args->value);
        assert_int_equal(args->n, N);
        assert_int_equal(args->value, 10 * (int)i);
        assert_ptr_equal(args->y, y);
        assert_int_equal(node.grid[0], 3);
        assert_int_equal(node.block[0], 256);
    }
    assert_ok(ph_record_node(&node, record, 3));
    assert_ptr_equal(node.dst, pinned);
    assert_ptr_equal(node.src, y);
    assert_int_equal(node.bytes, N * sizeof(int32_t));
}

static void check_changes(ph_graph *graph, int32_t *pinned)
{
    struct t_add_i32 args = {N, y, y, 1000};
    ph_launch_config config = t_config(N);
    assert_ok(ph_graph_node_set_memset(graph, 0, x, 1, N));
    assert_error(ph_graph_node_set_launch(graph, 2, &config, &args, sizeof args),
                 PH_ERROR_UNSUPPORTED, "was not loaded by this library");
    assert_ok(ph_graph_node_set_enabled(graph, 4, false));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 31, world.stream);
    assert_int_equal(pinned[N - 1], 31);
}

TEST(an_imported_graph)
{
    NEED_FAKE();
    ph__cu_function add;
    ph__cu_module module = load_module(&add);
    ph_graph *graph;
    ph_graph_options keep = {.keep_graph = true};
    int32_t *pinned;
    atomic_int calls = 0;
    struct CUgraph_st *back;
    struct CUgraphExec_st *exec;
    assert_ok(ph_malloc_pinned(&pinned, N, sizeof *pinned, world.stream));
    ph__cu_graph raw = capture_raw(add, pinned, &calls);
    assert_ok(ph_graph_create(&graph, &keep));
    assert_ok(ph_graph_import_cuda(graph, world.device, raw, NULL));
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_ENDED);
    assert_ok(ph_graph_cuda(&back, graph));
    assert_ptr_equal(back, raw);
    check_record(graph, pinned);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 7, world.stream);
    t_all(y, N, 0, world.stream);
    for (int i = 0; i < N; i++)
        assert_int_equal(pinned[i], 37);
    assert_int_equal(atomic_load(&calls), 1);
    assert_ok(ph_graph_exec_cuda(&exec, graph));
    cu(GraphLaunch(exec, theirs));
    cu(StreamSynchronize(theirs));
    assert_int_equal(atomic_load(&calls), 2);
    check_changes(graph, pinned);
    ph_graph_destroy(graph);
    assert_int_equal(ph__cu.GraphDestroy(raw), PH__R_INVALID_VALUE); /* it was the graph's */
    ph_free_pinned(pinned, NULL);
    cu(ModuleUnload(module));
}

/* A refused import leaves it the caller's. */
TEST(an_import_that_fails)
{
    NEED_FAKE();
    static const char *const calls[] = {"cuGraphGetNodes",
                                        "cuGraphNodeGetType",
                                        "cuGraphKernelNodeGetParams",
                                        "cuGraphNodeGetDependencies",
                                        "cuGraphMemcpyNodeGetParams",
                                        "cuGraphMemsetNodeGetParams",
                                        "cuGraphHostNodeGetParams",
                                        "cuGraphInstantiateWithParams",
                                        "cuGraphUpload"};
    ph__cu_function add;
    ph__cu_module module = load_module(&add);
    ph_graph *graph;
    int32_t *pinned;
    atomic_int calls_made = 0;
    assert_ok(ph_malloc_pinned(&pinned, N, sizeof *pinned, world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    ph__cu_graph raw = capture_raw(add, pinned, &calls_made);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        fake_cuda()->fail_call(calls[i], 999, 1);
        assert_error(ph_graph_import_cuda(graph, world.device, raw, NULL), PH_ERROR_DEVICE, "999");
        fake_cuda()->fail_call(calls[i], 0, 0);
        assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
        assert_int_equal(count_nodes(raw), 6);
    }
    assert_ok(ph_graph_import_cuda(graph, world.device, raw, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    assert_int_equal(atomic_load(&calls_made), 1);
    ph_graph_destroy(graph);
    ph_free_pinned(pinned, NULL);
    cu(ModuleUnload(module));
}

/* ---- what kills a capture ---- a call of CUDA's own, which the driver's log tells of. */
TEST(the_log_names_the_culprit)
{
    NEED_FAKE();
    ph_graph *graph;
    ph__cu_pointer address;
    assert_ok(ph_graph_create(&graph, NULL));
    t_log_start();
    assert_ok(ph_graph_capture_begin(graph, stream, NULL));
    assert_ok(t_fill(&world, stream, x, N, 1));
    cu(CtxPushCurrent(own));
    assert_int_equal(ph__cu.MemAlloc(&address, 1 << 20), PH__R_CAPTURE_UNSUPPORTED);
    pop(own);
    assert_error(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE, "cuMemAlloc");
    assert_false(ph_stream_is_capturing(stream));
    t_log_stop();
    ph_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_wrapped_stream),          IN_WORLD(the_second_gpus_stream),
        IN_WORLD(streams_that_are_refused),  IN_WORLD(a_stream_that_is_capturing),
        IN_WORLD(work_in_a_foreign_capture), IN_WORLD(a_replay_in_a_foreign_capture),
        IN_WORLD(a_wrapped_function),        IN_WORLD(an_imported_graph),
        IN_WORLD(an_import_that_fails),      IN_WORLD(the_log_names_the_culprit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
