/* SPDX-License-Identifier: MIT */
/* A rank that fails in its capture, and gives up: the others get its reason. */
#include "support/ranks.h"
#include "support/test.h"

enum {
    COUNT = 1000
};
static t_team team;
static float *x;

static ph_status step(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_all_reduce(team.comm, x, x, COUNT, PH_DTYPE_F32, PH_REDUCE_SUM, stream));
    return team.rank == team.size - 1 ? ph_fail(PH_ERROR_CALLER, "no batch left") : PH_OK;
}

TEST(a_rank_that_gives_up_is_told_to_all)
{
    ph_graph *graph;
    t_team_open(&team, 90000);
    assert_ok(ph_malloc((void **)&x, COUNT, sizeof *x, team.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    if (team.rank == team.size - 1) {
        assert_error(ph_graph_capture(graph, team.stream, NULL, step, NULL), PH_ERROR_CALLER,
                     "no batch left");
        ph_comm_abort(team.comm, ph_error_last()->message);
        assert_error(ph_comm_check(team.comm), PH_ERROR_PEER, "gave up: no batch left");
    } else {
        assert_ok(ph_graph_capture(graph, team.stream, NULL, step, NULL));
        assert_error(ph_graph_replay(graph, team.stream), PH_ERROR_PEER, "no batch left");
        assert_error(ph_comm_check(team.comm), PH_ERROR_PEER, "in the first replay of a graph");
    }
    ph_graph_destroy(graph);
    ph_free(x, team.stream);
    t_ranks_meet();
    t_team_close(&team);
    t_rank_leaves();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_rank_that_gives_up_is_told_to_all)};
    return t_ranks(tests);
}
