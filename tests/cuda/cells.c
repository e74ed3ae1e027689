/* SPDX-License-Identifier: MIT */
/* tests/cuda/cells.c: cells beside CUDA's own calls: nodes that other code captured, captures
 * that it began, programmatic edges. */
#include "fake.h"
#include "support/test.h"
#include <phonograph/cuda.h>

static t_world world;
static struct CUstream_st *raw; /* the world's stream */
static ph_graph *graph;
static uint64_t *y;

FIXTURE(open_world)
{
    if (!fake_cuda())
        return 0; /* each test says why it skips */
    t_open(&world, NULL);
    assert_ok(ph_stream_cuda(&raw, world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(PH_NEW(&y, 64, world.stream));
    return 0;
}

FIXTURE(close_world)
{
    if (!fake_cuda())
        return 0;
    ph_graph_destroy(graph);
    ph_free(y, world.stream);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    assert_string_equal(left_behind(), "");
    assert_int_equal(fake_cuda()->misuses(), 0);
    return 0;
}

static ph_status next(uint64_t *values, void *user)
{
    values[0] = ++*(uint64_t *)user;
    return PH_OK;
}

static void replay(uint64_t expected)
{
    uint64_t seen;
    assert_ok(ph_graph_replay(graph, world.stream));
    t_read(&seen, y, sizeof seen, world.stream);
    assert_int_equal(seen, expected);
}

/* The library has not seen every node made, and reads all of them back: its own, too. */
TEST(beside_nodes_of_other_code)
{
    NEED_FAKE();
    uint64_t count = 0, *cell;
    const ph_cells_source source = {.count = 1, .values = next, .user = &count};
    const ph_record *record;
    ph_word word;
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_context_push_cuda(world.device));
    cu(MemsetD8Async((uintptr_t)(y + 8), 1, 64, raw));
    assert_ok(ph_cells_create(&cell, world.stream, &source));
    cu(MemcpyAsync((uintptr_t)y, (uintptr_t)cell, sizeof *y, raw));
    ph_context_pop_cuda(world.device);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), 3);
    for (size_t i = 0; i < 3; i++) {
        ph_node_info info;
        assert_ok(ph_record_node(&info, record, i));
        if (info.kind != PH_NODE_KERNEL)
            continue;
        assert_ok(ph_record_word(&word, record, i, 1));
        assert_int_equal(word.kind, PH_WORD_PROVED);
        assert_int_equal(word.value, (uintptr_t)cell);
    }
    for (uint64_t i = 1; i <= 3; i++)
        replay(i);
}

TEST(in_a_capture_of_other_code)
{
    NEED_FAKE();
    uint64_t count = 0, *cell;
    const ph_cells_source source = {.count = 1, .values = next, .user = &count};
    ph__cu_graph theirs;
    cu(StreamBeginCapture(raw, PH_CAPTURE_RELAXED));
    assert_error(ph_cells_create(&cell, world.stream, &source), PH_ERROR_CAPTURE, "did not begin");
    assert_native(900);
    assert_null(cell);
    assert_error(ph_cells_require(world.stream), PH_ERROR_CAPTURE, "did not begin");
    cu(StreamEndCapture(raw, &theirs));
    cu(GraphDestroy(theirs));
}

static ph_edge_kind edge(const ph_record *record, size_t node, size_t dependency)
{
    ph_edge_kind kind;
    assert_ok(ph_record_edge(&kind, record, node, dependency));
    return kind;
}

TEST(a_programmatic_launch_waits_in_full_for_its_cells)
{
    NEED_FAKE();
    uint64_t count = 40, *cell;
    const ph_cells_source source = {.count = 1, .values = next, .user = &count};
    const ph_record *record;
    ph_launch_config config = t_config(1);
    int32_t *to = (int32_t *)(void *)y;
    struct t_add_i32 args = {1, to, to, 0};
    config.programmatic = true;
    assert_ok(ph_memset(y, 0, sizeof *y, world.stream));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_cells_create(&cell, world.stream, &source));
    args.x = (const int32_t *)(const void *)cell;
    assert_ok(ph_launch(world.stream, world.add_i32, &config, &args, sizeof args));
    args.x = to;
    assert_ok(ph_launch(world.stream, world.add_i32, &config, &args, sizeof args));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), 3);
    assert_int_equal(edge(record, 1, 0), PH_EDGE_FULL);
    assert_int_equal(edge(record, 2, 0), PH_EDGE_PROGRAMMATIC);
    replay(41);
    replay(42);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(beside_nodes_of_other_code),
        IN_WORLD(in_a_capture_of_other_code),
        IN_WORLD(a_programmatic_launch_waits_in_full_for_its_cells),
    };
    return cmocka_run_group_tests_name("cuda.cells", tests, NULL, NULL);
}
