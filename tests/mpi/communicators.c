/* SPDX-License-Identifier: MIT */
/* Communicators of several ranks: their places, barriers, and several at once. */
#include "fake/fake_nccl.h"
#include "support/ranks.h"
#include "support/test.h"

static t_team team;

static ph_status sum(ph_stream *stream, void *x)
{
    return ph_all_reduce(team.comm, x, x, 8, PH_DTYPE_F32, PH_REDUCE_SUM, stream);
}

FIXTURE(open_team)
{
    t_team_open(&team, 20000);
    return 0;
}

FIXTURE(close_team)
{
    t_team_close(&team);
    return 0;
}

TEST(every_rank_passes_a_barrier_when_all_have_come)
{
    for (int i = 0; i < 20; i++)
        assert_ok(ph_comm_barrier(team.comm, 0));
    assert_ok(ph_comm_check(team.comm));
}

TEST(mixing_is_forbidden_before_the_first_one_or_not_at_all)
{
    float *x;
    assert_error(ph_comm_forbid_mixing(), PH_ERROR_STATE, "before the first ph_comm_create");
    assert_ok(ph_malloc((void **)&x, 8, sizeof *x, team.stream));
    assert_ok(ph_memset(x, 0, 8 * sizeof *x, team.stream));
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, team.stream, NULL, sum, x));
    assert_ok(sum(team.stream, x));
    assert_ok(ph_graph_replay(graph, team.stream));
    assert_ok(sum(team.stream, x));
    assert_ok(ph_stream_synchronize(team.stream));
    ph_graph_destroy(graph);
    ph_free(x, team.stream);
    const fake_nccl_controls *nccl = t_ranks_have_gpus() ? fake_nccl() : NULL;
    if (nccl)
        assert_int_equal(nccl->usage(), 2);
}

TEST(two_communicators_are_apart)
{
    ph_comm *second;
    assert_ok(ph_comm_create(&second, team.device, NULL));
    assert_int_equal(ph_comm_rank(second), team.rank);
    assert_ok(ph_comm_barrier(second, 0));
    ph_comm_abort(second, "a test");
    assert_error(ph_comm_barrier(second, 0), PH_ERROR_PEER, "a test");
    ph_comm_release(second);
    assert_ok(ph_comm_barrier(team.comm, 0));
}

TEST(options_that_say_another_place_are_refused_on_every_rank)
{
    const ph_comm_options options = {.size = team.size + 1, .rank = team.rank};
    ph_comm *comm;
    if (t_ranks_are_without_mpi())
        return; /* nobody else says who is there */
    assert_error(ph_comm_create(&comm, team.device, &options), PH_ERROR_MISMATCH, "MPI says rank");
    assert_null(comm);
    const ph_comm_options same = {.size = team.size, .rank = team.rank};
    assert_ok(ph_comm_create(&comm, team.device, &same));
    ph_comm_release(comm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_rank_passes_a_barrier_when_all_have_come, open_team,
                                        close_team),
        cmocka_unit_test_setup_teardown(mixing_is_forbidden_before_the_first_one_or_not_at_all,
                                        open_team, close_team),
        cmocka_unit_test_setup_teardown(two_communicators_are_apart, open_team, close_team),
        cmocka_unit_test_setup_teardown(options_that_say_another_place_are_refused_on_every_rank,
                                        open_team, close_team),
    };
    return t_ranks(tests);
}
