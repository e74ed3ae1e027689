/* SPDX-License-Identifier: MIT */
/* tests/threads/windows_ended.c: a capture that another thread ends between a call's question
 * whether the stream is capturing and its submission. The call does its work all the same. */
#include "windows.h"

static atomic_bool open_now, end_now, ended;

static void *begin_and_end(void *status)
{
    const ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    ph_status *out = status;
    *out = ph_graph_capture_begin(graph, world.stream, &options);
    atomic_store(&open_now, true);
    while (!atomic_load(&end_now))
        sched_yield();
    if (*out == PH_OK)
        *out = ph_graph_capture_end(graph, PH_OK);
    atomic_store(&ended, true);
    return NULL;
}

static void let_end(void *unused)
{
    (void)unused;
    atomic_store(&end_now, true);
    while (!atomic_load(&ended))
        sched_yield();
}

static void submit_as_it_ends(const char *entry, ph_status (*submit)(ph_event *event))
{
    const ph_event_options external = {.external = true};
    ph_status status;
    pthread_t thread;
    ph_event *event;
    atomic_store(&open_now, false);
    atomic_store(&end_now, false);
    atomic_store(&ended, false);
    assert_ok(ph_event_create(&event, world.device, &external));
    assert_ok(ph_event_record(event, world.stream));
    assert_true(ph__thread_start(&thread, "ender", begin_and_end, &status));
    while (!atomic_load(&open_now))
        sched_yield();
    ph__driver_before(entry, let_end, NULL);
    assert_ok(submit(event));
    pthread_join(thread, NULL);
    assert_int_equal(status, PH_OK);
    assert_ok(ph_event_synchronize(event));
    ph_event_destroy(event);
}

static ph_status record_it(ph_event *event)
{
    return ph_event_record(event, world.stream);
}

static ph_status wait_for_it(ph_event *event)
{
    return ph_stream_wait_event(world.stream, event);
}

static ph_graph *one_graph;

static ph_status replay_it(ph_event *unused)
{
    (void)unused;
    return ph_graph_replay(one_graph, world.stream);
}

/* It was to become a node of the capture, and is a replay. */
TEST(test_replay_as_a_capture_ends)
{
    one_graph = make_one();
    submit_as_it_ends("child", replay_it);
    t_all(x, N, 2, world.stream);
    ph_graph_destroy(one_graph);
}

TEST(test_external_events_as_a_capture_ends)
{
    submit_as_it_ends("event_record", record_it);
    assert_ok(ph_graph_reset(graph));
    submit_as_it_ends("stream_wait_event", wait_for_it);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_external_events_as_a_capture_ends),
        IN_WORLD(test_replay_as_a_capture_ends),
    };
    return cmocka_run_group_tests_name("threads.windows_ended", tests, NULL, NULL);
}
