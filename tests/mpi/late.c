/* SPDX-License-Identifier: MIT */
/* A rank that does not come: the others get an error when their time is over, and MPI is left
 * alone. */
#include "support/ranks.h"
#include "support/test.h"

TEST(a_barrier_ends_with_its_deadline)
{
    t_team team;
    ph_comm *second = NULL;
    t_team_open(&team, 20000);
    assert_ok(ph_comm_barrier(team.comm, 0));
    if (team.rank != 0) {
        assert_error(ph_comm_barrier(team.comm, 200), PH_ERROR_PEER, "ph_comm_barrier");
        assert_error(ph_comm_check(team.comm), PH_ERROR_PEER, "waited too long");
        assert_error(ph_comm_check(team.comm), PH_ERROR_PEER,
                     "rank 0 was last in ph_comm_barrier, number 2, ");
        assert_error(ph_comm_barrier(team.comm, 0), PH_ERROR_PEER,
                     "ph_comm_barrier: the communicator has failed");
        assert_error(ph_stream_synchronize(team.stream), PH_ERROR_PEER,
                     "ph_stream_synchronize: a collective before has failed");
        ph_comm_abort(team.comm, NULL);
        assert_ok(ph_stream_synchronize(team.stream));
        assert_error(ph_comm_check(team.comm), PH_ERROR_PEER, "waited too long");
        if (!t_ranks_are_without_mpi())
            assert_error(ph_comm_create(&second, team.device, NULL), PH_ERROR_PEER,
                         "an earlier communicator of the process has failed");
    }
    assert_null(second);
    t_ranks_meet();
    t_team_close(&team);
    t_rank_leaves(); /* MPI_Finalize would wait for those that have given up */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_barrier_ends_with_its_deadline)};
    return t_ranks(tests);
}
