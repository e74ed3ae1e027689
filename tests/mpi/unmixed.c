/* SPDX-License-Identifier: MIT */
/* A process that has forbidden to mix captured and eager collectives (ph_comm_forbid_mixing): what
 * NCCL is told, and what is refused. */
#include "fake/fake_nccl.h"
#include "support/ranks.h"
#include "support/test.h"
#include <stdlib.h>

enum {
    COUNT = 1000
};
static t_team team;
static t_world world; /* kernels of the team's device */
static int32_t *x;
static bool newer; /* NCCL 2.29, where there are four ranks */

FIXTURE(open_team)
{
    assert_ok(ph_comm_forbid_mixing());
    t_team_open(&team, 20000);
    t_open_world(&world, ph_device_retain(team.device));
    assert_ok(ph_malloc((void **)&x, COUNT, sizeof *x, team.stream));
    return 0;
}

FIXTURE(close_team)
{
    ph_free(x, team.stream);
    t_close(&world);
    t_team_close(&team);
    return 0;
}

static ph_status sum_by(ph_comm *comm, ph_stream *stream)
{
    return ph_all_reduce(comm, x, x, COUNT, PH_DTYPE_I32, PH_REDUCE_SUM, stream);
}

static ph_status sum(ph_stream *stream, void *comm)
{
    return sum_by(comm, stream);
}

static ph_graph *capture(ph_comm *comm)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, team.stream, NULL, sum, comm));
    return graph;
}

static void sums_right(ph_graph *graph)
{
    assert_ok(t_fill(&world, team.stream, x, COUNT, 3));
    assert_ok(graph ? ph_graph_replay(graph, team.stream) : sum_by(team.comm, team.stream));
    t_all(x, COUNT, 3 * (int32_t)team.size, team.stream);
}

TEST(nccl_is_told_before_the_first_communicator)
{
    const fake_nccl_controls *nccl = t_ranks_have_gpus() ? fake_nccl() : NULL;
    const char *variable = getenv("NCCL_GRAPH_MIXING_SUPPORT");
    if (nccl == NULL)
        return; /* host devices, or a real one */
    assert_int_equal(nccl->usage(), newer ? 1 : 0);
    if (newer)
        assert_null(variable); /* there it would mean that nothing is captured */
    else
        assert_string_equal(variable, "0");
}

TEST(eager_ones_are_refused_while_a_graph_has_captured_ones)
{
    sums_right(NULL);
    ph_graph *first = capture(team.comm), *second = capture(team.comm);
    assert_error(sum_by(team.comm, team.stream), PH_ERROR_STATE,
                 "ph_all_reduce: an eager collective, where 2 graphs have captured");
    sums_right(first);
    sums_right(second);
    ph_graph_destroy(first);
    assert_error(sum_by(team.comm, team.stream), PH_ERROR_STATE, "1 graph has captured");
    sums_right(second);
    assert_ok(ph_graph_reset(second));
    sums_right(NULL);
    ph_graph_destroy(second);
}

TEST(groups_are_refused_and_the_communicator_stays_good)
{
    ph_graph *graph = capture(team.comm);
    assert_ok(ph_comm_group_begin(team.comm));
    assert_ok(sum_by(team.comm, team.stream));
    assert_error(ph_comm_group_end(team.comm), PH_ERROR_STATE, "ph_comm_forbid_mixing");
    assert_ok(ph_comm_check(team.comm));
    assert_ok(ph_comm_barrier(team.comm, 0));
    sums_right(graph);
    ph_graph_destroy(graph);
}

TEST(another_communicator_takes_eager_ones)
{
    ph_comm *other;
    assert_ok(ph_comm_create(&other, team.device, NULL));
    ph_graph *graph = capture(team.comm);
    for (int i = 0; i < 10; i++) {
        sums_right(graph);
        assert_ok(t_fill(&world, team.stream, x, COUNT, 5));
        assert_ok(sum_by(other, team.stream));
        t_all(x, COUNT, 5 * (int32_t)team.size, team.stream);
    }
    ph_graph_destroy(graph);
    ph_comm_release(other);
}

static ph_status failing(ph_stream *stream, void *comm)
{
    PH_TRY(sum(stream, comm));
    return ph_fail(PH_ERROR_CALLER, "enough");
}

TEST(a_capture_that_failed_counts_no_more)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture(graph, team.stream, NULL, failing, team.comm), PH_ERROR_CALLER,
                 "enough");
    assert_ok(ph_graph_reset(graph));
    sums_right(NULL);
    ph_graph_destroy(graph);
}

int main(void)
{
#define IN_TEAM(name) cmocka_unit_test_setup_teardown(name, open_team, close_team)
    const struct CMUnitTest tests[] = {
        IN_TEAM(nccl_is_told_before_the_first_communicator),
        IN_TEAM(eager_ones_are_refused_while_a_graph_has_captured_ones),
        IN_TEAM(groups_are_refused_and_the_communicator_stays_good),
        IN_TEAM(another_communicator_takes_eager_ones),
        IN_TEAM(a_capture_that_failed_counts_no_more),
    };
    (void)unsetenv("NCCL_GRAPH_MIXING_SUPPORT");
    newer = t_rank_count() == 4;
    if (newer)
        (void)setenv("FAKE_NCCL_VERSION", "22900", 1);
    return t_ranks(tests);
}
