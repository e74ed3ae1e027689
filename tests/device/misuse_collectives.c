/* SPDX-License-Identifier: MIT */
/* tests/device/misuse_collectives.c: collectives of one rank, and what the calls answer to bad
 * input. */
#include "support/support.h"
#include "support/test.h"
#include <stdio.h>
#include <string.h>

enum {
    COUNT = 100
};
static t_world world;
static ph_comm *comm;
static float *x, *y;

FIXTURE(open_world)
{
    t_open(&world, NULL);
    assert_ok(ph_comm_create(&comm, world.device, NULL));
    assert_ok(ph_malloc((void **)&x, COUNT, sizeof *x, world.stream));
    assert_ok(ph_malloc((void **)&y, COUNT, sizeof *y, world.stream));
    return 0;
}

FIXTURE(close_world)
{
    ph_free(x, world.stream);
    ph_free(y, world.stream);
    ph_comm_release(comm);
    t_close(&world);
    return 0;
}

static void expect_filled(const float *block, float value)
{
    float host[COUNT];
    t_read(host, block, sizeof host, world.stream);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(host[i] == value);
}

static ph_status all_of_them(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_all_reduce(comm, y, x, COUNT, PH_DTYPE_F32, PH_REDUCE_SUM, stream));
    PH_TRY(ph_all_reduce(comm, y, y, COUNT, PH_DTYPE_F32, PH_REDUCE_MEAN, stream));
    PH_TRY(ph_broadcast(comm, x, y, COUNT, PH_DTYPE_F32, 0, stream));
    PH_TRY(ph_all_gather(comm, y, x, COUNT, PH_DTYPE_F32, stream));
    PH_TRY(ph_comm_group_begin(comm));
    PH_TRY(ph_reduce_scatter(comm, x, y, COUNT, PH_DTYPE_F32, PH_REDUCE_MAX, stream));
    return ph_comm_group_end(comm);
}

TEST(one_rank_copies_or_does_nothing)
{
    ph_graph *graph;
    assert_ok(t_fill_f(&world, world.stream, x, COUNT, 3));
    assert_ok(all_of_them(world.stream, NULL));
    expect_filled(x, 3);
    expect_filled(y, 3);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, all_of_them, NULL));
    assert_ok(t_fill_f(&world, world.stream, x, COUNT, 4));
    assert_ok(ph_graph_replay(graph, world.stream));
    expect_filled(y, 4);
    ph_graph_destroy(graph);
}

/* Every call with arguments of which one is wrong. */
typedef struct given {
    ph_comm *comm;
    void *receive;
    const void *send;
    size_t count;
    ph_dtype dtype;
    ph_reduce_op op;
    ph_stream *stream;
} given;

static void expect_all(const given *g, ph_status status, const char *part)
{
    char text[160];
#define REFUSED(call, ...)                                                                         \
    do {                                                                                           \
        (void)snprintf(text, sizeof text, "%s: %s", #call, part);                                  \
        assert_error(call(__VA_ARGS__), status, text);                                             \
    } while (0)
    REFUSED(ph_all_reduce, g->comm, g->receive, g->send, g->count, g->dtype, g->op, g->stream);
    REFUSED(ph_reduce_scatter, g->comm, g->receive, g->send, g->count, g->dtype, g->op, g->stream);
    if (g->op != PH_REDUCE_SUM)
        return;
    REFUSED(ph_broadcast, g->comm, g->receive, g->send, g->count, g->dtype, 0, g->stream);
    REFUSED(ph_all_gather, g->comm, g->receive, g->send, g->count, g->dtype, g->stream);
#undef REFUSED
}

TEST(arguments_of_every_call)
{
    float host[COUNT];
    const given good = {comm, y, x, COUNT, PH_DTYPE_F32, PH_REDUCE_SUM, world.stream};
    given g = good;
    g.comm = NULL;
    expect_all(&g, PH_ERROR_ARGUMENT, "comm");
    g = good, g.stream = NULL;
    expect_all(&g, PH_ERROR_ARGUMENT, "stream");
    g = good, g.receive = NULL;
    expect_all(&g, PH_ERROR_ARGUMENT, "receive");
    g = good, g.send = NULL;
    expect_all(&g, PH_ERROR_ARGUMENT, "send");
    g = good, g.send = host;
    expect_all(&g, PH_ERROR_ARGUMENT, "send");
    g = good, g.receive = host;
    expect_all(&g, PH_ERROR_ARGUMENT, "receive");
    g = good, g.dtype = (ph_dtype)9;
    expect_all(&g, PH_ERROR_ARGUMENT, "dtype 9");
    g = good, g.dtype = (ph_dtype)0;
    expect_all(&g, PH_ERROR_ARGUMENT, "dtype 0");
    g = good, g.op = (ph_reduce_op)5;
    expect_all(&g, PH_ERROR_ARGUMENT, "op 5");
    g = good, g.op = PH_REDUCE_MEAN, g.dtype = PH_DTYPE_I32;
    expect_all(&g, PH_ERROR_ARGUMENT, "");
    g = good, g.count = SIZE_MAX / 2;
    expect_all(&g, PH_ERROR_SIZE, "");
    g = good, g.count = 1000000;
    expect_all(&g, PH_ERROR_SIZE, "");
    g = good, g.receive = (char *)x + 4, g.count = 10;
    expect_all(&g, PH_ERROR_ARGUMENT, "send");
    g = good, g.receive = (char *)y + 2, g.count = 10;
    expect_all(&g, PH_ERROR_ARGUMENT, "receive");
    assert_error(ph_all_reduce(comm, y, x, COUNT, PH_DTYPE_BOOL, PH_REDUCE_SUM, world.stream),
                 PH_ERROR_ARGUMENT, "bool has min and max alone");
    assert_error(ph_broadcast(comm, y, x, COUNT, PH_DTYPE_F32, 1, world.stream), PH_ERROR_ARGUMENT,
                 "rank 1 of 1");
    assert_error(ph_send(comm, x, COUNT, PH_DTYPE_F32, 0, world.stream), PH_ERROR_ARGUMENT,
                 "rank 0 is this one");
    assert_error(ph_receive(comm, x, COUNT, PH_DTYPE_F32, 0, world.stream), PH_ERROR_ARGUMENT,
                 "rank 0 is this one");
    assert_error(ph_send(comm, x, COUNT, PH_DTYPE_F32, 7, world.stream), PH_ERROR_ARGUMENT,
                 "rank 7 of 1");
    assert_ok(ph_all_reduce(comm, NULL, NULL, 0, PH_DTYPE_F32, PH_REDUCE_SUM, world.stream));
}

TEST(groups_begin_once_and_end_once)
{
    assert_error(ph_comm_group_begin(NULL), PH_ERROR_ARGUMENT, "ph_comm_group_begin: comm");
    assert_error(ph_comm_group_end(NULL), PH_ERROR_ARGUMENT, "ph_comm_group_end: comm");
    assert_error(ph_comm_group_end(comm), PH_ERROR_STATE, "no group is open");
    assert_ok(ph_comm_group_begin(comm));
    assert_error(ph_comm_group_begin(comm), PH_ERROR_STATE, "a group of the communicator is open");
    assert_ok(ph_comm_group_end(comm));
}

TEST(memory_of_another_device_is_refused)
{
    t_world other;
    t_open(&other, "host:threads=1");
    assert_error(ph_all_reduce(comm, x, x, COUNT, PH_DTYPE_F32, PH_REDUCE_SUM, other.stream),
                 PH_ERROR_WRONG_DEVICE, "ph_all_reduce: the communicator");
    t_close(&other);
}

TEST(a_communicator_that_has_failed)
{
    ph_comm_abort(comm, "over");
    assert_error(ph_all_reduce(comm, x, x, COUNT, PH_DTYPE_F32, PH_REDUCE_SUM, world.stream),
                 PH_ERROR_PEER, "ph_all_reduce: the communicator has failed: ph_comm_abort");
    assert_error(ph_comm_group_begin(comm), PH_ERROR_PEER, "over");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(one_rank_copies_or_does_nothing), IN_WORLD(arguments_of_every_call),
        IN_WORLD(groups_begin_once_and_end_once), IN_WORLD(memory_of_another_device_is_refused),
        IN_WORLD(a_communicator_that_has_failed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
