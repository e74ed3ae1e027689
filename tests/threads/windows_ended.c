/* SPDX-License-Identifier: MIT */
/* tests/threads/windows_ended.c: a capture that another thread ends, or begins, between a call's
 * question whether the stream is capturing and its submission. The call does its work all the
 * same, and the capture goes on. */
#include "device/handles/captures.h"
#include "device/handles/kernel.h"
#include "device/handles/stream.h"
#include "windows.h"
#include <stdlib.h>

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

/* ---- the end of a graph that holds objects, beside a capture that begins ---- */
static void *begin_alone(void *status)
{
    const ph_capture_options options = {.mode = PH_CAPTURE_THREAD_LOCAL};
    ph_status *out = status;
    *out = ph_graph_capture_begin(graph, world.stream, &options);
    atomic_store(&open_now, true);
    while (!atomic_load(&end_now))
        sched_yield();
    if (*out == PH_OK)
        *out = ph_graph_capture_end(graph, add_one(world.stream, NULL));
    return NULL;
}

static pthread_t beginner;
static ph_status began;

static void let_begin(void *unused)
{
    (void)unused;
    assert_true(ph__thread_start(&beginner, "beginner", begin_alone, &began));
    while (!atomic_load(&open_now))
        sched_yield();
}

static void count_release(void *counter)
{
    atomic_fetch_add((atomic_int *)counter, 1);
}

TEST(a_capture_survives_the_end_of_a_graph_that_replayed_on_its_stream)
{
    static atomic_int released;
    ph_graph *one = make_one();
    atomic_store(&open_now, false);
    atomic_store(&end_now, false);
    assert_ok(ph_graph_retain(one, count_release, &released, true));
    assert_ok(ph_graph_replay(one, world.stream));
    ph__driver_before("stream_wait", let_begin, NULL);
    ph_graph_destroy(one);
    assert_true(atomic_load(&open_now));
    assert_int_equal(atomic_load(&released), 0);
    atomic_store(&end_now, true);
    pthread_join(beginner, NULL);
    assert_int_equal(began, PH_OK);
    assert_int_equal(atomic_load(&released), 1);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 3, world.stream);
}

/* ---- a launch that has reached the driver, but not yet the capture's list of kernels ---- */
enum {
    KERNELS = 32
};

static ph_kernel *kernels[KERNELS];
static size_t listed, listed_as_it_was_read;
static uint64_t capture_id;

/* Of the second half of a launch: what another thread does while the ended capture is read. */
static void list_kernel(void *unused)
{
    (void)unused;
    if (listed == KERNELS)
        return;
    ph_kernel *kernel = kernels[listed++];
    assert_true(ph__capture_keep_kernel(world.stream, kernel, capture_id));
    listed_as_it_was_read += atomic_load(&kernel->kept_in) == capture_id;
    ph__driver_before("graph_next_copy", list_kernel, NULL);
}

static ph_status read_id_and_add(ph_stream *stream, void *user)
{
    PH_TRY(ph__stream_find_capture(&capture_id, stream, "test"));
    return add_one(stream, user);
}

TEST(a_graph_keeps_a_kernel_that_is_listed_while_the_capture_is_read)
{
    for (size_t i = 0; i < KERNELS; i++)
        assert_ok(ph_kernel_create(&kernels[i], world.device, &t_kernel_sources[T_KERNEL_ADD_ONE]));
    listed = listed_as_it_was_read = 0;
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(read_id_and_add(world.stream, NULL));
    ph__driver_before("graph_next_copy", list_kernel, NULL);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    ph__driver_before(NULL, NULL, NULL);
    assert_true(listed_as_it_was_read > 0);
    for (size_t i = 0; i < KERNELS; i++) {
        bool kept = atomic_load(&kernels[i]->kept_in) == capture_id;
        assert_int_equal(atomic_load(&kernels[i]->references), kept ? 2 : 1);
    }
    assert_ok(ph_graph_reset(graph));
    for (size_t i = 0; i < KERNELS; i++) {
        assert_int_equal(atomic_load(&kernels[i]->references), 1);
        ph_kernel_release(kernels[i]);
    }
}

/* ---- a record that is read while the launch's thread lets go of its kernel ---- The launch came
 * too late for the list of kernels, so that the kernel's code alone is kept. */
static ph_kernel *late;
static char *copies[64];

static void let_go_of_it(void *unused)
{
    (void)unused;
    world.device->driver->kernel_keep(late->handle);
    ph_kernel_release(late);
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
        copies[i] = strdup("no_name"); /* as long as the kernel's, in memory that was freed */
}

static void wait_for_second_node(void *unused)
{
    (void)unused;
    ph__driver_before("node_info", let_go_of_it, NULL);
}

TEST(a_record_keeps_the_kernels_that_it_has_found)
{
    const ph_record *record;
    ph_node_info info;
    uint64_t id = 0;
    const char *name = t_kernel_sources[T_KERNEL_ADD_ONE].name;
    const ph__drv_launch launch = {
        .grid = {1, 1, 1}, .block = {1, 1, 1}, .args = &x, .capture_id = &id, .checked = true};
    assert_int_equal(strlen(name), strlen("no_name"));
    assert_ok(ph_kernel_create(&late, world.device, &t_kernel_sources[T_KERNEL_ADD_ONE]));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_int_equal(world.device->driver->launch(world.stream->handle, late->handle, &launch), 0);
    assert_ok(add_one(world.stream, NULL));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_int_equal(atomic_load(&late->references), 1);
    ph__driver_before("node_info", wait_for_second_node, NULL);
    assert_ok(ph_graph_record(&record, graph));
    assert_non_null(copies[0]);
    assert_int_equal(atomic_load(&late->references), 2); /* the record's, and the graph's */
    assert_ok(ph_record_node(&info, record, 0));
    assert_string_equal(info.name, name);
    for (size_t i = 0; i < sizeof copies / sizeof *copies; i++)
        free(copies[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_external_events_as_a_capture_ends),
        IN_WORLD(test_replay_as_a_capture_ends),
        IN_WORLD(a_graph_keeps_a_kernel_that_is_listed_while_the_capture_is_read),
        IN_WORLD(a_record_keeps_the_kernels_that_it_has_found),
        IN_WORLD(a_capture_survives_the_end_of_a_graph_that_replayed_on_its_stream),
    };
    return cmocka_run_group_tests_name("threads.windows_ended", tests, NULL, NULL);
}
