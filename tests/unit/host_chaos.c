/* SPDX-License-Identifier: MIT */
/* tests/unit/host_chaos.c: the host device under chaos: legal orders, the same for the same
 * seed. */
#include "driver/driver.h"
#include "support/host_trace.h"
#include "support/test.h"

enum {
    CHAOS_STREAMS = 4,
    CHAOS_STEPS = 12
};

/* Host functions on four streams; stream s + 1 waits for step 3 of stream s. The order in which
 * they ran. */
static void chaos_program(trace *ran, uint64_t seed)
{
    world w;
    ph__drv_stream *streams[CHAOS_STREAMS];
    ph__drv_event *events[CHAOS_STREAMS];
    static entry entries[CHAOS_STREAMS][CHAOS_STEPS];
    memset(ran, 0, sizeof *ran);
    world_open(&w, seed);
    for (int s = 0; s < CHAOS_STREAMS; s++) {
        streams[s] = new_stream(&w, PH__STREAM_NON_BLOCKING);
        events[s] = new_event(&w);
    }
    for (int i = 0; i < CHAOS_STEPS; i++) {
        for (int s = 0; s < CHAOS_STREAMS; s++) {
            if (i == 6 && s > 0)
                assert_int_equal(drv->stream_wait_event(streams[s], events[s - 1], 0), 0);
            log_on(&entries[s][i], streams[s], ran, s * 100 + i);
            if (i == 3)
                assert_int_equal(drv->event_record(events[s], streams[s], 0), 0);
        }
    }
    assert_int_equal(drv->stream_synchronize(streams[1]), 0);
    assert_int_equal(drv->device_synchronize(w.device), 0);
    assert_int_equal(atomic_load(&ran->count), CHAOS_STREAMS * CHAOS_STEPS);
    for (int s = 0; s < CHAOS_STREAMS; s++) {
        drv->event_destroy(events[s]);
        drv->stream_destroy(streams[s]);
    }
    world_close(&w);
}

static bool is_legal(const trace *ran)
{
    for (int s = 0; s < CHAOS_STREAMS; s++) {
        for (int i = 1; i < CHAOS_STEPS; i++)
            if (position(ran, s * 100 + i) < position(ran, s * 100 + i - 1))
                return false;
        if (s > 0 && position(ran, s * 100 + 6) < position(ran, (s - 1) * 100 + 3))
            return false;
    }
    return true;
}

TEST(chaos_orders_are_legal_repeat_and_differ)
{
    static trace first, again, before;
    int different = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        chaos_program(&first, seed);
        chaos_program(&again, seed);
        assert_true(is_legal(&first));
        assert_memory_equal(first.at, again.at, sizeof first.at);
        different += seed > 1 && memcmp(first.at, before.at, sizeof first.at) != 0;
        before = first;
    }
    assert_true(different >= 18);
}

/* Two streams without a wait between them: over the seeds each of both orders comes up, though
 * one was submitted first. */
TEST(chaos_shows_a_missing_wait)
{
    int broken = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        world w;
        world_open(&w, seed);
        for (int i = 0; i < 5; i++)
            assert_int_equal(launch_add(&w, w.a, 0, 1, 1), 0);
        assert_int_equal(launch_add(&w, w.b, 0, 10, 0), 0);
        assert_int_equal(drv->device_synchronize(w.device), 0);
        broken += w.words[0] != 50;
        world_close(&w);
    }
    assert_in_range(broken, 5, 39);
}

TEST(chaos_stops_when_the_waiter_has_what_it_wants)
{
    int unfinished = 0;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        world w;
        world_open(&w, seed);
        for (int i = 0; i < 8; i++) {
            assert_int_equal(launch_add(&w, w.a, 0, 1, 1), 0);
            assert_int_equal(launch_add(&w, w.b, 1, 1, 1), 0);
        }
        assert_int_equal(drv->stream_synchronize(w.a), 0);
        assert_int_equal(w.words[0], 8);
        unfinished += w.words[1] != 8;
        world_close(&w);
    }
    assert_true(unfinished > 0);
}

TEST(chaos_queries_get_there)
{
    world w;
    world_open(&w, 5);
    ph__drv_event *event = new_event(&w);
    int not_ready = 0;
    for (int i = 0; i < 20; i++)
        assert_int_equal(launch_add(&w, w.a, 0, 1, 1), 0);
    assert_int_equal(drv->event_record(event, w.a, 0), 0);
    assert_int_equal(launch_add(&w, w.a, 0, 1, 1), 0);
    while (drv->event_query(event) == PH__R_NOT_READY)
        not_ready++;
    while (drv->stream_query(w.a) == PH__R_NOT_READY)
        not_ready++;
    assert_true(not_ready > 0);
    assert_int_equal(w.words[0], 21);
    drv->event_destroy(event);
    world_close(&w);
}

static void set_flag(void *user)
{
    atomic_store((atomic_int *)user, 1);
}

TEST(chaos_runs_without_being_asked)
{
    world w;
    atomic_int flag = 0;
    world_open(&w, 9);
    const ph__drv_host host = {set_flag, &flag};
    assert_int_equal(drv->host(w.a, &host), 0);
    while (!atomic_load(&flag))
        sched_yield();
    world_close(&w);
}

TEST(chaos_keeps_the_legacy_order_and_finishes_destroyed_streams)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        world w;
        world_open(&w, seed);
        ph__drv_stream *blocking = new_stream(&w, PH__STREAM_BLOCKING);
        ph__drv_stream *legacy = drv->stream_default(w.device);
        assert_int_equal(launch_add(&w, blocking, 0, 1, 1), 0);
        assert_int_equal(launch_add(&w, legacy, 0, 10, 1), 0);
        assert_int_equal(launch_add(&w, blocking, 0, 10, 2), 0);
        drv->stream_destroy(blocking);
        assert_int_equal(launch_add(&w, legacy, 0, 10, 3), 0);
        assert_int_equal(drv->stream_synchronize(legacy), 0);
        assert_int_equal(w.words[0], 1123);
        world_close(&w);
    }
}

static void *chaos_thread(void *argument)
{
    const submitter *self = argument;
    for (int i = 0; i < 30; i++) {
        assert_int_equal(
            launch_add(self->w, self->slot % 2 ? self->w->a : self->w->b, self->slot, 1, 1), 0);
        if (i % 10 == 0)
            assert_int_equal(drv->stream_synchronize(i % 20 ? self->w->a : self->w->b), 0);
        if (i % 7 == 0)
            (void)drv->stream_query(self->w->a);
    }
    return NULL;
}

TEST(chaos_serves_several_threads)
{
    world w;
    world_open(&w, 3);
    run_submitters(&w, 3, chaos_thread);
    assert_int_equal(drv->device_synchronize(w.device), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(w.words[i], 30);
    world_close(&w);
}

/* The wait is a node of the graph: the scheduler's thread itself comes to it and must go on
 * elsewhere. */
TEST(chaos_runs_other_streams_while_a_replay_waits)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        world w;
        ph__drv_graph *graph = NULL;
        ph__drv_exec *exec = NULL;
        world_open(&w, seed);
        ph__drv_event *event = new_event(&w);
        assert_int_equal(drv->capture_begin(w.b, PH_CAPTURE_RELAXED), 0);
        assert_int_equal(drv->stream_wait_event(w.b, event, PH__EVENT_RECORD_EXTERNAL), 0);
        assert_int_equal(launch_add(&w, w.b, 0, 10, 1), 0);
        assert_int_equal(drv->capture_end(&graph, w.b), 0);
        assert_int_equal(drv->instantiate(&exec, graph, 0, NULL), 0);
        for (int i = 0; i < 4; i++)
            assert_int_equal(launch_add(&w, w.a, 0, 1, 1), 0);
        assert_int_equal(drv->event_record(event, w.a, 0), 0);
        assert_int_equal(drv->exec_launch(exec, w.b), 0);
        assert_int_equal(drv->stream_synchronize(w.b), 0);
        assert_int_equal(w.words[0], 41);
        drv->exec_destroy(exec);
        drv->graph_destroy(graph);
        drv->event_destroy(event);
        world_close(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chaos_orders_are_legal_repeat_and_differ),
        cmocka_unit_test(chaos_shows_a_missing_wait),
        cmocka_unit_test(chaos_stops_when_the_waiter_has_what_it_wants),
        cmocka_unit_test(chaos_queries_get_there),
        cmocka_unit_test(chaos_runs_without_being_asked),
        cmocka_unit_test(chaos_keeps_the_legacy_order_and_finishes_destroyed_streams),
        cmocka_unit_test(chaos_serves_several_threads),
        cmocka_unit_test(chaos_runs_other_streams_while_a_replay_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
