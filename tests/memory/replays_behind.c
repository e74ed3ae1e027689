/* SPDX-License-Identifier: MIT */
/* tests/memory/replays_behind.c: eager work is given memory that a graph's replays write, and frees
 * it: replays on other streams come behind that work. */
#include "device/handles/device.h"
#include "support/fault.h"
#include "support/fixture.h"

#include <time.h>

enum {
    N = 100
};
static t_world w;
static ph_pool *pool;
static ph_graph *graph;
static ph_stream *own, *other, *third;
static int32_t *captured;

WORLD(w, .streams = {&own, &other, &third}, .pool = &pool, .graphs = {&graph});

/* Writes 3 into memory of its own, and goes. */
static void capture(void)
{
    assert_ok(ph_graph_capture_begin(graph, own, &(ph_capture_options){.pool = pool}));
    assert_ok(PH_NEW(&captured, N, own));
    assert_ok(t_fill(&w, own, captured, N, 3));
    ph_free(captured, own);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
}

static int32_t *eager(void)
{
    int32_t *block;
    assert_ok(ph_pool_begin(pool));
    assert_ok(PH_NEW(&block, N, own));
    assert_ok(ph_pool_end(pool));
    assert_ptr_equal(block, captured);
    return block;
}

/* Whether the stream's work is done within some time. */
static bool is_done(ph_stream *stream)
{
    bool done = false;
    ph_event *event;
    assert_ok(ph_event_create(&event, w.device, NULL));
    assert_ok(ph_event_record(event, stream));
    for (int i = 0; i < 50 && !done; i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        assert_ok(ph_event_query(&done, event));
    }
    ph_event_destroy(event);
    return done;
}

/* The replay on the stream is behind the gate, and its write is the last one. */
static void expect_behind(t_gate *gate, ph_stream *stream)
{
    assert_ok(ph_graph_replay(graph, stream));
    bool done = is_done(stream);
    bool held = t_gate_held(gate);
    t_gate_open(gate); /* also where the test fails */
    assert_false(done && held);
    assert_ok(ph_device_synchronize(w.device));
    t_all(captured, N, 3, stream);
}

/* ---- behind the work ---- */
static void check_a_free_of_the_own_stream(void)
{
    t_gate gate = {0};
    int32_t *block = eager();
    assert_ok(t_gate_wait_guarded(&gate, own));
    assert_ok(t_fill(&w, own, block, N, 7));
    ph_free(block, own);
    expect_behind(&gate, other);
}

TEST(a_replay_elsewhere_comes_behind_work_whose_memory_was_freed)
{
    capture();
    assert_ok(ph_graph_replay(graph, other));
    check_a_free_of_the_own_stream();
    assert_ok(ph_graph_replay(graph, own)); /* the last replay, unmarked, where the work is */
    check_a_free_of_the_own_stream();
    assert_ok(ph_graph_replay(graph, third));
    check_a_free_of_the_own_stream();
}

TEST(a_first_replay_comes_behind_work_whose_memory_was_freed)
{
    capture();
    check_a_free_of_the_own_stream();
}

TEST(a_stream_of_null_means_the_one_of_the_allocation)
{
    t_gate gate = {0};
    capture();
    int32_t *block = eager();
    assert_ok(t_gate_wait_guarded(&gate, own));
    assert_ok(t_fill(&w, own, block, N, 7));
    ph_free(block, NULL);
    expect_behind(&gate, other);
}

TEST(all_streams_that_used_the_block_are_waited_for)
{
    t_gate gate = {0}, second = {0};
    capture();
    int32_t *block = eager();
    assert_ok(t_gate_wait_guarded(&gate, third));
    assert_ok(t_fill(&w, third, block, N, 7));
    ph_free(block, third); /* on another stream than its own */
    expect_behind(&gate, other);
    block = eager();
    assert_ok(t_gate_wait_guarded(&second, third));
    assert_ok(t_fill(&w, third, block, N, 7));
    assert_ok(ph_record_stream(block, third));
    ph_free(block, own);
    expect_behind(&second, other);
}

TEST(the_free_of_a_second_block_is_waited_for_too)
{
    t_gate gate = {0};
    capture();
    int32_t *block = eager();
    ph_free(block, own);
    block = eager();
    assert_ok(t_gate_wait_guarded(&gate, own));
    assert_ok(t_fill(&w, own, block, N, 7));
    ph_free(block, own);
    expect_behind(&gate, other);
}

/* The work came before the capture; the block is freed while that is open. */
TEST(a_free_while_another_stream_captures_is_waited_for)
{
    t_gate gate = {0};
    ph_graph *beside;
    capture();
    int32_t *block = eager();
    assert_ok(ph_graph_create(&beside, NULL));
    assert_ok(t_gate_wait_guarded(&gate, own));
    assert_ok(t_fill(&w, own, block, N, 7));
    assert_ok(ph_graph_capture_begin(beside, third, NULL));
    ph_free(block, own);
    assert_ok(ph_graph_replay(graph, other));
    assert_ok(ph_graph_capture_end(beside, PH_OK));
    bool done = is_done(other);
    bool held = t_gate_held(&gate);
    t_gate_open(&gate); /* also where the test fails */
    assert_false(done && held);
    ph_graph_destroy(beside);
    assert_ok(ph_device_synchronize(w.device));
    t_all(captured, N, 3, other);
}

/* ---- the default stream ---- */
/* Nothing can be recorded there beside a blocking capture. */
TEST(a_replay_waits_for_the_end_of_a_capture_that_forbids_the_order)
{
    ph_stream *blocking, *standard = ph_device_default_stream(w.device);
    ph_graph *beside;
    capture();
    assert_ok(ph_stream_create(&blocking, w.device, &(ph_stream_options){.blocking = true}));
    assert_ok(ph_graph_create(&beside, NULL));
    int32_t *block = eager();
    assert_ok(t_fill(&w, standard, block, N, 7));
    assert_ok(ph_graph_capture_begin(beside, blocking, NULL));
    ph_free(block, standard);
    assert_error(ph_graph_replay(graph, other), PH_ERROR_CAPTURE, "on the default stream");
    assert_ok(ph_graph_capture_end(beside, PH_OK));
    assert_ok(ph_graph_replay(graph, other));
    t_all(captured, N, 3, other);
    ph_graph_destroy(beside);
    ph_stream_destroy(blocking);
}

/* ---- what that costs ---- */
static int64_t calls_of_a_replay(ph_stream *stream)
{
    int64_t before = ph__driver_calls();
    assert_ok(ph_graph_replay(graph, stream));
    return ph__driver_calls() - before;
}

TEST(replays_where_the_work_is_cost_nothing_more)
{
    capture();
    assert_ok(ph_graph_replay(graph, own));
    int64_t usual = calls_of_a_replay(own);
    for (int i = 0; i < 3; i++) {
        ph_free(eager(), own);
        assert_int_equal(calls_of_a_replay(own), usual);
    }
    assert_ok(ph_graph_replay(graph, other));
    assert_ok(ph_graph_replay(graph, other));
    assert_int_equal(calls_of_a_replay(other), usual);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_replay_elsewhere_comes_behind_work_whose_memory_was_freed),
        IN_WORLD(a_first_replay_comes_behind_work_whose_memory_was_freed),
        IN_WORLD(a_stream_of_null_means_the_one_of_the_allocation),
        IN_WORLD(all_streams_that_used_the_block_are_waited_for),
        IN_WORLD(the_free_of_a_second_block_is_waited_for_too),
        IN_WORLD(a_free_while_another_stream_captures_is_waited_for),
        IN_WORLD(a_replay_waits_for_the_end_of_a_capture_that_forbids_the_order),
        IN_WORLD(replays_where_the_work_is_cost_nothing_more),
    };
    return cmocka_run_group_tests_name("memory.replays_behind", tests, NULL, NULL);
}
