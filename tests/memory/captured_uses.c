/* SPDX-License-Identifier: MIT */
/* tests/memory/captured_uses.c: blocks that are older than a capture, and that are recorded for its
 * stream, or freed on it, inside the capture: the stream's work from before the capture, and its
 * replays, come before the next use of the memory. */
#include "support/support.h"
#include "support/test.h"

enum {
    N = 4096
};

static t_world w;
static ph_stream *home, *other;
static int32_t *out;

FIXTURE(setup)
{
    t_open(&w, NULL);
    assert_ok(ph_stream_create(&home, w.device, NULL));
    assert_ok(ph_stream_create(&other, w.device, NULL));
    assert_ok(PH_NEW(&out, N, other));
    return 0;
}

FIXTURE(teardown)
{
    ph_free(out, other);
    ph_stream_destroy(home);
    ph_stream_destroy(other);
    t_close(&w);
    return 0;
}

/* How the block is given back in the capture. */
typedef enum how {
    FREED_ON,
    RECORDED_FREED,
    RECORDED, /* and freed behind the capture */
    WAYS
} how;

typedef struct work {
    int32_t *block;
    how how;
} work;

static ph_status give_back(ph_stream *stream, void *user)
{
    const work *a = user;
    PH_TRY(ph_memset(out, 0, 4, stream));
    if (a->how != FREED_ON)
        PH_TRY(ph_record_stream(a->block, stream));
    if (a->how != RECORDED)
        ph_free(a->block, a->how == FREED_ON ? stream : NULL);
    return PH_OK;
}

static int32_t *filled_at_home(int32_t value)
{
    int32_t *block;
    assert_ok(PH_NEW(&block, N, home));
    assert_ok(t_fill(&w, home, block, N, value));
    assert_ok(ph_stream_wait_stream(other, home));
    return block;
}

/* Writes other numbers into what a request of that size is given. */
static void write_next(size_t requests)
{
    int32_t *next[4];
    for (size_t i = 0; i < requests; i++) {
        assert_ok(PH_NEW(&next[i], N, home));
        assert_ok(t_fill(&w, home, next[i], N, -1));
    }
    for (size_t i = 0; i < requests; i++)
        ph_free(next[i], home);
    assert_ok(ph_stream_synchronize(home));
}

TEST(work_from_before_the_capture_is_waited_for)
{
    for (how way = FREED_ON; way < WAYS; way++) {
        t_gate gate = {.behind = true};
        ph_graph *graph;
        work a = {filled_at_home(42), way};
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(t_gate_wait_guarded(&gate, other));
        assert_ok(ph_memcpy(out, a.block, N * sizeof *out, other));
        assert_ok(ph_graph_capture(graph, other, NULL, give_back, &a));
        if (way == RECORDED)
            ph_free(a.block, NULL);
        write_next(4);
        t_gate_open(&gate);
        t_all(out, N, 42, other);
        ph_graph_destroy(graph);
        assert_ok(ph_device_synchronize(w.device));
        assert_ok(ph_memory_trim(w.device));
    }
}

static ph_status read_recorded(ph_stream *stream, void *user)
{
    const work *a = user;
    PH_TRY(ph_record_stream(a->block, stream));
    return ph_memcpy(out, a->block, N * sizeof *out, stream);
}

TEST(a_replay_in_flight_is_waited_for)
{
    t_gate gate = {.behind = true};
    ph_graph *graph;
    work a = {filled_at_home(7), RECORDED};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, other, NULL, read_recorded, &a));
    assert_ok(t_gate_wait_guarded(&gate, other));
    assert_ok(ph_graph_replay(graph, other));
    ph_free(a.block, NULL);
    write_next(4);
    t_gate_open(&gate);
    t_all(out, N, 7, other);
    ph_graph_destroy(graph);
}

/* The captured graph orders the next node of the block's stream behind the recorded work that is in
 * it, and behind no work from before. */
TEST(an_older_block_is_not_reused_inside_the_capture)
{
    t_gate gate = {.behind = true};
    ph_graph *graph;
    ph_pool *pool;
    int32_t *block, *next;
    assert_ok(ph_pool_create(&pool, w.device, NULL));
    assert_ok(ph_pool_begin(pool));
    assert_ok(PH_NEW(&block, N, home));
    assert_ok(ph_pool_end(pool));
    assert_ok(ph_stream_wait_stream(other, home));
    assert_ok(t_gate_wait_guarded(&gate, other));
    assert_ok(t_fill(&w, other, block, N, 1));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, home, &(ph_capture_options){.pool = pool}));
    assert_ok(t_fill(&w, home, out, 1, 1));
    assert_ok(ph_stream_wait_stream(other, home));
    assert_ok(ph_record_stream(block, other));
    assert_ok(t_fill(&w, other, out, 1, 1));
    ph_free(block, NULL);
    assert_ok(ph_stream_wait_stream(home, other));
    assert_ok(PH_NEW(&next, N, home));
    assert_ptr_not_equal(next, block);
    assert_ok(t_fill(&w, home, next, N, 2));
    ph_free(next, home);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    t_gate_open(&gate);
    assert_ok(ph_device_synchronize(w.device));
    ph_graph_destroy(graph);
    ph_pool_release(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(work_from_before_the_capture_is_waited_for, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_replay_in_flight_is_waited_for, setup, teardown),
        cmocka_unit_test_setup_teardown(an_older_block_is_not_reused_inside_the_capture, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
