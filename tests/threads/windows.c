/* SPDX-License-Identifier: MIT */
/* tests/threads/windows.c: a capture that another thread begins on a stream between a call's
 * look at it and its submission. Each call either came before it, and did its work, or is in it,
 * with all that its replays need. */
#include "windows.h"
#include "device/handles/device.h"
#include "device/handles/stream.h"
#include "memory/state/pool_state.h"
#include <stdlib.h>

/* Begins a capture of `graph` on the stream. */
typedef struct beginner {
    ph_stream *stream;
    bool waits;    /* until the call is over: the call's thread does not wait for it then */
    ph_pool *pool; /* it waits for the pool's replay; NULL: for what asks */
    pthread_t thread;
    atomic_bool begun;
    ph_status status;
    char message[sizeof((ph_error){0}).message];
} beginner;
static beginner other;

static void *begin_capture(void *argument)
{
    const ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    beginner *b = argument;
    b->status = ph_graph_capture_begin(graph, b->stream, &options);
    memcpy(b->message, ph_error_last()->message, sizeof b->message);
    atomic_store(&b->begun, true);
    return NULL;
}

static bool waits_for_call(const beginner *b)
{
    return b->pool ? atomic_load(&b->pool->replay_lock.state) == 2
                   : atomic_load(&b->stream->asks.waiters) != 0;
}

/* On the thread of the call: the other one has begun, or has come as far as it can. */
static void let_begin(void *argument)
{
    beginner *b = argument;
    if (!ph__thread_start(&b->thread, "beginner", begin_capture, b))
        abort();
    while (!atomic_load(&b->begun) && !(b->waits && waits_for_call(b)))
        sched_yield();
}

static void let_begin_on_device(void *argument)
{
    beginner *b = argument;
    if (!ph__thread_start(&b->thread, "beginner", begin_capture, b))
        abort();
    while (!atomic_load(&b->begun) && !atomic_load(&b->stream->device->syncs.waiters))
        sched_yield();
}

static void begin_before(const char *entry, ph_stream *stream, bool waits)
{
    memset(&other, 0, sizeof other);
    other.stream = stream;
    other.waits = waits;
    ph__driver_before(entry, let_begin, &other);
}

static void check_begun(void)
{
    assert_int_equal(pthread_join(other.thread, NULL), 0);
    if (other.status != PH_OK)
        fail_msg("the capture did not begin: %s", other.message);
}

static const ph_record *end_capture(size_t nodes)
{
    const ph_record *record;
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), nodes);
    return record;
}

/* ---- what a captured node needs is kept ---- */
/* Freed behind the copy, and asked for again: it is another block, and replays read the old one. */
static void check_source_is_kept(int32_t *source)
{
    int32_t *again;
    end_capture(1);
    assert_int_equal(pinned_kept(), BYTES);
    ph_free_pinned(source, world.stream);
    assert_ok(ph_malloc_pinned(&again, N, sizeof *again, world.stream));
    assert_ptr_not_equal(again, source);
    memset(again, 0x55, BYTES);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 0x01010101, world.stream);
    ph_free_pinned(again, world.stream);
}

static int32_t *make_source(void)
{
    int32_t *source;
    assert_ok(ph_malloc_pinned(&source, N, sizeof *source, world.stream));
    memset(source, 1, BYTES);
    return source;
}

TEST(test_pinned_source_of_a_copy)
{
    int32_t *source = make_source();
    begin_before("copy", world.stream, false);
    assert_ok(ph_memcpy(x, source, BYTES, world.stream));
    check_begun();
    check_source_is_kept(source);
}

/* Other code's copy, of which no call of this library tells. */
TEST(test_pinned_source_of_other_codes_copy)
{
    int32_t *source = make_source();
    const ph__drv_memcpy copy = {x, source, BYTES};
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_int_equal(world.device->driver->copy(world.stream->handle, &copy, NULL), 0);
    check_source_is_kept(source);
}

TEST(test_kernel_of_a_launch)
{
    ph_kernel *kernel;
    ph_node_info info;
    assert_ok(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_ADD_ONE]));
    begin_before("launch", world.stream, false);
    assert_ok(ph_launch(world.stream, kernel, NULL, &x, sizeof x));
    ph_kernel_release(kernel);
    check_begun();
    assert_ok(ph_record_node(&info, end_capture(1), 0));
    assert_string_equal(info.name, t_kernel_sources[T_KERNEL_ADD_ONE].name);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, 1, 2, world.stream);
}

/* ---- what a capture cannot take comes before it ---- */
TEST(test_pageable_source)
{
    static int32_t pageable[N];
    memset(pageable, 2, sizeof pageable);
    begin_before("copy", world.stream, true);
    assert_ok(ph_memcpy(x, pageable, BYTES, world.stream));
    memset(pageable, 3, sizeof pageable);
    check_begun();
    assert_error(ph_memcpy(x, pageable, BYTES, world.stream), PH_ERROR_UNPINNED,
                 "pageable host memory (src ");
    end_capture(0);
    t_all(x, N, 0x02020202, world.stream);
}

TEST(test_pageable_target)
{
    static int32_t pageable[N];
    begin_before("copy", world.stream, true);
    assert_ok(ph_memcpy(pageable, x, BYTES, world.stream));
    assert_int_equal(pageable[N - 1], 1);
    check_begun();
    assert_error(ph_memcpy(pageable, x, BYTES, world.stream), PH_ERROR_UNPINNED,
                 "pageable host memory (dst ");
    end_capture(0);
}

static void record_between(const ph_event_options *options)
{
    ph_event *event;
    bool done = false;
    assert_ok(ph_event_create(&event, world.device, options));
    begin_before("event_record", world.stream, true);
    assert_ok(ph_event_record(event, world.stream));
    check_begun();
    end_capture(0);
    assert_ok(ph_event_synchronize(event));
    assert_ok(ph_event_query(&done, event));
    assert_true(done);
    ph_event_destroy(event);
}

TEST(test_event_record)
{
    record_between(NULL);
}

TEST(test_external_event_record)
{
    record_between(&(ph_event_options){.external = true});
}

TEST(test_event_wait)
{
    ph_event *event;
    assert_ok(ph_event_create(&event, world.device, NULL));
    assert_ok(ph_event_record(event, world.stream));
    begin_before("stream_wait_event", world.stream, true);
    assert_ok(ph_stream_wait_event(world.stream, event));
    check_begun();
    assert_ok(t_add(&world, world.stream, x, x, N, 1));
    end_capture(1);
    ph_event_destroy(event);
}

TEST(test_stream_query)
{
    bool done;
    begin_before("stream_query", world.stream, true);
    assert_ok(ph_stream_query(&done, world.stream));
    check_begun();
    end_capture(0);
}

TEST(test_stream_synchronize)
{
    assert_ok(t_add(&world, world.stream, x, x, N, 1));
    begin_before("stream_wait", world.stream, false);
    assert_error(ph_stream_synchronize(world.stream), PH_ERROR_CAPTURE, "stream");
    check_begun();
    end_capture(0);
    t_all(x, N, 2, world.stream);
}

/* The capture begins as soon as the wait is over. */
TEST(test_device_synchronize)
{
    assert_ok(t_add(&world, world.stream, x, x, N, 1));
    memset(&other, 0, sizeof other);
    other.stream = world.stream;
    ph__driver_before("device_synchronize", let_begin_on_device, &other);
    assert_ok(ph_device_synchronize(world.device));
    check_begun();
    end_capture(0);
    t_all(x, N, 2, world.stream);
}

TEST(a_capture_that_begins_within_a_replay_goes_on)
{
    ph_graph *one = make_one();
    begin_before("exec_launch", world.stream, true);
    assert_ok(ph_graph_replay(one, world.stream));
    check_begun();
    end_capture(0);
    t_all(x, N, 2, world.stream);
    ph_graph_destroy(one);
}

/* Nothing but the launch has to be done. */
TEST(a_capture_that_begins_within_a_later_replay_goes_on)
{
    ph_pool *pool;
    ph_graph *one;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(ph_graph_create(&one, NULL));
    assert_ok(
        ph_graph_capture(one, world.stream, &(ph_capture_options){.pool = pool}, add_one, NULL));
    assert_ok(ph_graph_replay(one, world.stream));
    begin_before("exec_relaunch", world.stream, true);
    other.pool = pool;
    assert_ok(ph_graph_replay(one, world.stream));
    check_begun();
    assert_ok(ph_graph_replay(one, world.stream)); /* a child graph */
    end_capture(1);
    t_all(x, N, 3, world.stream);
    ph_graph_destroy(one);
    ph_pool_release(pool);
}

TEST(a_capture_that_begins_within_an_upload_goes_on)
{
    ph_graph *one;
    assert_ok(ph_graph_create(&one, &(ph_graph_options){.defer_upload = true}));
    assert_ok(ph_graph_capture(one, world.stream, NULL, add_one, NULL));
    if (!t_on_host()) /* which uploads nothing */
        begin_before("exec_upload", world.stream, true);
    assert_ok(ph_graph_upload(one, world.stream));
    if (!t_on_host()) {
        check_begun();
        end_capture(0);
    }
    assert_ok(ph_graph_replay(one, world.stream));
    t_all(x, N, 2, world.stream);
    ph_graph_destroy(one);
}

/* A stream that joins a capture cannot begin one of its own; the one that it joins goes on. */
TEST(a_stream_that_joins_a_capture_begins_none)
{
    ph_graph *outer = NULL;
    ph_stream *side;
    ph_event *event;
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(ph_event_create(&event, world.device, NULL));
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture_begin(outer, world.stream,
                                     &(ph_capture_options){.mode = PH_CAPTURE_RELAXED}));
    assert_ok(ph_event_record(event, world.stream));
    begin_before("stream_wait_event", side, true);
    assert_ok(ph_stream_wait_event(side, event));
    assert_int_equal(pthread_join(other.thread, NULL), 0);
    if (other.status != PH_ERROR_CAPTURE)
        fail_msg("%d: %s", (int)other.status, other.message);
    assert_ok(t_add(&world, side, x, x, N, 1));
    assert_ok(ph_stream_wait_stream(world.stream, side));
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_ok(ph_graph_replay(outer, world.stream));
    t_all(x, N, 2, world.stream);
    ph_graph_destroy(outer);
    ph_event_destroy(event);
    ph_stream_destroy(side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_pinned_source_of_a_copy),
        IN_WORLD(test_pinned_source_of_other_codes_copy),
        IN_WORLD(test_kernel_of_a_launch),
        IN_WORLD(test_pageable_source),
        IN_WORLD(test_pageable_target),
        IN_WORLD(test_event_record),
        IN_WORLD(test_external_event_record),
        IN_WORLD(test_event_wait),
        IN_WORLD(test_stream_query),
        IN_WORLD(test_stream_synchronize),
        IN_WORLD(test_device_synchronize),
        IN_WORLD(a_capture_that_begins_within_a_replay_goes_on),
        IN_WORLD(a_capture_that_begins_within_a_later_replay_goes_on),
        IN_WORLD(a_capture_that_begins_within_an_upload_goes_on),
        IN_WORLD(a_stream_that_joins_a_capture_begins_none),
    };
    return cmocka_run_group_tests_name("threads.windows", tests, NULL, NULL);
}
