/* SPDX-License-Identifier: MIT */
/* Pools of memory that is registered with a communicator: what is registered, when, and for how
 * long. Over MPI nothing is registered, and the refusals are the same. */
#include "base/sync.h"
#include "fake/fake_nccl.h"
#include "support/ranks.h"
#include "support/test.h"

enum {
    COUNT = 1000,
    INTERNAL_ERROR = 3,
    MIB = 1 << 20
};
static t_team team;
static t_world world; /* kernels of the team's device */
static const fake_nccl_controls *nccl;

FIXTURE(open_team)
{
    t_team_open(&team, 20000);
    t_open_world(&world, ph_device_retain(team.device));
    return 0;
}

FIXTURE(close_team)
{
    t_close(&world);
    t_team_close(&team);
    if (nccl)
        assert_int_equal(nccl->memories(), 0);
    return 0;
}

static ph_pool *pool_of(size_t reserve)
{
    ph_pool *pool;
    assert_ok(ph_comm_pool_create(&pool, team.comm, &(ph_comm_pool_options){.reserve = reserve}));
    return pool;
}

static ph_status take(int32_t **out, ph_pool *pool, size_t count)
{
    PH_TRY(ph_pool_begin(pool));
    ph_status status = ph_malloc((void **)out, count, sizeof **out, team.stream);
    ph_error saved = *ph_error_last();
    assert_ok(ph_pool_end(pool));
    return status == PH_OK ? PH_OK : ph_error_set(&saved);
}

static void expect_registered(const void *address, size_t bytes, bool registered)
{
    if (nccl)
        assert_int_equal(nccl->is_registered(address, bytes), registered);
}

static int64_t count_registered(void)
{
    return nccl ? nccl->calls_of("ncclCommRegister") : 0;
}

static ph_status sum(int32_t *x)
{
    return ph_all_reduce(team.comm, x, x, COUNT, PH_DTYPE_I32, PH_REDUCE_SUM, team.stream);
}

static void sums_right(int32_t *x)
{
    assert_ok(t_fill(&world, team.stream, x, COUNT, 3));
    assert_ok(sum(x));
    t_all(x, COUNT, 3 * (int32_t)team.size, team.stream);
}

TEST(memory_is_registered_until_it_goes_back)
{
    int32_t *x, *y;
    ph_pool *pool = pool_of(0);
    assert_ok(take(&x, pool, COUNT));
    assert_ok(take(&y, pool, 30 * MIB / sizeof *y));
    expect_registered(x, COUNT * sizeof *x, true);
    expect_registered(y, 30 * MIB, true);
    sums_right(x);
    sums_right(y);
    ph_free(x, team.stream);
    ph_free(y, team.stream);
    expect_registered(y, 30 * MIB, true); /* the pool caches it */
    assert_ok(ph_stream_synchronize(team.stream));
    assert_ok(ph_pool_trim(pool));
    expect_registered(y, 1, false);
    if (nccl)
        assert_int_equal(nccl->memories(), 0);
    assert_ok(take(&x, pool, COUNT));
    sums_right(x);
    ph_free(x, team.stream);
    ph_pool_release(pool);
}

/* ---- captures ---- */
typedef struct body_args {
    int32_t *x;
    bool freed;
} body_args;

static ph_status body(ph_stream *stream, void *user)
{
    body_args *args = user;
    PH_TRY(ph_malloc((void **)&args->x, COUNT, sizeof *args->x, stream));
    PH_TRY(t_fill(&world, stream, args->x, COUNT, 5));
    PH_TRY(sum(args->x));
    if (args->freed)
        ph_free(args->x, stream);
    return PH_OK;
}

static ph_graph *capture(ph_pool *pool, body_args *args)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(
        ph_graph_capture(graph, team.stream, &(ph_capture_options){.pool = pool}, body, args));
    return graph;
}

TEST(the_reserve_serves_captures)
{
    body_args args = {0};
    ph_pool *pool = pool_of(3 * MIB / 2);
    int64_t before = count_registered();
    ph_graph *graph = capture(pool, &args);
    assert_int_equal(count_registered(), before);
    expect_registered(args.x, COUNT * sizeof *args.x, true);
    for (int i = 0; i < 10; i++) {
        assert_ok(ph_graph_replay(graph, team.stream));
        t_all(args.x, COUNT, 5 * (int32_t)team.size, team.stream);
    }
    ph_pool_release(pool);
    expect_registered(args.x, COUNT * sizeof *args.x, true); /* the graph keeps it */
    assert_ok(ph_graph_replay(graph, team.stream));
    t_all(args.x, COUNT, 5 * (int32_t)team.size, team.stream);
    ph_graph_destroy(graph);
}

typedef struct refused_args {
    ph_pool *pool;
    int32_t *x;
} refused_args;

static ph_status body_refused(ph_stream *stream, void *user)
{
    refused_args *args = user;
    ph_pool *other;
    int32_t *none;
    assert_error(ph_malloc((void **)&none, 4 * MIB, sizeof *none, stream), PH_ERROR_STATE,
                 "raise ph_comm_pool_options.reserve (2097152)");
    assert_null(none);
    assert_error(ph_comm_pool_create(&other, team.comm, &(ph_comm_pool_options){.reserve = 1}),
                 PH_ERROR_STATE,
                 "ph_comm_pool_create: a reserve of 2097152 bytes, while a capture is open");
    assert_null(other);
    assert_ok(ph_comm_pool_create(&other, team.comm, NULL));
    ph_pool_release(other);
    PH_TRY(t_fill(&world, stream, args->x, COUNT, 7));
    return sum(args->x);
}

TEST(a_capture_registers_nothing_and_goes_on)
{
    ph_graph *graph;
    refused_args args = {.pool = pool_of(1)};
    assert_ok(take(&args.x, args.pool, COUNT));
    int64_t before = count_registered();
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, team.stream, &(ph_capture_options){.pool = args.pool},
                               body_refused, &args));
    assert_int_equal(count_registered(), before);
    assert_ok(ph_graph_replay(graph, team.stream));
    t_all(args.x, COUNT, 7 * (int32_t)team.size, team.stream);
    ph_graph_destroy(graph);
    ph_free(args.x, team.stream);
    ph_pool_release(args.pool);
}

TEST(memory_of_a_graph_is_not_handed_out_while_it_lives)
{
    body_args args = {.freed = true};
    int32_t *other;
    ph_pool *pool = pool_of(2 * MIB);
    ph_graph *graph = capture(pool, &args);
    assert_ok(take(&other, pool, COUNT));
    assert_true(other + COUNT <= args.x || args.x + COUNT <= other);
    assert_ok(t_fill(&world, team.stream, other, COUNT, 11));
    assert_ok(ph_graph_replay(graph, team.stream));
    t_all(other, COUNT, 11, team.stream);
    ph_free(other, team.stream);
    ph_graph_destroy(
        capture(pool, &args)); /* of the same reserve: the first graph keeps its part */
    assert_ok(ph_graph_replay(graph, team.stream));
    assert_ok(ph_graph_reset(graph));
    ph_graph *again = capture(pool, &args); /* from the same reserve */
    assert_ok(ph_graph_replay(again, team.stream));
    ph_graph_destroy(again);
    ph_graph_destroy(graph);
    ph_pool_release(pool);
}

/* ---- lifetimes ---- */
TEST(the_communicator_may_end_first)
{
    int32_t *x, *again;
    ph_pool *pool;
    ph_comm *other;
    assert_ok(ph_comm_create(&other, team.device, NULL));
    assert_ok(
        ph_comm_pool_create(&pool, other, &(ph_comm_pool_options){.reserve = 4 * (size_t)MIB}));
    assert_ok(take(&x, pool, COUNT));
    expect_registered(x, COUNT * sizeof *x, true);
    ph_comm_release(other);
    expect_registered(x, 1, false);
    sums_right(x); /* of another communicator */
    assert_ok(take(&again, pool, COUNT));
    ph_free(again, team.stream);
    assert_error(take(&again, pool, 20 * MIB), PH_ERROR_STATE,
                 "the communicator of the pool has ended");
    ph_free(x, team.stream);
    ph_pool_release(pool);
}

TEST(the_pool_may_end_first)
{
    int32_t *x;
    ph_pool *pool = pool_of(2 * MIB);
    assert_ok(take(&x, pool, COUNT));
    ph_pool_release(pool);
    expect_registered(x, COUNT * sizeof *x, true);
    sums_right(x);
    ph_free(x, team.stream);
    assert_ok(ph_stream_synchronize(team.stream));
    assert_ok(ph_memory_trim(team.device));
    if (nccl)
        assert_int_equal(nccl->memories(), 0);
}

TEST(many_pools_of_one_communicator_leave_nothing)
{
    ph_pool *pools[8];
    for (size_t i = 0; i < 8; i++)
        pools[i] = pool_of(2 * MIB);
    for (size_t i = 0; i < 8; i++)
        ph_pool_release(pools[i * 3 % 8]);
    if (nccl)
        assert_int_equal(nccl->memories(), 0);
    ph_pool *last = pool_of(2 * MIB);
    assert_ok(ph_comm_barrier(team.comm, 0));
    ph_pool_release(last);
}

TEST(a_failed_communicator_registers_no_more)
{
    int32_t *x, *more;
    ph_pool *pool = pool_of(0);
    assert_ok(take(&x, pool, COUNT));
    sums_right(x);
    t_ranks_meet();
    ph_comm_abort(team.comm, "enough");
    assert_error(take(&more, pool, 30 * MIB), PH_ERROR_PEER, "enough");
    assert_ok(t_fill(&world, team.stream, x, COUNT, 2));
    t_all(x, COUNT, 2, team.stream);
    ph_free(x, team.stream);
    ph_pool_release(pool);
}

/* ---- NCCL ---- */
TEST(what_nccl_refuses_is_an_error_and_leaves_nothing)
{
    int32_t *x;
    ph_pool *pool;
    if (nccl == NULL)
        return; /* nothing else registers */
    nccl->fail_call("ncclCommRegister", INTERNAL_ERROR, 1);
    assert_error(ph_comm_pool_create(&pool, team.comm, &(ph_comm_pool_options){.reserve = MIB}),
                 PH_ERROR_DEVICE, "ncclCommRegister: internal error");
    assert_null(pool);
    assert_int_equal(nccl->memories(), 0);
    pool = pool_of(0);
    nccl->fail_call("ncclMemAlloc", 1, 2); /* once more behind a trim */
    assert_error(take(&x, pool, COUNT), PH_ERROR_DEVICE_MEMORY,
                 "ncclMemAlloc: unhandled cuda error");
    assert_ok(take(&x, pool, COUNT));
    sums_right(x);
    ph_free(x, team.stream);
    ph_pool_release(pool);
    assert_ok(ph_comm_check(team.comm));
}

static void *register_often(void *user)
{
    ph_pool *pool = user;
    ph_stream *stream;
    void *x;
    assert_ok(ph_stream_create(&stream, team.device, NULL));
    assert_ok(ph_pool_begin(pool));
    for (int i = 0; i < 100; i++) {
        assert_ok(ph_malloc(&x, 1, 2 * MIB, stream));
        ph_free(x, stream);
        assert_ok(ph_pool_trim(pool));
    }
    assert_ok(ph_pool_end(pool));
    ph_stream_destroy(stream);
    return NULL;
}

/* The first collective is the one that keeps NCCL busy; the software NCCL ends the process where it
 * is told anything else meanwhile. */
TEST(threads_register_while_others_submit)
{
    pthread_t thread;
    int32_t *x;
    ph_pool *pool = pool_of(0);
    assert_ok(ph_malloc((void **)&x, COUNT, sizeof *x, team.stream));
    assert_true(ph__thread_start(&thread, "register", register_often, pool));
    for (int i = 0; i < 20; i++)
        sums_right(x);
    pthread_join(thread, NULL);
    ph_free(x, team.stream);
    ph_pool_release(pool);
}

int main(void)
{
#define IN_TEAM(name) cmocka_unit_test_setup_teardown(name, open_team, close_team)
    const struct CMUnitTest tests[] = {
        IN_TEAM(memory_is_registered_until_it_goes_back),
        IN_TEAM(the_reserve_serves_captures),
        IN_TEAM(a_capture_registers_nothing_and_goes_on),
        IN_TEAM(memory_of_a_graph_is_not_handed_out_while_it_lives),
        IN_TEAM(the_communicator_may_end_first),
        IN_TEAM(the_pool_may_end_first),
        IN_TEAM(many_pools_of_one_communicator_leave_nothing),
        IN_TEAM(a_failed_communicator_registers_no_more),
        IN_TEAM(what_nccl_refuses_is_an_error_and_leaves_nothing),
        IN_TEAM(threads_register_while_others_submit),
    };
    nccl = t_ranks_have_gpus() ? fake_nccl() : NULL;
    return t_ranks(tests);
}
