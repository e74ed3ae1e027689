/* SPDX-License-Identifier: MIT */
/* A rank that releases its communicator while others still count on it. */
#include "support/ranks.h"
#include "support/test.h"
#include <unistd.h>

TEST(a_release_is_told_to_those_that_wait)
{
    t_team team;
    float *x;
    t_team_open(&team, 90000);
    assert_ok(ph_malloc((void **)&x, 8, sizeof *x, team.stream));
    assert_ok(ph_all_reduce(team.comm, x, x, 8, PH_DTYPE_F32, PH_REDUCE_SUM, team.stream));
    assert_ok(ph_stream_synchronize(team.stream));
    t_ranks_meet();
    if (team.rank != 0) {
        assert_ok(ph_all_reduce(team.comm, x, x, 8, PH_DTYPE_F32, PH_REDUCE_SUM, team.stream));
        assert_error(ph_stream_synchronize(team.stream), PH_ERROR_PEER, "has released");
    }
    ph_free(x, team.stream);
    t_team_close(&team);
    t_ranks_meet();
    t_rank_leaves();
}

/* Rank 0 has done its part, which the others come to later: behind work of their own. */
static void wait_a_while(void *user)
{
    (void)user;
    (void)usleep(600000);
}

TEST(a_rank_that_has_submitted_all_may_release)
{
    t_team team;
    float *x;
    t_team_open(&team, 90000);
    assert_ok(ph_malloc((void **)&x, 8, sizeof *x, team.stream));
    if (team.rank != 0)
        assert_ok(ph_launch_host(team.stream, wait_a_while, NULL));
    assert_ok(ph_broadcast(team.comm, x, x, 8, PH_DTYPE_F32, 0, team.stream));
    ph_free(x, team.stream);
    if (team.rank != 0)
        assert_ok(ph_stream_synchronize(team.stream));
    t_team_close(&team);
    t_ranks_meet();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_rank_that_has_submitted_all_may_release),
                                       cmocka_unit_test(a_release_is_told_to_those_that_wait)};
    return t_ranks(tests);
}
