/* SPDX-License-Identifier: MIT */
/* Ranks that do not do the same: an error on all of them, which says what each has. */
#include "support/ranks.h"
#include "support/test.h"
#include <string.h>
#include <time.h>

enum {
    COUNT = 64
};
static t_team team;
static float *x;

FIXTURE(open_team)
{
    t_team_open(&team, 20000);
    assert_ok(ph_malloc((void **)&x, COUNT, sizeof *x, team.stream));
    return 0;
}

FIXTURE(close_team)
{
    ph_free(x, team.stream);
    t_team_close(&team);
    return 0;
}

static bool is_odd(void)
{
    return team.rank == team.size - 1;
}

static ph_status sum_of(size_t count, ph_reduce_op op)
{
    return ph_all_reduce(team.comm, x, x, count, PH_DTYPE_F32, op, team.stream);
}

/* GPUs are told of a difference as soon as both ranks have submitted: maybe in that call. */
static void expect_submitted(ph_status status)
{
    assert_true(status == PH_OK || (t_ranks_have_gpus() && status == PH_ERROR_MISMATCH));
}

/* The stream reports it, and so does each call that comes later. */
static void expect_mismatch(const char *first, const char *second)
{
    assert_error(ph_stream_synchronize(team.stream), PH_ERROR_MISMATCH, "the ranks do not agree");
    /* There the lowest rank that had submitted is named, which need not be rank 0. */
    if (t_ranks_have_gpus() && strncmp(first, "rank 0 has ", 11) == 0)
        first += 11;
    assert_error(ph_comm_check(team.comm), PH_ERROR_MISMATCH, first);
    assert_error(ph_comm_check(team.comm), PH_ERROR_MISMATCH, second);
    assert_error(sum_of(COUNT, PH_REDUCE_SUM), PH_ERROR_MISMATCH,
                 "ph_all_reduce: the communicator has failed");
    assert_error(ph_comm_barrier(team.comm, 0), PH_ERROR_MISMATCH, "ph_comm_barrier");
    ph_comm_abort(team.comm, NULL);
    assert_ok(ph_stream_synchronize(team.stream));
}

TEST(counts_that_differ_are_named)
{
    assert_ok(sum_of(COUNT, PH_REDUCE_SUM));
    expect_submitted(sum_of(is_odd() ? COUNT - 1 : COUNT, PH_REDUCE_SUM));
    assert_error(ph_stream_synchronize(team.stream), PH_ERROR_MISMATCH, "as number 2");
    expect_mismatch("rank 0 has all_reduce of 64 f32 (sum)", "all_reduce of 63 f32 (sum)");
}

TEST(operations_are_named_with_their_scopes)
{
    assert_ok(ph_annotation_push(team.stream, is_odd() ? "validate" : "train", NULL));
    expect_submitted(sum_of(COUNT, is_odd() ? PH_REDUCE_MAX : PH_REDUCE_SUM));
    assert_ok(ph_annotation_pop(team.stream));
    expect_mismatch("rank 0 has all_reduce of 64 f32 (sum), in \"train\"",
                    "all_reduce of 64 f32 (max), in \"validate\"");
}

/* NCCL's root of a broadcast has done its part before the others come: it learns of them later. */
static void wait_for_others(void)
{
    const struct timespec nap = {0, 1000000};
    for (int i = 0; i < 10000 && ph_comm_check(team.comm) == PH_OK; i++)
        (void)nanosleep(&nap, NULL);
}

TEST(kinds_and_roots_are_named)
{
    if (is_odd())
        expect_submitted(ph_broadcast(team.comm, x, x, COUNT, PH_DTYPE_F32, 1, team.stream));
    else
        expect_submitted(sum_of(COUNT, PH_REDUCE_SUM));
    if (t_ranks_have_gpus() && is_odd() && team.rank == 1)
        wait_for_others();
    expect_mismatch("all_reduce of 64", "broadcast of 64 f32 from rank 1");
}

TEST(results_are_not_read_back)
{
    float host[COUNT];
    expect_submitted(sum_of(is_odd() ? 1 : COUNT, PH_REDUCE_SUM));
    assert_error(ph_memcpy(host, x, sizeof host, team.stream), PH_ERROR_MISMATCH,
                 "ph_memcpy: a collective before has failed");
    assert_error(ph_device_synchronize(team.device), PH_ERROR_MISMATCH, "ph_device_synchronize");
}

static ph_status two_sums(ph_stream *stream, void *user)
{
    (void)stream;
    PH_TRY(sum_of(COUNT, PH_REDUCE_SUM));
    return user ? sum_of(COUNT, PH_REDUCE_MIN) : PH_OK;
}

/* Both graphs begin with the same collective, and the ranks hold both. */
TEST(graphs_replayed_in_another_order)
{
    ph_graph *graphs[2];
    for (size_t i = 0; i < 2; i++) {
        assert_ok(ph_graph_create(&graphs[i], NULL));
        assert_ok(ph_graph_capture(graphs[i], team.stream, NULL, two_sums, i ? x : NULL));
    }
    assert_ok(ph_graph_replay(graphs[0], team.stream));
    assert_ok(ph_graph_replay(graphs[1], team.stream));
    assert_ok(ph_stream_synchronize(team.stream));
    expect_submitted(ph_graph_replay(graphs[is_odd()], team.stream));
    expect_submitted(ph_graph_replay(graphs[!is_odd()], team.stream));
    assert_error(ph_stream_synchronize(team.stream), PH_ERROR_MISMATCH,
                 t_ranks_have_gpus() ? "as number 3, " : "as number 4");
    assert_error(ph_graph_replay(graphs[0], team.stream), PH_ERROR_MISMATCH,
                 "ph_graph_replay: the communicator has failed");
    ph_comm_abort(team.comm, NULL);
    ph_graph_destroy(graphs[0]);
    ph_graph_destroy(graphs[1]);
    assert_ok(ph_stream_synchronize(team.stream));
}

/* The last test: a transfer stays under way, so that MPI is given up. NCCL looks at no sizes. */
TEST(contents_of_another_size)
{
    if (t_ranks_have_gpus())
        return;
    if (team.rank == 0)
        assert_ok(ph_send(team.comm, x, COUNT, PH_DTYPE_F32, 1, team.stream));
    if (team.rank == 1) {
        assert_ok(ph_receive(team.comm, x, COUNT / 2, PH_DTYPE_F32, 0, team.stream));
        assert_error(ph_stream_synchronize(team.stream), PH_ERROR_MISMATCH,
                     "rank 1 has receive of 32 f32 from rank 0, and rank 0 send of 64 f32 to rank "
                     "1");
    }
    t_ranks_meet();
    t_rank_leaves();
}

int main(void)
{
#define IN_TEAM(name) cmocka_unit_test_setup_teardown(name, open_team, close_team)
    const struct CMUnitTest tests[] = {
        IN_TEAM(counts_that_differ_are_named),     IN_TEAM(operations_are_named_with_their_scopes),
        IN_TEAM(kinds_and_roots_are_named),        IN_TEAM(results_are_not_read_back),
        IN_TEAM(graphs_replayed_in_another_order), IN_TEAM(contents_of_another_size),
    };
    return t_ranks(tests);
}
