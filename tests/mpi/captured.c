/* SPDX-License-Identifier: MIT */
/* Collectives of several ranks in graphs: captured, replayed, held, and left alone by whatever
 * changes nodes. */
#include "support/ranks.h"
#include "support/test.h"
#include <string.h>

enum {
    COUNT = 5000
};
static t_team team;
static t_world world; /* kernels of the team's device */
static int32_t *x, *y;

FIXTURE(open_team)
{
    t_team_open(&team, 20000);
    t_open_world(&world, ph_device_retain(team.device));
    assert_ok(ph_malloc((void **)&x, COUNT, sizeof *x, team.stream));
    assert_ok(ph_malloc((void **)&y, COUNT * team.size, sizeof *y, team.stream));
    return 0;
}

FIXTURE(close_team)
{
    ph_free(x, team.stream);
    ph_free(y, team.stream);
    t_close(&world);
    t_team_close(&team);
    return 0;
}

static int32_t sum_of_ranks(void)
{
    return (int32_t)(team.size * (team.size - 1) / 2);
}

/* y = the sum over the ranks of x + 1, by memory of the graph's own; then x = y. */
static ph_status step(ph_stream *stream, void *user)
{
    int32_t *own;
    (void)user;
    PH_TRY(ph_malloc((void **)&own, COUNT, sizeof *own, stream));
    PH_TRY(t_fill(&world, stream, own, COUNT, 0));
    PH_TRY(t_add(&world, stream, x, own, COUNT, 1));
    PH_TRY(ph_all_reduce(team.comm, y, own, COUNT, PH_DTYPE_I32, PH_REDUCE_SUM, stream));
    PH_TRY(ph_broadcast(team.comm, x, y, COUNT, PH_DTYPE_I32, team.size - 1, stream));
    ph_free(own, stream);
    return PH_OK;
}

static ph_graph *capture(ph_capture_fn body, void *user)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, team.stream, NULL, body, user));
    return graph;
}

TEST(a_replay_is_what_was_captured_each_time)
{
    assert_ok(t_fill(&world, team.stream, x, COUNT, (int32_t)team.rank));
    ph_graph *graph = capture(step, NULL);
    int32_t want = sum_of_ranks() + (int32_t)team.size;
    for (int i = 0; i < 20; i++) {
        assert_ok(ph_graph_replay(graph, team.stream));
        t_all(x, COUNT, want, team.stream);
        want = (want + 1) * (int32_t)team.size % 1000;
        assert_ok(t_fill(&world, team.stream, x, COUNT, want));
        want = (want + 1) * (int32_t)team.size;
    }
    ph_graph_destroy(graph);
}

TEST(eager_and_replayed_alternate_on_several_streams)
{
    ph_stream *other;
    assert_ok(ph_stream_create(&other, team.device, NULL));
    ph_graph *first = capture(step, NULL), *second = capture(step, NULL);
    for (int i = 0; i < 30; i++) {
        ph_stream *stream = (i + (int)team.rank) % 2 ? other : team.stream;
        assert_ok(ph_graph_replay(i % 3 ? first : second, stream));
        assert_ok(ph_all_reduce(team.comm, y, y, COUNT, PH_DTYPE_I32, PH_REDUCE_MIN, stream));
    }
    assert_ok(ph_stream_synchronize(other));
    assert_ok(ph_stream_synchronize(team.stream));
    ph_graph_destroy(first);
    ph_graph_destroy(second);
    ph_stream_destroy(other);
}

static ph_status forked(ph_stream *stream, void *user)
{
    ph_stream *side = user;
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(ph_all_reduce(team.comm, x, x, COUNT, PH_DTYPE_I32, PH_REDUCE_SUM, side));
    PH_TRY(ph_all_reduce(team.comm, y, y, COUNT, PH_DTYPE_I32, PH_REDUCE_MAX, stream));
    return ph_stream_wait_stream(stream, side);
}

static bool is_behind(const ph_record *record, size_t later, size_t earlier)
{
    ph_node_info node;
    assert_ok(ph_record_node(&node, record, later));
    const size_t *dependencies = ph_record_dependencies(record, later);
    for (size_t i = 0; i < node.dependency_count; i++)
        if (dependencies[i] == earlier || is_behind(record, dependencies[i], earlier))
            return true;
    return false;
}

/* The first two nodes of a kind, and how many there are. */
static size_t find_nodes(size_t out[2], const ph_record *record, ph_node_kind kind)
{
    size_t count = 0;
    ph_node_info node;
    for (size_t i = 0; ph_record_node(&node, record, i) == PH_OK; i++) {
        if (node.kind != kind)
            continue;
        if (count < 2)
            out[count] = i;
        count++;
    }
    return count;
}

/* NCCL adds nodes of its own beside its kernels; the software NCCL works in host nodes. */
static void expect_two_in_order(const ph_record *record)
{
    size_t nodes[2], count = find_nodes(nodes, record, PH_NODE_KERNEL);
    if (count == 0)
        count = find_nodes(nodes, record, PH_NODE_HOST);
    assert_int_equal(count, 2);
    assert_true(is_behind(record, nodes[1], nodes[0]));
}

TEST(collectives_of_forked_streams_have_an_order)
{
    ph_stream *side;
    const ph_record *record;
    assert_ok(ph_stream_create(&side, team.device, NULL));
    ph_graph *graph = capture(forked, side);
    assert_ok(ph_graph_record(&record, graph));
    if (!t_ranks_have_gpus())
        assert_int_equal(ph_record_edge_count(record), 1);
    expect_two_in_order(record);
    for (int i = 0; i < 10; i++)
        assert_ok(ph_graph_replay(graph, team.stream));
    assert_ok(ph_stream_synchronize(team.stream));
    ph_graph_destroy(graph);
    ph_stream_destroy(side);
}

static ph_status ring(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_comm_group_begin(team.comm));
    PH_TRY(ph_receive(team.comm, y, COUNT, PH_DTYPE_I32, (team.rank + team.size - 1) % team.size,
                      stream));
    PH_TRY(ph_send(team.comm, x, COUNT, PH_DTYPE_I32, (team.rank + 1) % team.size, stream));
    return ph_comm_group_end(team.comm);
}

TEST(a_captured_group_exchanges_at_each_replay)
{
    ph_graph *graph = capture(ring, NULL);
    for (int32_t i = 0; i < 10; i++) {
        assert_ok(t_fill(&world, team.stream, x, COUNT, 100 * i + (int32_t)team.rank));
        assert_ok(ph_graph_replay(graph, team.stream));
        t_all(y, COUNT, 100 * i + (int32_t)((team.rank + team.size - 1) % team.size), team.stream);
    }
    ph_graph_destroy(graph);
}

TEST(the_graph_holds_the_communicator)
{
    ph_comm *second;
    ph_comm *mine = team.comm;
    assert_ok(ph_comm_create(&second, team.device, NULL));
    team.comm = second;
    ph_graph *graph = capture(step, NULL);
    team.comm = mine;
    ph_comm_release(second);
    for (int i = 0; i < 10; i++)
        assert_ok(ph_graph_replay(graph, team.stream));
    ph_graph_destroy(graph); /* waits for its replays */
    assert_ok(ph_stream_synchronize(team.stream));
    assert_ok(ph_comm_barrier(team.comm, 0));
}

TEST(its_memory_is_an_input_like_any)
{
    int32_t *input, *given = x;
    ph_graph *graph;
    const ph_capture_options options = {.check_input_liveness = true};
    assert_ok(ph_malloc((void **)&input, COUNT, sizeof *input, team.stream));
    x = input;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, team.stream, &options, step, NULL));
    x = given;
    assert_ok(ph_graph_replay(graph, team.stream));
    ph_free(input, team.stream);
    assert_error(ph_graph_replay(graph, team.stream), PH_ERROR_STALE_INPUT, "");
    assert_ok(ph_stream_synchronize(team.stream));
    ph_graph_destroy(graph);
}

static ph_status one_sum(ph_stream *stream, void *user)
{
    return ph_all_reduce(team.comm, user, user, COUNT, PH_DTYPE_I32, PH_REDUCE_SUM, stream);
}

static ph_status shorter_sum(ph_stream *stream, void *user)
{
    return ph_all_reduce(team.comm, user, user, COUNT - 1, PH_DTYPE_I32, PH_REDUCE_SUM, stream);
}

TEST(nodes_of_collectives_stay_as_captured)
{
    ph_graph *graph = capture(one_sum, x);
    const ph_slot_place place = {0, 0};
    ph_slot_proof proof;
    ph_graph *shifted = capture(one_sum, y + 64);
    const void *moved[] = {y + 64};
    const ph_slot_span span = {
        .name = "x", .base = x, .shifted = moved, .bytes = COUNT * sizeof *x};
    size_t slot;
    if (t_ranks_have_gpus()) { /* only NVIDIA's NCCL has kernels */
        ph_graph_destroy(graph);
        ph_graph_destroy(shifted);
        return;
    }
    assert_error(ph_graph_slot_find(&slot, graph, "x", x, COUNT * sizeof *x, NULL),
                 PH_ERROR_UNSUPPORTED, "a collective");
    assert_error(ph_graph_slot_declare_address(&slot, graph, "x", x, 8, &place, 1, NULL),
                 PH_ERROR_UNSUPPORTED, "a collective");
    assert_ok(ph_graph_slot_prove(&proof, graph, &shifted, 1, &span, 1));
    assert_int_equal(proof.slot, PH_SLOT_NONE);
    assert_non_null(strstr(proof.reason, "a collective's memory stays"));
    assert_error(ph_graph_node_set_launch(graph, 0, NULL, &place, sizeof place),
                 PH_ERROR_UNSUPPORTED, "is a collective");
    assert_error(ph_graph_node_set_enabled(graph, 0, false), PH_ERROR_UNSUPPORTED,
                 "is a collective");
    ph_graph_destroy(graph);
    ph_graph_destroy(shifted);
}

TEST(an_update_brings_the_same_collectives_with_other_memory)
{
    ph_graph *graph = capture(one_sum, x), *other = capture(one_sum, y),
             *shorter = capture(shorter_sum, y);
    ph_update_result why;
    assert_ok(t_fill(&world, team.stream, y, COUNT, 1));
    assert_ok(ph_graph_update(graph, other, NULL));
    ph_graph_destroy(other);
    assert_ok(ph_graph_replay(graph, team.stream));
    t_all(y, COUNT, (int32_t)team.size, team.stream);
    assert_error(ph_graph_update(graph, shorter, &why), PH_ERROR_MISMATCH, "collectives differ");
    assert_ok(ph_graph_replay(graph, team.stream));
    t_all(y, COUNT, (int32_t)(team.size * team.size), team.stream);
    ph_graph_destroy(graph);
    ph_graph_destroy(shorter);
}

static ph_status nested(ph_stream *stream, void *user)
{
    return ph_graph_replay(user, stream);
}

TEST(it_is_no_part_of_another_capture)
{
    ph_graph *graph = capture(one_sum, x), *outer;
    assert_ok(ph_graph_create(&outer, NULL));
    assert_error(ph_graph_capture(outer, team.stream, NULL, nested, graph), PH_ERROR_UNSUPPORTED,
                 "a graph with collectives cannot become a part of another");
    ph_graph_destroy(outer);
    ph_graph_destroy(graph);
}

static ph_status failing(ph_stream *stream, void *user)
{
    PH_TRY(one_sum(stream, user));
    return ph_fail(PH_ERROR_CALLER, "enough");
}

TEST(an_aborted_capture_leaves_nothing)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture(graph, team.stream, NULL, failing, x), PH_ERROR_CALLER, "enough");
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, team.stream, NULL, one_sum, x));
    assert_ok(t_fill(&world, team.stream, x, COUNT, 2));
    assert_ok(ph_graph_replay(graph, team.stream));
    t_all(x, COUNT, 2 * (int32_t)team.size, team.stream);
    ph_graph_destroy(graph);
}

TEST(a_group_stays_inside_a_capture_or_outside)
{
    ph_graph *graph, *sum = capture(one_sum, x);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, team.stream, NULL));
    assert_ok(ph_comm_group_begin(team.comm));
    assert_ok(one_sum(team.stream, x));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_error(ph_comm_group_end(team.comm), PH_ERROR_STATE, "a capture of the stream");
    assert_error(ph_comm_group_end(team.comm), PH_ERROR_STATE, "no group is open");
    assert_ok(ph_comm_group_begin(team.comm));
    assert_error(ph_graph_replay(sum, team.stream), PH_ERROR_STATE, "a group");
    assert_error(ph_comm_group_begin(team.comm), PH_ERROR_STATE, "a group");
    assert_ok(ph_comm_group_end(team.comm));
    assert_ok(ph_graph_replay(sum, team.stream));
    assert_ok(ph_stream_synchronize(team.stream));
    ph_graph_destroy(graph);
    ph_graph_destroy(sum);
}

int main(void)
{
#define IN_TEAM(name) cmocka_unit_test_setup_teardown(name, open_team, close_team)
    const struct CMUnitTest tests[] = {
        IN_TEAM(a_replay_is_what_was_captured_each_time),
        IN_TEAM(eager_and_replayed_alternate_on_several_streams),
        IN_TEAM(collectives_of_forked_streams_have_an_order),
        IN_TEAM(a_captured_group_exchanges_at_each_replay),
        IN_TEAM(the_graph_holds_the_communicator),
        IN_TEAM(its_memory_is_an_input_like_any),
        IN_TEAM(nodes_of_collectives_stay_as_captured),
        IN_TEAM(an_update_brings_the_same_collectives_with_other_memory),
        IN_TEAM(it_is_no_part_of_another_capture),
        IN_TEAM(an_aborted_capture_leaves_nothing),
        IN_TEAM(a_group_stays_inside_a_capture_or_outside),
    };
    return t_ranks(tests);
}
