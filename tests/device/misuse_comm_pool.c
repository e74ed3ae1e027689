/* SPDX-License-Identifier: MIT */
/* Pools of a communicator of one rank, and what ph_comm_pool_create answers to bad input. */
#include "support/support.h"
#include "support/test.h"
#include <string.h>

enum {
    MIB = 1 << 20
};
static t_world world;
static ph_comm *comm;

FIXTURE(open_world)
{
    t_open(&world, NULL);
    assert_ok(ph_comm_create(&comm, world.device, NULL));
    return 0;
}

FIXTURE(close_world)
{
    ph_comm_release(comm);
    t_close(&world);
    return 0;
}

static void expect_refused(const ph_comm_pool_options *options, ph_status status, const char *part)
{
    ph_pool *pool;
    memset(&pool, 0xab, sizeof pool);
    assert_error(ph_comm_pool_create(&pool, comm, options), status, part);
    assert_null(pool);
}

TEST(null_and_reserved)
{
    ph_pool *pool;
    assert_error(ph_comm_pool_create(NULL, comm, NULL), PH_ERROR_ARGUMENT,
                 "ph_comm_pool_create: out");
    memset(&pool, 0xab, sizeof pool);
    assert_error(ph_comm_pool_create(&pool, NULL, NULL), PH_ERROR_ARGUMENT,
                 "ph_comm_pool_create: comm");
    assert_null(pool);
    expect_refused(&(ph_comm_pool_options){.reserved = {0, 1}}, PH_ERROR_ARGUMENT,
                   "ph_comm_pool_options");
}

TEST(sizes_that_cannot_be)
{
    expect_refused(&(ph_comm_pool_options){.reserve = PH_ZERO}, PH_ERROR_ARGUMENT, "reserve");
    expect_refused(&(ph_comm_pool_options){.limit = PH_ZERO}, PH_ERROR_ARGUMENT, "limit");
    expect_refused(&(ph_comm_pool_options){.reserve = SIZE_MAX - 5}, PH_ERROR_SIZE, "overflows");
    expect_refused(&(ph_comm_pool_options){.reserve = 3 * MIB, .limit = 3 * MIB}, PH_ERROR_ARGUMENT,
                   "(4194304, rounded up to 2 MiB) is above the limit of 3145728");
    expect_refused(&(ph_comm_pool_options){.reserve = (size_t)1 << 60}, PH_ERROR_DEVICE_MEMORY,
                   "ph_comm_pool_create");
}

TEST(a_failed_communicator_makes_none)
{
    ph_comm_abort(comm, "no data left");
    expect_refused(NULL, PH_ERROR_PEER, "no data left");
}

TEST(a_pool_of_one_rank_keeps_its_limit)
{
    ph_pool *pool;
    void *x, *y;
    ph_memory_stats stats;
    assert_ok(ph_comm_pool_create(
        &pool, comm, &(ph_comm_pool_options){.reserve = 2 * MIB, .limit = 4 * (size_t)MIB}));
    assert_ok(ph_pool_stats(&stats, pool));
    assert_int_equal(stats.reserved, 0); /* no segment has taken of the reserve */
    assert_ok(ph_pool_begin(pool));
    assert_ok(ph_malloc(&x, 1, 100, world.stream));
    assert_ok(ph_pool_stats(&stats, pool));
    assert_int_equal(stats.reserved, 2 * MIB);
    assert_error(ph_malloc(&y, 1, 12 * MIB, world.stream), PH_ERROR_POOL_LIMIT, "limit of 4194304");
    assert_ok(ph_pool_end(pool));
    ph_free(x, world.stream);
    ph_pool_release(pool);
}

static ph_status refused(ph_stream *stream, void *unused)
{
    void *x;
    (void)unused;
    assert_error(ph_malloc(&x, 1, 100, stream), PH_ERROR_STATE,
                 "raise ph_comm_pool_options.reserve (0)");
    return ph_fail(PH_ERROR_CALLER, "refused");
}

TEST(one_rank_is_refused_as_several_are)
{
    ph_pool *pool;
    ph_graph *graph;
    assert_ok(ph_comm_pool_create(&pool, comm, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(
        ph_graph_capture(graph, world.stream, &(ph_capture_options){.pool = pool}, refused, NULL),
        PH_ERROR_CALLER, "refused");
    ph_graph_destroy(graph);
    ph_pool_release(pool);
}

static ph_status sum_and_free(ph_stream *stream, void *out)
{
    int32_t *x, **summed = out;
    PH_TRY(ph_malloc(&x, MIB, sizeof *x, stream));
    PH_TRY(ph_all_reduce(comm, x, x, MIB, PH_DTYPE_I32, PH_REDUCE_SUM, stream));
    PH_TRY(ph_memset(x, 1, 4 * MIB, stream));
    *summed = x;
    ph_free(x, stream);
    return PH_OK;
}

/* As several ranks: what a collective of a graph addresses is nobody else's while that lives. */
TEST(memory_of_a_graph_is_not_handed_out_while_it_lives)
{
    const ph_comm_pool_options options = {.reserve = 64 * MIB};
    const size_t count = MIB;
    ph_pool *pool;
    ph_graph *graph;
    int32_t *summed, *other;
    assert_ok(ph_comm_pool_create(&pool, comm, &options));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, &(ph_capture_options){.pool = pool},
                               sum_and_free, &summed));
    assert_ok(ph_pool_begin(pool));
    assert_ok(ph_malloc(&other, count, sizeof *other, world.stream));
    assert_ok(ph_pool_end(pool));
    assert_true(other + count <= summed || summed + count <= other);
    ph_free(other, world.stream);
    ph_graph_destroy(graph);
    ph_pool_release(pool);
}

TEST(nothing_holds_the_communicator)
{
    ph_pool *pool;
    void *x;
    assert_ok(ph_comm_pool_create(&pool, comm, NULL));
    ph_comm_release(comm);
    assert_ok(ph_pool_begin(pool));
    assert_error(ph_malloc(&x, 1, 100, world.stream), PH_ERROR_STATE,
                 "the communicator of the pool has ended");
    assert_ok(ph_pool_end(pool));
    ph_pool_release(pool);
    assert_ok(ph_comm_create(&comm, world.device, NULL));
}

int main(void)
{
#define IN_COMM(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
    const struct CMUnitTest tests[] = {
        IN_COMM(null_and_reserved),
        IN_COMM(sizes_that_cannot_be),
        IN_COMM(a_failed_communicator_makes_none),
        IN_COMM(a_pool_of_one_rank_keeps_its_limit),
        IN_COMM(one_rank_is_refused_as_several_are),
        IN_COMM(memory_of_a_graph_is_not_handed_out_while_it_lives),
        IN_COMM(nothing_holds_the_communicator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
