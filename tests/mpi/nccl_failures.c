/* SPDX-License-Identifier: MIT */
/* Failures of NCCL: reported by the call, by waits, and by the thread that watches; nothing hangs,
 * and nothing is left. */
#include "fake/fake_nccl.h"
#include "support/ranks.h"
#include "support/test.h"
#include <stdio.h>
#include <unistd.h>

enum {
    COUNT = 1000,
    INTERNAL_ERROR = 3
};
static const fake_nccl_controls *nccl;
static t_team team;
static float *x;

FIXTURE(open_team)
{
    t_team_open(&team, 20000);
    assert_ok(ph_malloc((void **)&x, COUNT, sizeof *x, team.stream));
    assert_ok(ph_memset(x, 0, COUNT * sizeof *x, team.stream));
    assert_ok(ph_all_reduce(team.comm, x, x, COUNT, PH_DTYPE_F32, PH_REDUCE_SUM, team.stream));
    assert_ok(ph_stream_synchronize(team.stream));
    t_ranks_meet();
    return 0;
}

FIXTURE(close_team)
{
    t_ranks_meet();
    ph_free(x, team.stream);
    t_team_close(&team);
    assert_int_equal(nccl->communicators(), 0);
    return 0;
}

static ph_status sum(ph_stream *stream, void *user)
{
    (void)user;
    return ph_all_reduce(team.comm, x, x, COUNT, PH_DTYPE_F32, PH_REDUCE_SUM, stream);
}

/* The other ranks hear of it as long as they wait for this one. */
TEST(a_call_that_fails_is_the_failure_of_the_communicator)
{
    if (team.rank == 0) {
        nccl->fail_call("ncclAllReduce", INTERNAL_ERROR, 1);
        assert_error(sum(team.stream, NULL), PH_ERROR_DEVICE, "all_reduce of 1000 f32 (sum)");
        assert_error(sum(team.stream, NULL), PH_ERROR_DEVICE, "internal error");
    } else {
        assert_ok(sum(team.stream, NULL));
    }
    assert_status(ph_stream_synchronize(team.stream),
                  team.rank == 0 ? PH_ERROR_DEVICE : PH_ERROR_PEER);
    assert_error(ph_comm_check(team.comm), team.rank == 0 ? PH_ERROR_DEVICE : PH_ERROR_PEER,
                 "internal error");
}

TEST(a_capture_whose_collective_fails_is_no_graph)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    nccl->fail_call("ncclAllReduce", INTERNAL_ERROR, 1);
    assert_error(ph_graph_capture(graph, team.stream, NULL, sum, NULL), PH_ERROR_DEVICE,
                 "internal error");
    ph_graph_destroy(graph);
}

/* As NCCL reports a link or a rank that is gone. */
TEST(an_error_of_its_own_ends_the_wait)
{
    if (team.rank != 0) {
        assert_ok(sum(team.stream, NULL));
        nccl->set_async_error(6);
        assert_error(ph_stream_synchronize(team.stream), PH_ERROR_PEER, "remote process exited");
        assert_error(ph_comm_check(team.comm), PH_ERROR_PEER, "remote process exited");
        nccl->set_async_error(0);
    }
}

TEST(a_communicator_that_cannot_begin_is_none)
{
    ph_comm *comm;
    nccl->fail_call("ncclCommInitRankConfig", INTERNAL_ERROR, 1);
    assert_error(ph_comm_create(&comm, team.device, NULL), PH_ERROR_PEER, "internal error");
    assert_null(comm);
}

int main(void)
{
#define IN_TEAM(name) cmocka_unit_test_setup_teardown(name, open_team, close_team)
    const struct CMUnitTest tests[] = {
        IN_TEAM(a_call_that_fails_is_the_failure_of_the_communicator),
        IN_TEAM(a_capture_whose_collective_fails_is_no_graph),
        IN_TEAM(an_error_of_its_own_ends_the_wait),
        IN_TEAM(a_communicator_that_cannot_begin_is_none),
    };
    nccl = t_ranks_have_gpus() ? fake_nccl() : NULL;
    if (nccl == NULL || !t_ranks_are_without_mpi()) {
        (void)puts("skipped: this is a test of the software NCCL, without MPI");
        return 77;
    }
    return t_ranks(tests);
}
