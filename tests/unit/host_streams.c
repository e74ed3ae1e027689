/* SPDX-License-Identifier: MIT */
/* tests/unit/host_streams.c: the host device's streams and events: order, concurrency, waiting,
 * their end. */
#include "driver/host/stream/device.h"
#include "support/host_trace.h"
#include "support/test.h"

static world w;
static int64_t live; /* host allocations before a test */

FIXTURE(open_world)
{
    live = ph__alloc_live();
    world_open(&w, 0);
    return 0;
}

FIXTURE(close_world)
{
    world_close(&w);
    assert_int_equal(ph__alloc_live(), live);
    return 0;
}

static void await_reached(const gate *g)
{
    while (!atomic_load(&g->reached))
        sched_yield();
}

static ph__drv_event *timing_event(void)
{
    ph__drv_event *event = NULL;
    assert_int_equal(drv->event_create(&event, w.device, PH__EVENT_TIMING), 0);
    return event;
}

/* ---- order ---- */

TEST(work_on_a_stream_runs_in_order)
{
    static trace ran;
    static entry entries[1000];
    memset(&ran, 0, sizeof ran);
    for (int i = 0; i < 1000; i++)
        log_on(&entries[i], w.a, &ran, i);
    assert_int_equal(drv->stream_synchronize(w.a), 0);
    assert_int_equal(atomic_load(&ran.count), 1000);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(ran.at[i], i);
    assert_int_equal(drv->stream_query(w.a), 0);
}

TEST(kinds_of_work_keep_their_order)
{
    gate g = {0};
    int32_t seven[2] = {7, 7}, out[2] = {0, 0};
    assert_int_equal(gate_wait(&g, w.a), 0);
    const ph__drv_memcpy in = {w.words, seven, sizeof seven};
    assert_int_equal(drv->copy(w.a, &in, NULL), 0);
    seven[0] = seven[1] = -1; /* a pageable source was read already */
    assert_int_equal(launch_add(&w, w.a, 0, 10, 3), 0);
    const ph__drv_memset fill = {w.words + 1, 5, 4, 1};
    assert_int_equal(drv->fill(w.a, &fill), 0);
    assert_int_equal(launch_add(&w, w.a, 1, 2, 1), 0);
    atomic_store(&g.open, true);
    const ph__drv_memcpy back = {out, w.words, sizeof out};
    /* a pageable destination is written already */
    assert_int_equal(drv->copy(w.a, &back, NULL), 0);
    assert_int_equal(out[0], 73);
    assert_int_equal(out[1], 11);
}

TEST(a_blocked_stream_holds_only_itself)
{
    gate g = {0};
    assert_int_equal(gate_wait(&g, w.a), 0);
    await_reached(&g);
    assert_int_equal(launch_add(&w, w.a, 0, 1, 1), 0);
    assert_int_equal(launch_add(&w, w.b, 1, 1, 2), 0);
    assert_int_equal(drv->stream_synchronize(w.b), 0);
    assert_int_equal(w.words[1], 2);
    assert_int_equal(w.words[0], 0);
    assert_int_equal(drv->stream_query(w.a), PH__R_NOT_READY);
    atomic_store(&g.open, true);
    assert_int_equal(drv->device_synchronize(w.device), 0);
    assert_int_equal(w.words[0], 1);
}

TEST(an_event_orders_two_streams)
{
    gate g = {0};
    ph__drv_event *event = new_event(&w);
    assert_int_equal(gate_wait(&g, w.a), 0);
    assert_int_equal(launch_add(&w, w.a, 0, 1, 5), 0);
    assert_int_equal(order(event, w.a, w.b), 0);
    assert_int_equal(launch_add(&w, w.b, 0, 10, 1), 0);
    assert_int_equal(drv->event_query(event), PH__R_NOT_READY);
    assert_int_equal(drv->stream_query(w.b), PH__R_NOT_READY);
    atomic_store(&g.open, true);
    assert_int_equal(drv->event_synchronize(event), 0);
    assert_int_equal(drv->event_query(event), 0);
    assert_int_equal(drv->stream_synchronize(w.b), 0);
    assert_int_equal(w.words[0], 51);
    drv->event_destroy(event);
}

TEST(an_event_that_was_never_recorded_is_no_wait)
{
    ph__drv_event *event = new_event(&w);
    assert_int_equal(drv->stream_wait_event(w.a, event, 0), 0);
    assert_int_equal(drv->event_query(event), 0);
    assert_int_equal(drv->event_synchronize(event), 0);
    assert_int_equal(drv->stream_query(w.a), 0);
    drv->event_destroy(event);
}

TEST(a_second_record_replaces_the_first)
{
    gate g = {0};
    ph__drv_event *event = new_event(&w);
    assert_int_equal(gate_wait(&g, w.a), 0);
    assert_int_equal(drv->event_record(event, w.a, 0), 0);
    /* waits for the first record for good */
    assert_int_equal(drv->stream_wait_event(w.b, event, 0), 0);
    ph__drv_stream *idle = new_stream(&w, PH__STREAM_NON_BLOCKING);
    assert_int_equal(drv->event_record(event, idle, 0), 0);
    assert_int_equal(drv->event_synchronize(event), 0);
    assert_int_equal(drv->stream_query(w.b), PH__R_NOT_READY);
    atomic_store(&g.open, true);
    assert_int_equal(drv->stream_synchronize(w.b), 0);
    drv->event_destroy(event);
    drv->stream_destroy(idle);
}

TEST(external_flags_outside_a_capture_change_nothing)
{
    ph__drv_event *event = new_event(&w);
    assert_int_equal(launch_add(&w, w.a, 0, 1, 3), 0);
    assert_int_equal(drv->event_record(event, w.a, PH__EVENT_RECORD_EXTERNAL), 0);
    assert_int_equal(drv->stream_wait_event(w.b, event, PH__EVENT_RECORD_EXTERNAL), 0);
    assert_int_equal(launch_add(&w, w.b, 0, 2, 0), 0);
    assert_int_equal(drv->stream_synchronize(w.b), 0);
    assert_int_equal(w.words[0], 6);
    drv->event_destroy(event);
}

TEST(unknown_flags_are_refused)
{
    ph__drv_event *event = new_event(&w), *none = NULL;
    ph__drv_stream *stream = NULL;
    const struct {
        const char *call;
        int answer;
    } rows[] = {
        {"event_create", drv->event_create(&none, w.device, 5)},
        {"event_record", drv->event_record(event, w.a, 7)},
        {"stream_wait_event", drv->stream_wait_event(w.a, event, 7)},
        {"stream_create", drv->stream_create(&stream, w.device, 9, 0)},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].answer != PH__R_INVALID_VALUE)
            fail_msg("%s: answered %d", rows[i].call, rows[i].answer);
    assert_true(!none && !stream);
    drv->event_destroy(event);
}

/* ---- the legacy default stream ---- */

TEST(legacy_work_is_ordered_against_blocking_streams)
{
    gate g = {0};
    static trace ran;
    entry entries[5];
    memset(&ran, 0, sizeof ran);
    ph__drv_stream *legacy = drv->stream_default(w.device),
                   *first = new_stream(&w, PH__STREAM_BLOCKING);
    ph__drv_stream *second = new_stream(&w, PH__STREAM_BLOCKING);
    assert_int_equal(gate_wait(&g, first), 0);
    log_on(&entries[0], first, &ran, 1);
    log_on(&entries[1], legacy, &ran, 2);
    log_on(&entries[2], second, &ran, 3);
    log_on(&entries[3], first, &ran, 4);
    log_on(&entries[4], w.a, &ran, 9); /* non-blocking: not concerned */
    assert_int_equal(drv->stream_synchronize(w.a), 0);
    assert_int_equal(atomic_load(&ran.count), 1);
    assert_int_equal(ran.at[0], 9);
    assert_int_equal(drv->stream_query(legacy), PH__R_NOT_READY);
    assert_int_equal(drv->stream_query(second), PH__R_NOT_READY);
    atomic_store(&g.open, true);
    assert_int_equal(drv->device_synchronize(w.device), 0);
    assert_int_equal(ran.at[1], 1);
    assert_int_equal(ran.at[2], 2);
    assert_int_equal(atomic_load(&ran.count), 5);
    drv->stream_destroy(first);
    drv->stream_destroy(second);
}

TEST(synchronizing_the_legacy_stream_waits_for_blocking_ones)
{
    ph__drv_stream *legacy = drv->stream_default(w.device),
                   *blocking = new_stream(&w, PH__STREAM_BLOCKING);
    for (int i = 0; i < 200; i++) {
        assert_int_equal(launch_add(&w, blocking, 0, 1, 1), 0);
        assert_int_equal(launch_add(&w, legacy, 0, 1, 1), 0);
        assert_int_equal(launch_add(&w, blocking, 0, 1, 1), 0);
        assert_int_equal(drv->stream_synchronize(legacy), 0);
        assert_int_equal(w.words[0], 3 * (i + 1));
    }
    drv->stream_destroy(blocking);
}

TEST(legacy_work_waits_for_a_destroyed_blocking_stream)
{
    gate g = {0};
    ph__drv_stream *blocking = new_stream(&w, PH__STREAM_BLOCKING);
    assert_int_equal(gate_wait(&g, blocking), 0);
    assert_int_equal(launch_add(&w, blocking, 0, 1, 4), 0);
    drv->stream_destroy(blocking);
    assert_int_equal(launch_add(&w, drv->stream_default(w.device), 0, 10, 2), 0);
    atomic_store(&g.open, true);
    assert_int_equal(drv->stream_synchronize(drv->stream_default(w.device)), 0);
    assert_int_equal(w.words[0], 42);
}

/* ---- times ---- */

TEST(elapsed_needs_two_complete_timing_events)
{
    gate g = {0};
    ph__drv_event *start = timing_event(), *end = timing_event(), *bare = new_event(&w);
    float ms = -1;
    assert_int_equal(drv->event_elapsed(&ms, start, end), PH__R_INVALID_HANDLE);
    assert_int_equal(drv->event_record(start, w.a, 0), 0);
    assert_int_equal(drv->event_record(bare, w.a, 0), 0);
    assert_int_equal(drv->event_elapsed(&ms, start, end), PH__R_INVALID_HANDLE);
    assert_int_equal(gate_wait(&g, w.a), 0);
    assert_int_equal(drv->event_record(end, w.a, 0), 0);
    assert_int_equal(drv->event_elapsed(&ms, start, end), PH__R_NOT_READY);
    assert_int_equal(drv->event_elapsed(&ms, start, bare), PH__R_INVALID_HANDLE);
    assert_true(ms == -1);
    atomic_store(&g.open, true);
    assert_int_equal(drv->event_synchronize(end), 0);
    assert_int_equal(drv->event_elapsed(&ms, start, end), 0);
    assert_true(ms > 0);
    float back = 0;
    assert_int_equal(drv->event_elapsed(&back, end, start), 0);
    assert_true(back == -ms);
    drv->event_destroy(start);
    drv->event_destroy(end);
    drv->event_destroy(bare);
}

/* ---- several threads ---- */

static void *submit_many(void *argument)
{
    const submitter *self = argument;
    for (int i = 0; i < 300; i++) {
        ph__drv_event *event = new_event(self->w);
        assert_int_equal(launch_add(self->w, self->w->a, self->slot, 1, 1), 0);
        assert_int_equal(order(event, self->w->a, self->w->b), 0);
        assert_int_equal(launch_add(self->w, self->w->b, self->slot, 1, 1), 0);
        assert_int_equal(order(event, self->w->b, self->w->a), 0);
        if (i % 50 == 0)
            assert_int_equal(drv->stream_synchronize(i % 100 ? self->w->a : self->w->b), 0);
        if (i % 70 == 0)
            assert_int_equal(drv->event_synchronize(event), 0);
        drv->event_destroy(event);
    }
    return NULL;
}

TEST(threads_may_share_streams)
{
    run_submitters(&w, 4, submit_many);
    assert_int_equal(drv->device_synchronize(w.device), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(w.words[i], 600);
}

static void *churn_streams(void *argument)
{
    const submitter *self = argument;
    for (int i = 0; i < 40; i++) {
        ph__drv_stream *own =
            new_stream(self->w, i % 2 ? PH__STREAM_BLOCKING : PH__STREAM_NON_BLOCKING);
        assert_int_equal(launch_add(self->w, own, self->slot, 1, 1), 0);
        if (i % 3 == 0)
            assert_int_equal(drv->device_synchronize(self->w->device), 0);
        if (i % 5 == 0)
            assert_int_equal(
                launch_add(self->w, drv->stream_default(self->w->device), 10 + self->slot, 1, 1),
                0);
        assert_int_equal(drv->stream_synchronize(own), 0);
        drv->stream_destroy(own);
    }
    return NULL;
}

TEST(streams_come_and_go_on_several_threads)
{
    run_submitters(&w, 3, churn_streams);
    assert_int_equal(drv->device_synchronize(w.device), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(w.words[i], 40);
        assert_int_equal(w.words[10 + i], 8);
    }
}

/* ---- the end of things ---- */

TEST(destroyed_streams_and_events_finish_what_was_submitted)
{
    gate g = {0};
    ph__drv_stream *own = new_stream(&w, PH__STREAM_NON_BLOCKING);
    ph__drv_event *event = new_event(&w);
    assert_int_equal(gate_wait(&g, own), 0);
    assert_int_equal(launch_add(&w, own, 0, 1, 3), 0);
    assert_int_equal(order(event, own, w.b), 0);
    assert_int_equal(launch_add(&w, w.b, 0, 2, 1), 0);
    drv->event_destroy(event);
    drv->stream_destroy(own);
    assert_int_equal(drv->stream_query(w.b), PH__R_NOT_READY);
    atomic_store(&g.open, true);
    assert_int_equal(drv->stream_synchronize(w.b), 0);
    assert_int_equal(w.words[0], 7);
}

static int32_t closing_total;

static void add_to_total(void *user)
{
    closing_total += *(const int32_t *)user;
}

TEST(closing_the_device_waits_for_everything)
{
    static int32_t one = 1;
    int64_t before = ph__alloc_live();
    ph__drv_device *device = NULL;
    ph__drv_stream *stream = NULL;
    closing_total = 0;
    assert_int_equal(drv->device_open(&device, 0, NULL), 0);
    assert_int_equal(drv->stream_create(&stream, device, PH__STREAM_NON_BLOCKING, 0), 0);
    const ph__drv_host host = {add_to_total, &one};
    for (int i = 0; i < 500; i++)
        assert_int_equal(drv->host(stream, &host), 0);
    drv->stream_destroy(stream);
    assert_int_equal(atomic_load(&((ph__host_device *)device)->live_handles), 0);
    drv->device_close(device);
    assert_int_equal(closing_total, 500);
    assert_int_equal(ph__alloc_live(), before);
}

TEST(destroying_nothing_is_allowed)
{
    drv->stream_destroy(NULL);
    drv->event_destroy(NULL);
    drv->kernel_destroy(NULL);
    drv->device_close(NULL);
}

TEST(devices_and_streams_check_their_options)
{
    ph__drv_device *device = NULL;
    ph__drv_device_options options = {.threads = 3}, many = {.threads = 100000};
    const struct {
        const char *name;
        uint32_t ordinal;
        const ph__drv_device_options *options;
        int answer;
    } rows[] = {{"another device", 1, NULL, PH__R_INVALID_DEVICE},
                {"too many threads", 0, &many, PH__R_INVALID_VALUE}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int answer = drv->device_open(&device, rows[i].ordinal, rows[i].options);
        if (answer != rows[i].answer || device)
            fail_msg("%s: answered %d, expected %d", rows[i].name, answer, rows[i].answer);
    }
    assert_int_equal(drv->device_open(&device, 0, &options), 0);
    ph__drv_device_info info;
    assert_int_equal(drv->device_info(&info, device), 0);
    assert_int_equal(info.threads, 3);
    assert_true(info.memory_total > 0 && info.memory_free == info.memory_total);
    assert_true(info.priority_lowest == 0 && info.priority_highest < 0);
    assert_true(strlen(info.description) > 0);
    drv->device_close(device);
    char version[48], reason[256];
    uint32_t count = 0;
    drv->describe(version, &count, reason);
    assert_int_equal(count, 1);
    assert_string_equal(reason, "");
    assert_true(strlen(version) > 0);
}

TEST(waits_may_cross_devices)
{
    int64_t before = ph__alloc_live();
    for (uint64_t seeds = 0; seeds < 4; seeds++) {
        world one, other;
        world_open(&one, seeds & 1 ? 11 : 0);
        world_open(&other, seeds & 2 ? 12 : 0);
        ph__drv_event *event = new_event(&one);
        gate g = {.open = seeds & 1};
        assert_int_equal(gate_wait(&g, one.a), 0);
        assert_int_equal(order(event, one.a, other.a), 0);
        assert_int_equal(launch_add(&other, other.a, 0, 1, 8), 0);
        drv->event_destroy(event);
        atomic_store(&g.open, true);
        assert_int_equal(drv->stream_synchronize(other.a), 0);
        assert_int_equal(other.words[0], 8);
        world_close(&one);
        world_close(&other);
    }
    assert_int_equal(ph__alloc_live(), before);
}

/* ---- host memory ---- */

static int one_of_each(ph__drv_event *event)
{
    int result = launch_add(&w, w.a, 0, 1, 1);
    if (!result)
        result = order(event, w.a, w.b);
    if (!result)
        result = launch_add(&w, w.b, 0, 1, 1);
    if (!result)
        result = order(event, w.b, w.a);
    return result;
}

TEST(submitting_allocates_nothing_in_the_long_run)
{
    ph__drv_event *event = new_event(&w);
    gate g = {0};
    /* As many commands in flight as there will ever be. */
    assert_int_equal(gate_wait(&g, w.a), 0);
    for (int i = 0; i < 100; i++)
        assert_int_equal(one_of_each(event), 0);
    atomic_store(&g.open, true);
    assert_int_equal(drv->device_synchronize(w.device), 0);
    int64_t before = ph__alloc_count();
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 50; i++)
            assert_int_equal(one_of_each(event), 0);
        assert_int_equal(drv->device_synchronize(w.device), 0);
    }
    assert_int_equal(ph__alloc_count(), before);
    assert_int_equal(w.words[0], 2200);
    drv->event_destroy(event);
}

/* Everything a program does with streams and events; the first failure ends it. */
static int small_program(uint64_t seed)
{
    const ph__drv_device_options options = {.threads = 2, .chaos_seed = seed};
    ph__drv_device *device = NULL;
    ph__drv_stream *a = NULL, *b = NULL;
    ph__drv_event *event = NULL;
    ph__drv_kernel *kernel = NULL;
    int32_t words[2] = {0, 0};
    int result = drv->device_open(&device, 0, &options);
    if (result)
        return result;
    const ph_kernel_source source = {
        .name = "add", .host = add_body, .args_size = sizeof(struct add_args)};
    const struct add_args args = {words, 0, 1, 1};
    const ph__drv_launch launch = {
        .grid = {1, 1, 1}, .block = {1, 1, 1}, .shared_bytes = 100, .args = &args};
    result = drv->stream_create(&a, device, PH__STREAM_BLOCKING, 0);
    if (!result)
        result = drv->stream_create(&b, device, PH__STREAM_NON_BLOCKING, 0);
    if (!result)
        result = drv->event_create(&event, device, 0);
    if (!result)
        result = drv->kernel_create(&kernel, device, &source);
    if (!result)
        result = drv->launch(a, kernel, &launch);
    if (!result)
        result = drv->launch(drv->stream_default(device), kernel, &launch);
    if (!result)
        result = drv->launch(a, kernel, &launch);
    if (!result)
        result = order(event, a, b);
    if (!result)
        result = drv->launch(b, kernel, &launch);
    if (!result)
        result = drv->stream_synchronize(b);
    if (!result)
        assert_int_equal(words[0], 4);
    drv->kernel_destroy(kernel);
    drv->event_destroy(event);
    drv->stream_destroy(b);
    drv->stream_destroy(a);
    drv->device_close(device);
    return result;
}

TEST(every_failing_allocation_is_answered)
{
    for (uint64_t seed = 0; seed < 2; seed++) {
        int64_t before = ph__alloc_live();
        int result = -1;
        for (int64_t n = 0; result != 0; n++) {
            assert_true(n < 200);
            ph__alloc_fail_after(n);
            result = small_program(seed);
            ph__alloc_fail_after(PH__ALLOC_NEVER);
            assert_true(result == 0 || result == PH__R_OUT_OF_MEMORY);
            assert_int_equal(ph__alloc_live(), before);
        }
    }
}

/* A stack that no address space has room for: from now on no thread can be started. Returns the
 * size before. */
static size_t refuse_threads(size_t bytes)
{
    pthread_attr_t attributes;
    size_t before = 0;
    assert_int_equal(pthread_getattr_default_np(&attributes), 0);
    assert_int_equal(pthread_attr_getstacksize(&attributes, &before), 0);
    assert_int_equal(pthread_attr_setstacksize(&attributes, bytes), 0);
    assert_int_equal(pthread_setattr_default_np(&attributes), 0);
    pthread_attr_destroy(&attributes);
    return before;
}

TEST(a_thread_that_cannot_be_started_is_answered)
{
    ph__drv_event *event = new_event(&w);
    ph__drv_device *chaotic = NULL;
    const ph__drv_device_options options = {.chaos_seed = 1};
    size_t before = refuse_threads((size_t)1 << 50);
    int launched = launch_add(&w, w.a, 0, 1, 1);
    bool said = strstr(ph__driver_reason(), "thread") != NULL;
    int recorded = order(event, w.a, w.b); /* the stream is idle: needs none */
    int opened = drv->device_open(&chaotic, 0, &options);
    (void)refuse_threads(before);
    assert_int_equal(launched, PH__R_OUT_OF_MEMORY);
    assert_true(said);
    assert_int_equal(recorded, 0);
    assert_int_equal(opened, PH__R_OUT_OF_MEMORY);
    assert_null(chaotic);
    assert_int_equal(launch_add(&w, w.a, 0, 1, 2), 0);
    assert_int_equal(drv->stream_synchronize(w.a), 0);
    assert_int_equal(w.words[0], 2);
    drv->event_destroy(event);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(work_on_a_stream_runs_in_order),
        IN_WORLD(kinds_of_work_keep_their_order),
        IN_WORLD(a_blocked_stream_holds_only_itself),
        IN_WORLD(an_event_orders_two_streams),
        IN_WORLD(an_event_that_was_never_recorded_is_no_wait),
        IN_WORLD(a_second_record_replaces_the_first),
        IN_WORLD(external_flags_outside_a_capture_change_nothing),
        IN_WORLD(unknown_flags_are_refused),
        IN_WORLD(legacy_work_is_ordered_against_blocking_streams),
        IN_WORLD(synchronizing_the_legacy_stream_waits_for_blocking_ones),
        IN_WORLD(legacy_work_waits_for_a_destroyed_blocking_stream),
        IN_WORLD(elapsed_needs_two_complete_timing_events),
        IN_WORLD(threads_may_share_streams),
        IN_WORLD(streams_come_and_go_on_several_threads),
        IN_WORLD(destroyed_streams_and_events_finish_what_was_submitted),
        cmocka_unit_test(closing_the_device_waits_for_everything),
        cmocka_unit_test(destroying_nothing_is_allowed),
        cmocka_unit_test(devices_and_streams_check_their_options),
        cmocka_unit_test(waits_may_cross_devices),
        IN_WORLD(submitting_allocates_nothing_in_the_long_run),
        cmocka_unit_test(every_failing_allocation_is_answered),
        IN_WORLD(a_thread_that_cannot_be_started_is_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
