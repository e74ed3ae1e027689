/* SPDX-License-Identifier: MIT */
/* tests/threads/windows.c: a capture that another thread begins on a stream between a call's
 * look at it and its submission. Each call either came before it, and did its work, or is in it,
 * with all that its replays need. */
#include "base/sync.h"
#include "device/handles/device.h"
#include "device/handles/event.h"
#include "device/handles/kernel.h"
#include "driver/fault.h"
#include "support/support.h"
#include "support/test.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum {
    N = 1024,
    BYTES = N * sizeof(int32_t)
};

static t_world world;
static ph_graph *graph;
static int32_t *x;

/* Begins a capture of `graph` on the stream. */
typedef struct beginner {
    ph_stream *stream;
    bool waits; /* until the call is over: the call's thread does not wait for it then */
    pthread_t thread;
    atomic_bool begun;
    ph_status status;
    char message[sizeof((ph_error){0}).message];
} beginner;
static beginner other;

FIXTURE(open_world)
{
    t_open(&world, NULL);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(t_fill(&world, world.stream, x, N, 1));
    assert_ok(ph_stream_synchronize(world.stream));
    t_log_start();
    return 0;
}

FIXTURE(close_world)
{
    t_log_stop();
    ph_graph_destroy(graph);
    ph_free(x, NULL);
    t_close(&world);
    return 0;
}

static void *begin_capture(void *argument)
{
    const ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    beginner *b = argument;
    b->status = ph_graph_capture_begin(graph, b->stream, &options);
    memcpy(b->message, ph_error_last()->message, sizeof b->message);
    atomic_store(&b->begun, true);
    return NULL;
}

/* On the thread of the call: the other one has begun, or has come as far as it can. */
static void let_begin(void *argument)
{
    beginner *b = argument;
    if (!ph__thread_start(&b->thread, "beginner", begin_capture, b))
        abort();
    while (!atomic_load(&b->begun) && !(b->waits && atomic_load(&b->stream->asks.waiters)))
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
static size_t pinned_kept(void)
{
    ph_graph_memory memory;
    assert_ok(ph_graph_get_memory(&memory, graph));
    return memory.pinned;
}

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

static ph_status add_one(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, x, x, N, 1);
}

static ph_graph *make_one(void)
{
    ph_graph *one;
    assert_ok(ph_graph_create(&one, NULL));
    assert_ok(ph_graph_capture(one, world.stream, NULL, add_one, NULL));
    return one;
}

TEST(test_replay)
{
    ph_graph *one = make_one();
    begin_before("exec_launch", world.stream, true);
    assert_ok(ph_graph_replay(one, world.stream));
    check_begun();
    end_capture(0);
    t_all(x, N, 2, world.stream);
    ph_graph_destroy(one);
}

TEST(test_upload)
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
TEST(test_join)
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

/* ---- a capture that another thread ends between the question and the submission ---- */
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

/* ---- both at full speed ---- */
typedef struct submitter {
    ph_stream *stream;
    ph_graph *graph; /* one node, replayed beside the others */
    atomic_bool stop;
    char failure[1024];
} submitter;

/* What a capturing stream refuses is no failure. */
static ph_status pass_refused(ph_status status)
{
    return status == PH_ERROR_CAPTURE && ph_error_last()->native_code == 900 ? PH_OK : status;
}

static ph_status copy_both_kinds(ph_stream *stream, unsigned round)
{
    int32_t *pinned, pageable[16] = {0};
    PH_TRY(ph_malloc_pinned(&pinned, N, sizeof *pinned, stream));
    memset(pinned, 1, BYTES);
    PH_TRY(ph_memcpy(x, pinned, BYTES, stream));
    ph_free_pinned(pinned, stream);
    ph_status status = ph_memcpy(round % 4 < 2 ? (void *)x : pageable,
                                 round % 4 < 2 ? (void *)pageable : x, sizeof pageable, stream);
    return status == PH_ERROR_UNPINNED ? PH_OK : status;
}

static ph_status record_event(ph_stream *stream, unsigned round)
{
    ph_event *event;
    PH_TRY(ph_event_create(&event, world.device, &(ph_event_options){.external = round % 2}));
    ph_status status = ph_event_record(event, stream);
    ph_event_destroy(event);
    return status;
}

static ph_status launch(ph_stream *stream)
{
    ph_kernel *kernel;
    PH_TRY(ph_kernel_create(&kernel, world.device, &t_kernel_sources[T_KERNEL_ADD_ONE]));
    ph_status status = ph_launch(stream, kernel, NULL, &x, sizeof x);
    ph_kernel_release(kernel);
    return status;
}

static ph_status wait_for(ph_stream *stream, unsigned round)
{
    bool done;
    PH_TRY(pass_refused(ph_stream_query(&done, stream)));
    if (round % 8 == 3)
        PH_TRY(pass_refused(ph_stream_synchronize(stream)));
    if (round % 8 == 7)
        PH_TRY(pass_refused(ph_device_synchronize(world.device)));
    return PH_OK;
}

static ph_status submit_all_kinds(submitter *s, unsigned round)
{
    PH_TRY(copy_both_kinds(s->stream, round));
    PH_TRY(record_event(s->stream, round));
    PH_TRY(wait_for(s->stream, round));
    PH_TRY(ph_memset(x, 1, BYTES, s->stream));
    PH_TRY(ph_graph_replay(s->graph, s->stream));
    return launch(s->stream);
}

static void *submit(void *argument)
{
    submitter *s = argument;
    for (unsigned round = 0; !atomic_load(&s->stop); round++)
        if (submit_all_kinds(s, round) != PH_OK) {
            memcpy(s->failure, ph_error_last()->message, sizeof ph_error_last()->message);
            break;
        }
    return NULL;
}

static ph_status linger(ph_stream *stream, void *user)
{
    (void)stream;
    for (int i = 0; i < *(int *)user; i++)
        sched_yield();
    return PH_OK;
}

static void check_nodes(void)
{
    const ph_record *record;
    bool copies = false;
    assert_ok(ph_graph_record(&record, graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        ph_node_info info;
        assert_ok(ph_record_node(&info, record, i));
        copies = copies || info.kind == PH_NODE_MEMCPY;
        if (info.kind == PH_NODE_KERNEL)
            assert_string_equal(info.name, t_kernel_sources[T_KERNEL_ADD_ONE].name);
    }
    assert_true(!copies || pinned_kept() > 0);
}

/* Work that came between the join and the capture's end is not joined: such a capture is
 * refused. */
static bool capture_once(ph_capture_fn body, void *user)
{
    const ph_capture_options options = {.mode = PH_CAPTURE_RELAXED};
    ph_status status = ph_graph_capture(graph, world.stream, &options, body, user);
    if (status == PH_ERROR_CAPTURE && ph_error_last()->native_code == 904)
        return false;
    assert_ok(status);
    return true;
}

static void capture_beside(submitter *s, ph_capture_fn body, int *yields)
{
    pthread_t thread;
    assert_true(ph__thread_start(&thread, "submit", submit, s));
    for (int i = 0, rounds = t_nightly() ? 20000 : 500; i < rounds; i++) {
        *yields = i % 8;
        if (capture_once(body, yields)) {
            check_nodes();
            assert_ok(ph_graph_replay(graph, world.stream));
        }
        assert_ok(ph_graph_reset(graph));
    }
    atomic_store(&s->stop, true);
    pthread_join(thread, NULL);
    if (s->failure[0])
        fail_msg("%s", s->failure);
    assert_int_equal(t_log_count("pageable"), 0);
}

TEST(test_all_at_full_speed)
{
    static submitter s; /* outlives a failed assertion */
    static int yields;
    s.stream = world.stream;
    assert_ok(ph_graph_create(&s.graph, NULL));
    assert_ok(ph_graph_capture(s.graph, world.stream, NULL, add_one, NULL));
    capture_beside(&s, linger, &yields);
    ph_graph_destroy(s.graph);
}

static submitter on_side;

static ph_status join_side(ph_stream *stream, void *user)
{
    PH_TRY(ph_stream_wait_stream(on_side.stream, stream));
    PH_TRY(linger(stream, user));
    return ph_stream_wait_stream(stream, on_side.stream);
}

TEST(test_all_on_a_stream_that_joins)
{
    static int yields;
    assert_ok(ph_stream_create(&on_side.stream, world.device, NULL));
    assert_ok(ph_graph_create(&on_side.graph, NULL));
    assert_ok(ph_graph_capture(on_side.graph, on_side.stream, NULL, add_one, NULL));
    capture_beside(&on_side, join_side, &yields);
    ph_graph_destroy(on_side.graph);
    ph_stream_destroy(on_side.stream);
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
        IN_WORLD(test_replay),
        IN_WORLD(test_upload),
        IN_WORLD(test_join),
        IN_WORLD(test_external_events_as_a_capture_ends),
        IN_WORLD(test_replay_as_a_capture_ends),
        IN_WORLD(test_all_at_full_speed),
        IN_WORLD(test_all_on_a_stream_that_joins),
    };
    return cmocka_run_group_tests_name("threads.windows", tests, NULL, NULL);
}
