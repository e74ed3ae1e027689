/* SPDX-License-Identifier: MIT */
/* tests/cuda/memory_nodes.c: memory that a program takes and gives back with CUDA's own calls
 * inside a capture, or in a graph that it built: nodes of the graph, shown in the record and
 * replayed like the others. */
#include "program.h"
#include "support/test.h"
#include <phonograph/cuda.h>

enum {
    N = 600,
    BYTES = N * sizeof(int32_t)
};

static t_world world;
static ph__cu_context own;
static ph__cu_stream theirs;
static ph_stream *stream; /* its wrapper */
static ph_graph *graph;
static int32_t *y;

FIXTURE(open_world)
{
    t_open(&world, NULL);
    program_load();
    own = primary(0);
    theirs = stream_in(own);
    assert_ok(ph_stream_wrap_cuda(&stream, theirs));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(PH_NEW(&y, N, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    cu(CtxPushCurrent(own));
    return 0;
}

FIXTURE(close_world)
{
    pop(own);
    ph_graph_destroy(graph);
    ph_free(y, NULL);
    ph_stream_destroy(stream);
    cu(StreamDestroy(theirs));
    t_close(&world);
    cu(DevicePrimaryCtxRelease(0));
    assert_int_equal(ph__alloc_live(), 0);
    if (fake_cuda()) {
        assert_string_equal(left_behind(), "");
        assert_int_equal(fake_cuda()->misuses(), 0);
    }
    return 0;
}

/* y = 8, by way of memory of the graph's own. */
typedef struct scratch {
    bool kept; /* not given back in the graph */
    ph__cu_pointer address;
} scratch;

static ph_status through_memory(ph_stream *on, void *user)
{
    scratch *s = user;
    struct CUstream_st *raw;
    PH_TRY(ph_stream_cuda(&raw, on));
    PH_TRY(ph_fail_cuda(program.MemAllocAsync(&s->address, BYTES, raw), "cuMemAllocAsync"));
    int32_t *memory = (int32_t *)(uintptr_t)s->address;
    PH_TRY(t_fill(&world, on, memory, N, 7));
    PH_TRY(t_add(&world, on, memory, y, N, 1));
    return s->kept ? PH_OK : ph_fail_cuda(program.MemFreeAsync(s->address, raw), "cuMemFreeAsync");
}

/* The nodes are a chain of these kinds. */
static void check_chain(const ph_node_kind *kinds, size_t count, const scratch *s)
{
    const ph_record *record;
    ph_node_info info;
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), count);
    assert_int_equal(ph_record_edge_count(record), count - 1);
    for (size_t i = 0; i < count; i++) {
        assert_ok(ph_record_node(&info, record, i));
        assert_int_equal(info.kind, kinds[i]);
        assert_int_equal(info.dependency_count, i > 0);
        if (info.kind == PH_NODE_MEM_ALLOC || info.kind == PH_NODE_MEM_FREE)
            assert_int_equal((uintptr_t)info.dst, s->address);
        if (info.kind == PH_NODE_MEM_ALLOC)
            assert_true(info.bytes >= BYTES);
    }
}

static void check_replays(ph_stream *on, int times)
{
    for (int i = 0; i < times; i++) {
        assert_ok(ph_memset(y, 0, BYTES, on));
        assert_ok(ph_graph_replay(graph, on));
        t_all(y, N, 8, on);
    }
}

static const ph_node_kind whole[] = {PH_NODE_MEM_ALLOC, PH_NODE_KERNEL, PH_NODE_KERNEL,
                                     PH_NODE_MEM_FREE};

TEST(in_a_capture)
{
    scratch s = {false, 0};
    char *json;
    const ph_record *record;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, through_memory, &s));
    check_chain(whole, 4, &s);
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_json(&json, record));
    assert_non_null(strstr(json, ph_node_kind_name(PH_NODE_MEM_ALLOC)));
    assert_non_null(strstr(json, ph_node_kind_name(PH_NODE_MEM_FREE)));
    ph_string_free(json);
    check_replays(world.stream, 3);
    check_replays(stream, 2);
    /* The same graph again, after a reset. */
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, stream, NULL, through_memory, &s));
    check_chain(whole, 4, &s);
    check_replays(stream, 2);
}

/* What no node of it gives back, the next launch does. */
TEST(memory_that_stays)
{
    scratch s = {true, 0};
    int32_t host[N];
    assert_ok(ph_graph_capture(graph, stream, NULL, through_memory, &s));
    check_chain(whole, 3, &s);
    check_replays(stream, 3);
    cu(MemcpyAsync((uintptr_t)host, s.address, BYTES, theirs));
    cu(StreamSynchronize(theirs));
    assert_int_equal(host[N - 1], 7);
    program(MemFreeAsync(s.address, theirs));
    cu(StreamSynchronize(theirs));
}

/* CUDA copies no such graph: the capture is told so, and goes on. */
TEST(not_as_a_child)
{
    scratch s = {false, 0};
    ph_graph *outer;
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, through_memory, &s));
    assert_ok(ph_memset(y, 0, BYTES, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_graph_capture_begin(outer, world.stream, NULL));
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_UNSUPPORTED,
                 "not put into the capture");
    assert_native(801);
    assert_ok(t_add(&world, world.stream, y, y, N, 5));
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_ok(ph_graph_replay(outer, world.stream));
    t_all(y, N, 5, world.stream);
    check_replays(world.stream, 1);
    ph_graph_destroy(outer);
}

/* A capture of the program's own, taken over. */
TEST(in_an_imported_graph)
{
    static const ph_node_kind kinds[] = {PH_NODE_MEM_ALLOC, PH_NODE_MEMSET, PH_NODE_MEMCPY,
                                         PH_NODE_MEM_FREE};
    scratch s = {false, 0};
    ph__cu_graph raw = NULL;
    cu(StreamBeginCapture(theirs, PH_CAPTURE_GLOBAL));
    program(MemAllocAsync(&s.address, BYTES, theirs));
    cu(MemsetD32Async(s.address, 8, N, theirs));
    cu(MemcpyAsync((uintptr_t)y, s.address, BYTES, theirs));
    program(MemFreeAsync(s.address, theirs));
    cu(StreamEndCapture(theirs, &raw));
    assert_ok(ph_graph_import_cuda(graph, world.device, raw, NULL));
    check_chain(kinds, 4, &s);
    check_replays(world.stream, 2);
    check_replays(stream, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(in_a_capture),
        IN_WORLD(memory_that_stays),
        IN_WORLD(not_as_a_child),
        IN_WORLD(in_an_imported_graph),
    };
    return cmocka_run_group_tests_name("cuda.memory_nodes", tests, NULL, NULL);
}
