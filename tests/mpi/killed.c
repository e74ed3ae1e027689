/* SPDX-License-Identifier: MIT */
/* A rank that is killed between two replays: the others are told by the death of its process, long
 * before their time is over. */
#include "support/ranks.h"
#include "support/test.h"
#include <signal.h>

enum {
    COUNT = 1000
};
static t_team team;
static float *x;

static ph_status step(ph_stream *stream, void *user)
{
    (void)user;
    return ph_all_reduce(team.comm, x, x, COUNT, PH_DTYPE_F32, PH_REDUCE_SUM, stream);
}

TEST(a_killed_rank_is_found)
{
    ph_graph *graph;
    ph_event *event;
    t_team_open(&team, 90000);
    assert_ok(ph_malloc((void **)&x, COUNT, sizeof *x, team.stream));
    assert_ok(ph_event_create(&event, team.device, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, team.stream, NULL, step, NULL));
    for (int i = 0; i < 5; i++)
        assert_ok(ph_graph_replay(graph, team.stream));
    assert_ok(ph_stream_synchronize(team.stream));
    if (team.rank == team.size - 1)
        t_rank_dies();
    assert_ok(ph_graph_replay(graph, team.stream));
    assert_ok(ph_event_record(event, team.stream));
    assert_error(ph_event_synchronize(event), PH_ERROR_PEER, "its process has ended");
    assert_error(ph_comm_check(team.comm), PH_ERROR_PEER,
                 t_ranks_have_gpus() ? "a replay of the graph with 1 collectives"
                                     : "all_reduce of 1000 f32 (sum), number 0");
    assert_error(ph_graph_replay(graph, team.stream), PH_ERROR_PEER,
                 "ph_graph_replay: the communicator has failed");
    ph_graph_destroy(graph);
    ph_event_destroy(event);
    ph_free(x, team.stream);
    t_team_close(&team);
    t_rank_leaves();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_killed_rank_is_found)};
    return t_ranks(tests);
}
