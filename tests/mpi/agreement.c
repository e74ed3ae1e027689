/* SPDX-License-Identifier: MIT */
/* Ranks compare what they have captured: before the first replay, once, and without harm. */
#include "support/ranks.h"
#include "support/test.h"
#include <stdio.h>

enum {
    COUNT = 64
};
static t_team team;
static float *x;

FIXTURE(open_team)
{
    t_team_open(&team, 20000);
    assert_ok(ph_malloc((void **)&x, COUNT, sizeof *x, team.stream));
    assert_ok(ph_memset(x, 0, COUNT * sizeof *x, team.stream));
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

static ph_status in_scope(ph_stream *stream, const char *name, size_t count)
{
    PH_TRY(ph_annotation_push(stream, name, NULL));
    PH_TRY(ph_all_reduce(team.comm, x, x, count, PH_DTYPE_F32, PH_REDUCE_SUM, stream));
    return ph_annotation_pop(stream);
}

static ph_status other_count(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(in_scope(stream, "encoder", COUNT));
    return in_scope(stream, is_odd() ? "decoder of 63" : "decoder", is_odd() ? COUNT - 1 : COUNT);
}

static ph_status one_more(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(in_scope(stream, "encoder", COUNT));
    return is_odd() ? in_scope(stream, "extra", COUNT) : PH_OK;
}

static ph_status alike(ph_stream *stream, void *user)
{
    (void)user;
    return in_scope(stream, is_odd() ? "one name" : "another name", COUNT);
}

static void expect_refused(ph_capture_fn body, const char *first, const char *second)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, team.stream, NULL, body, NULL));
    assert_error(ph_graph_replay(graph, team.stream), PH_ERROR_MISMATCH, first);
    assert_error(ph_graph_replay(graph, team.stream), PH_ERROR_MISMATCH, second);
    assert_error(ph_graph_replay(graph, team.stream), PH_ERROR_MISMATCH, "nothing was launched");
    /* The communicator is as good as before, and so is the graph. */
    assert_ok(ph_comm_check(team.comm));
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, team.stream, NULL, alike, NULL));
    for (int i = 0; i < 3; i++)
        assert_ok(ph_graph_replay(graph, team.stream));
    assert_ok(ph_stream_synchronize(team.stream));
    ph_graph_destroy(graph);
}

TEST(the_first_that_differs_is_named_on_all_ranks)
{
    char rank[64];
    (void)snprintf(rank, sizeof rank,
                   "and rank %u all_reduce of 63 f32 (sum), in \"decoder of 63\"", team.size - 1);
    expect_refused(other_count,
                   "as collective 1 of the graph, rank 0 has all_reduce of 64 f32 (sum), in "
                   "\"decoder\"",
                   rank);
}

TEST(one_more_is_named)
{
    expect_refused(one_more, "as collective 1 of the graph, rank 0 has none",
                   "all_reduce of 64 f32 (sum), in \"extra\"");
}

static ph_status exchange(ph_stream *stream, size_t sent, size_t received)
{
    PH_TRY(ph_comm_group_begin(team.comm));
    PH_TRY(ph_send(team.comm, x, sent, PH_DTYPE_F32, (team.rank + 1) % team.size, stream));
    PH_TRY(ph_receive(team.comm, x + COUNT / 2, received, PH_DTYPE_F32,
                      (team.rank + team.size - 1) % team.size, stream));
    return ph_comm_group_end(team.comm);
}

static ph_status other_contents(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(in_scope(stream, "encoder", COUNT));
    return exchange(stream, 8, is_odd() ? 7 : 8);
}

TEST(a_send_without_its_receive_is_named)
{
    expect_refused(other_contents, "send of 8 f32 to rank", "receive of 7 f32 from rank");
}

static ph_status ring(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(exchange(stream, 8, 8));
    return in_scope(stream, "after", COUNT);
}

TEST(sends_and_receives_that_fit_are_agreed_to)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, team.stream, NULL, ring, NULL));
    for (int i = 0; i < 5; i++)
        assert_ok(ph_graph_replay(graph, team.stream));
    assert_ok(ph_stream_synchronize(team.stream));
    ph_graph_destroy(graph);
}

/* The last rank goes to a barrier instead: the communicator has failed, on all of them. */
TEST(a_rank_that_does_not_replay_is_found)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, team.stream, NULL, alike, NULL));
    assert_status(is_odd() ? ph_comm_barrier(team.comm, 0) : ph_graph_replay(graph, team.stream),
                  PH_ERROR_MISMATCH);
    assert_error(ph_comm_check(team.comm), PH_ERROR_MISMATCH,
                 "rank 0 has the first replay of a graph");
    assert_error(ph_comm_check(team.comm), PH_ERROR_MISMATCH, "ph_comm_barrier");
    ph_graph_destroy(graph);
}

int main(void)
{
#define IN_TEAM(name) cmocka_unit_test_setup_teardown(name, open_team, close_team)
    const struct CMUnitTest tests[] = {
        IN_TEAM(the_first_that_differs_is_named_on_all_ranks),
        IN_TEAM(one_more_is_named),
        IN_TEAM(a_send_without_its_receive_is_named),
        IN_TEAM(sends_and_receives_that_fit_are_agreed_to),
        IN_TEAM(a_rank_that_does_not_replay_is_found),
    };
    return t_ranks(tests);
}
