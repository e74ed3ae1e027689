/* SPDX-License-Identifier: MIT */
/* tests/cuda/rows.c: a fill of several rows with gaps between them, which only a graph of CUDA's
 * own making has: it is replayed as it is, and cannot be changed for a contiguous one. */
#include "program.h"
#include "support/test.h"
#include <phonograph/cuda.h>
#include <phonograph/inspect/races.h>

enum {
    WIDTH = 100, /* words of a row that are filled */
    PITCH = 128, /* words from row to row */
    ROWS = 3,
    N = PITCH * ROWS
};

static t_world world;
static ph__cu_context own;
static int32_t *x;

static ph__cu_graph make(size_t rows)
{
    ph__cu_graph graph;
    ph__cu_node node;
    const ph__cu_fill_params params = {.dst = (uintptr_t)x,
                                       .pitch = PITCH * sizeof *x,
                                       .value = 9,
                                       .element_bytes = sizeof *x,
                                       .width = WIDTH,
                                       .height = rows};
    cu(CtxPushCurrent(own));
    program(GraphCreate(&graph, 0));
    program(GraphAddMemsetNode(&node, graph, NULL, 0, &params, own));
    pop(own);
    return graph;
}

static void clear(void)
{
    assert_ok(ph_memset(x, 0, N * sizeof *x, world.stream));
}

/* The first words of each row are `value`, all others 0. */
static void check_rows(size_t rows, int32_t value)
{
    int32_t host[N];
    t_read(host, x, sizeof host, world.stream);
    for (size_t i = 0; i < N; i++)
        assert_int_equal(host[i], i / PITCH < rows && i % PITCH < WIDTH ? value : 0);
}

static void open_world(void)
{
    t_open(&world, NULL);
    program_load();
    own = primary(0);
    assert_ok(PH_NEW(&x, N, world.stream));
    clear();
    assert_ok(ph_stream_synchronize(world.stream));
}

static void close_world(void)
{
    ph_free(x, NULL);
    t_close(&world);
    cu(DevicePrimaryCtxRelease(0));
    assert_int_equal(ph__alloc_live(), 0);
}

TEST(replayed_and_not_changed)
{
    ph_graph *graph;
    const ph_record *record;
    ph_node_info info;
    open_world();
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_import_cuda(graph, world.device, make(ROWS), NULL));
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_node(&info, record, 0));
    assert_int_equal(info.kind, PH_NODE_MEMSET);
    assert_ptr_equal(info.dst, x);
    assert_int_equal(info.value, 9);
    assert_int_equal(info.bytes, WIDTH * ROWS * sizeof *x);
    assert_ok(ph_graph_replay(graph, world.stream));
    check_rows(ROWS, 9);
    assert_error(ph_graph_node_set_memset(graph, 0, x, 4, WIDTH), PH_ERROR_ARGUMENT,
                 "rows with gaps between them");
    clear();
    assert_ok(ph_graph_replay(graph, world.stream));
    check_rows(ROWS, 9);
    ph_graph_destroy(graph);
    close_world();
}

/* One row has no gaps. */
TEST(one_row_is_changed)
{
    ph_graph *graph;
    open_world();
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_import_cuda(graph, world.device, make(1), NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    check_rows(1, 9);
    assert_ok(ph_graph_node_set_memset(graph, 0, x, 4, WIDTH));
    assert_ok(ph_graph_replay(graph, world.stream));
    check_rows(1, 4);
    ph_graph_destroy(graph);
    close_world();
}

/* Two fills with no order between them, the second from that word of each row to its end. */
static void expect_races(size_t from, size_t certain)
{
    ph_graph *graph;
    ph_races *races;
    ph_race race;
    ph__cu_graph both = make(ROWS);
    ph__cu_node node;
    const ph__cu_fill_params params = {.dst = (uintptr_t)(x + from),
                                       .pitch = PITCH * sizeof *x,
                                       .value = 8,
                                       .element_bytes = sizeof *x,
                                       .width = PITCH - from,
                                       .height = ROWS};
    cu(CtxPushCurrent(own));
    program(GraphAddMemsetNode(&node, both, NULL, 0, &params, own));
    pop(own);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_import_cuda(graph, world.device, both, NULL));
    assert_ok(ph_graph_find_races(&races, graph));
    assert_int_equal(ph_races_count(races, NULL), certain);
    if (certain) {
        assert_ok(ph_races_at(&race, races, 0));
        assert_true(race.certain);
        assert_int_equal(race.bytes, (WIDTH - from) * sizeof *x);
    }
    ph_races_destroy(races);
    ph_graph_destroy(graph);
}

TEST(rows_race_only_where_they_meet)
{
    open_world();
    expect_races(WIDTH, 0);
    expect_races(WIDTH - 1, 1);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(replayed_and_not_changed),
        cmocka_unit_test(one_row_is_changed),
        cmocka_unit_test(rows_race_only_where_they_meet),
    };
    return cmocka_run_group_tests_name("cuda.rows", tests, NULL, NULL);
}
