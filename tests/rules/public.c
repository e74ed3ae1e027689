/* SPDX-License-Identifier: MIT */
/* tests/rules/public.c: walks the public column of the capture rules: every row that a public
 * call reaches, from the capturing thread and from another one, in the three modes. A refused
 * call must leave the capture alive. */
#include "base/sync.h"
#include "driver/rules.h"
#include "support/support.h"
#include "support/test.h"
#include <stdio.h>
#include <string.h>

enum {
    N = 256
};

/* One capture that is open on `capturing`, and what the calls need around it. */
typedef struct scene {
    t_world world;
    ph_stream *capturing, *other, *spare;
    ph_graph *graph;            /* capturing */
    ph_graph *ready, *twin;     /* two graphs of one kernel, READY */
    ph_graph *kept;             /* keep_graph, ENDED */
    ph_graph *second;           /* NEW */
    ph_graph *deferred;         /* READY, not uploaded */
    ph_event *plain, *timed[2]; /* recorded before the capture, complete */
    ph_event *inside;           /* recorded in the capture */
    ph_event *inside_timed;     /* the same, with timing */
    ph_event *outside_capture;  /* recorded in another capture, open on `spare` */
    ph_graph *merge;            /* that other capture */
    ph_event *external;
    ph_kernel *extra;
    int32_t *memory;          /* device, N words */
    int32_t *pinned, *doomed; /* pinned, N words; another block, to be freed */
    int32_t *block;           /* device block, to be freed */
    bool merge_open;
} scene;

typedef ph_status (*call_fn)(scene *s);

static ph_status one_kernel(ph_stream *stream, void *user)
{
    scene *s = user;
    return t_fill(&s->world, stream, s->memory, N, 1);
}

static void open_scene(scene *s, bool blocking)
{
    memset(s, 0, sizeof *s);
    t_open(&s->world, NULL);
    ph_device *device = s->world.device;
    ph_stream_options options = {.blocking = blocking};
    assert_ok(ph_stream_create(&s->capturing, device, &options));
    assert_ok(ph_stream_create(&s->other, device, NULL));
    assert_ok(ph_stream_create(&s->spare, device, NULL));
    assert_ok(PH_NEW(&s->memory, N, s->other));
    assert_ok(PH_NEW(&s->block, N, s->other));
    assert_ok(ph_malloc_pinned(&s->pinned, N, sizeof *s->pinned, s->other));
    assert_ok(ph_malloc_pinned(&s->doomed, N, sizeof *s->doomed, s->other));
    memset(s->pinned, 0, N * sizeof *s->pinned);
    ph_graph_options keep = {.keep_graph = true}, defer = {.defer_upload = true};
    assert_ok(ph_graph_create(&s->graph, NULL));
    assert_ok(ph_graph_create(&s->second, NULL));
    assert_ok(ph_graph_create(&s->ready, NULL));
    assert_ok(ph_graph_create(&s->twin, NULL));
    assert_ok(ph_graph_create(&s->kept, &keep));
    assert_ok(ph_graph_create(&s->merge, NULL));
    assert_ok(ph_graph_create(&s->deferred, &defer));
    assert_ok(ph_graph_capture(s->ready, s->other, NULL, one_kernel, s));
    assert_ok(ph_graph_capture(s->twin, s->other, NULL, one_kernel, s));
    assert_ok(ph_graph_capture(s->kept, s->other, NULL, one_kernel, s));
    assert_ok(ph_graph_capture(s->deferred, s->other, NULL, one_kernel, s));
    ph_event_options timing = {.timing = true}, external = {.external = true};
    assert_ok(ph_event_create(&s->plain, device, NULL));
    assert_ok(ph_event_create(&s->inside, device, NULL));
    assert_ok(ph_event_create(&s->outside_capture, device, NULL));
    assert_ok(ph_event_create(&s->external, device, &external));
    assert_ok(ph_event_create(&s->inside_timed, device, &timing));
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_event_create(&s->timed[i], device, &timing));
        assert_ok(ph_event_record(s->timed[i], s->other));
    }
    assert_ok(ph_event_record(s->plain, s->other));
    assert_ok(ph_event_record(s->external, s->other));
    assert_ok(ph_device_synchronize(device));
}

static void close_scene(scene *s)
{
    ph_graph *graphs[] = {s->graph, s->second, s->ready, s->twin, s->kept, s->merge, s->deferred};
    for (size_t i = 0; i < sizeof graphs / sizeof graphs[0]; i++)
        ph_graph_destroy(graphs[i]);
    ph_event *events[] = {s->plain,    s->inside,   s->inside_timed, s->outside_capture,
                          s->external, s->timed[0], s->timed[1]};
    for (size_t i = 0; i < sizeof events / sizeof events[0]; i++)
        ph_event_destroy(events[i]);
    ph_kernel_release(s->extra);
    ph_free(s->memory, NULL);
    ph_free(s->block, NULL);
    ph_free_pinned(s->pinned, NULL);
    ph_free_pinned(s->doomed, NULL);
    ph_stream_destroy(s->capturing);
    ph_stream_destroy(s->other);
    ph_stream_destroy(s->spare);
    t_close(&s->world);
}

/* ---- the calls ---- */
static ph_status launch_capturing(scene *s)
{
    return t_fill(&s->world, s->capturing, s->memory, N, 2);
}
static ph_status launch_other(scene *s)
{
    return t_fill(&s->world, s->other, s->memory, N, 2);
}
static ph_status launch_legacy(scene *s)
{
    return t_fill(&s->world, ph_device_default_stream(s->world.device), s->memory, N, 2);
}
static ph_status copy_capturing(scene *s)
{
    return ph_memcpy(s->memory, s->pinned, N * sizeof(int32_t), s->capturing);
}
static ph_status copy_pageable(scene *s)
{
    int32_t pageable[N] = {0};
    return ph_memcpy(s->memory, pageable, sizeof pageable, s->capturing);
}
static ph_status copy_other(scene *s)
{
    return ph_memcpy(s->memory, s->pinned, N * sizeof(int32_t), s->other);
}
static ph_status copy_legacy(scene *s)
{
    return ph_memcpy(s->memory, s->pinned, N * sizeof(int32_t),
                     ph_device_default_stream(s->world.device));
}
static ph_status fill_capturing(scene *s)
{
    return ph_memset(s->memory, 1, N, s->capturing);
}
static ph_status fill_other(scene *s)
{
    return ph_memset_u32(s->memory, 1, N, s->other);
}
static ph_status fill_legacy(scene *s)
{
    return ph_memset(s->memory, 1, N, ph_device_default_stream(s->world.device));
}
static void nothing(void *user)
{
    (void)user;
}
static ph_status host_capturing(scene *s)
{
    return ph_launch_host(s->capturing, nothing, NULL);
}
static ph_status host_other(scene *s)
{
    return ph_launch_host(s->other, nothing, NULL);
}
static ph_status host_legacy(scene *s)
{
    return ph_launch_host(ph_device_default_stream(s->world.device), nothing, NULL);
}
static ph_status event_create(scene *s)
{
    ph_event *event;
    ph_status status = ph_event_create(&event, s->world.device, NULL);
    ph_event_destroy(event);
    return status;
}
static ph_status event_destroy(scene *s)
{
    ph_event_destroy(s->plain);
    s->plain = NULL;
    return PH_OK;
}
static ph_status record_capturing(scene *s)
{
    return ph_event_record(s->plain, s->capturing);
}
static ph_status record_other(scene *s)
{
    return ph_event_record(s->plain, s->other);
}
static ph_status record_legacy(scene *s)
{
    return ph_event_record(s->plain, ph_device_default_stream(s->world.device));
}
static ph_status query_captured(scene *s)
{
    bool done;
    return ph_event_query(&done, s->inside);
}
static ph_status sync_captured(scene *s)
{
    return ph_event_synchronize(s->inside);
}
static ph_status elapsed_captured(scene *s)
{
    float ms;
    return ph_event_elapsed(&ms, s->inside_timed, s->inside_timed);
}
static ph_status query_other(scene *s)
{
    bool done;
    return ph_event_query(&done, s->plain);
}
static ph_status sync_other(scene *s)
{
    return ph_event_synchronize(s->plain);
}
static ph_status elapsed_other(scene *s)
{
    float ms;
    return ph_event_elapsed(&ms, s->timed[0], s->timed[1]);
}
static ph_status wait_join(scene *s)
{
    PH_TRY(ph_stream_wait_event(s->other, s->inside));
    PH_TRY(launch_other(s));
    return ph_stream_wait_stream(s->capturing, s->other);
}
static ph_status wait_merge(scene *s)
{
    return ph_stream_wait_event(s->capturing, s->outside_capture);
}
static ph_status wait_isolation(scene *s)
{
    return ph_stream_wait_event(s->capturing, s->plain);
}
static ph_status wait_legacy(scene *s)
{
    return ph_stream_wait_event(ph_device_default_stream(s->world.device), s->inside);
}
static ph_status wait_other(scene *s)
{
    return ph_stream_wait_event(s->other, s->plain);
}
static ph_status wait_external(scene *s)
{
    return ph_stream_wait_event(s->capturing, s->external);
}
static ph_status record_external(scene *s)
{
    return ph_event_record(s->external, s->capturing);
}
static ph_status stream_create(scene *s)
{
    ph_stream *stream;
    ph_status status = ph_stream_create(&stream, s->world.device, NULL);
    ph_stream_destroy(stream);
    return status;
}
static ph_status stream_destroy(scene *s)
{
    ph_stream_destroy(s->spare);
    s->spare = NULL;
    return PH_OK;
}
static ph_status stream_query_capturing(scene *s)
{
    bool done;
    return ph_stream_query(&done, s->capturing);
}
static ph_status stream_sync_capturing(scene *s)
{
    return ph_stream_synchronize(s->capturing);
}
static ph_status stream_query_other(scene *s)
{
    bool done;
    return ph_stream_query(&done, s->other);
}
static ph_status stream_sync_other(scene *s)
{
    return ph_stream_synchronize(s->other);
}
static ph_status device_sync(scene *s)
{
    return ph_device_synchronize(s->world.device);
}
static ph_status is_capturing(scene *s)
{
    if (!ph_stream_is_capturing(s->capturing) || ph_stream_is_capturing(s->other))
        return ph_fail(PH_ERROR_CALLER, "the wrong stream is capturing");
    return PH_OK;
}
static ph_status pinned_alloc(scene *s)
{
    void *pointer;
    ph_status status = ph_malloc_pinned(&pointer, 1, 5u << 20, s->other);
    ph_free_pinned(pointer, s->other);
    return status;
}
static ph_status pinned_free(scene *s)
{
    ph_free_pinned(s->doomed, NULL);
    s->doomed = NULL;
    return PH_OK;
}
static ph_status segment_create(scene *s)
{
    void *pointer;
    ph_status status = ph_malloc(&pointer, 1, 32u << 20, s->other);
    ph_free(pointer, s->other);
    return status;
}
static ph_status segment_destroy(scene *s)
{
    ph_free(s->block, NULL);
    s->block = NULL;
    return ph_memory_trim(s->world.device);
}
static ph_status pointer_info(scene *s)
{
    ph_allocation allocation;
    return ph_memory_lookup(&allocation, s->world.device, s->memory);
}
static ph_status device_info(scene *s)
{
    ph_device_info info;
    return ph_device_get_info(&info, s->world.device);
}
static ph_status kernel_create(scene *s)
{
    return ph_kernel_create(&s->extra, s->world.device, &t_kernel_sources[T_KERNEL_ADD_ONE]);
}
static ph_status kernel_destroy(scene *s)
{
    PH_TRY(kernel_create(s));
    ph_kernel_release(s->extra);
    s->extra = NULL;
    return PH_OK;
}
static ph_status begin_again(scene *s)
{
    return ph_graph_capture_begin(s->second, s->capturing, NULL);
}
static ph_status begin_other(scene *s)
{
    PH_TRY(ph_graph_capture_begin(s->second, s->other, NULL));
    PH_TRY(launch_other(s));
    return ph_graph_capture_end(s->second, PH_OK);
}
static ph_status begin_legacy(scene *s)
{
    return ph_graph_capture_begin(s->second, ph_device_default_stream(s->world.device), NULL);
}
static ph_status end_wrong_thread(scene *s)
{
    return ph_graph_capture_end(s->graph, PH_OK);
}
static ph_status instantiate(scene *s)
{
    return ph_graph_instantiate(s->kept);
}
static ph_status replay_other(scene *s)
{
    return ph_graph_replay(s->ready, s->other);
}
static ph_status replay_capturing(scene *s)
{
    return ph_graph_replay(s->ready, s->capturing);
}
static ph_status no_values(uint64_t *values, void *user)
{
    (void)user;
    values[0] = 0;
    return PH_OK;
}
static ph_status cells_create(scene *s)
{
    uint64_t *cell;
    const ph_cells_source source = {.count = 1, .values = no_values};
    return ph_cells_create(&cell, s->capturing, &source);
}
static ph_status cells_require(scene *s)
{
    PH_TRY(cells_create(s));
    return ph_cells_require(s->capturing);
}
static ph_status replay_legacy(scene *s)
{
    return ph_graph_replay(s->ready, ph_device_default_stream(s->world.device));
}
static ph_status upload_other(scene *s)
{
    return ph_graph_upload(s->deferred, s->other);
}
static ph_status upload_capturing(scene *s)
{
    return ph_graph_upload(s->deferred, s->capturing);
}
static ph_status upload_legacy(scene *s)
{
    return ph_graph_upload(s->deferred, ph_device_default_stream(s->world.device));
}
static ph_status set_enabled(scene *s)
{
    return ph_graph_node_set_enabled(s->ready, 0, false);
}
static ph_status destroy_graph(scene *s)
{
    ph_graph_destroy(s->kept);
    s->kept = NULL;
    return PH_OK;
}
static ph_status update(scene *s)
{
    return ph_graph_update(s->ready, s->twin, NULL);
}
static ph_status set_launch(scene *s)
{
    struct t_fill_i32 args = {N, s->memory, 3};
    ph_launch_config config = t_config(N);
    return ph_graph_node_set_launch(s->ready, 0, &config, &args, sizeof args);
}
static ph_status reset_ready(scene *s)
{
    return ph_graph_reset(s->ready);
}

/* blocking: the capturing stream is ordered against the default stream. nodes: what a recorded
 * call adds. merge: a second capture is open on `spare`, begun relaxed by the capturing thread. */
static const struct row_call {
    ph__rule rule;
    call_fn call;
    bool blocking, merge;
    size_t nodes;
} row_calls[] = {
    {PH__RULE_LAUNCH_CAPTURING, launch_capturing, false, false, 1},
    {PH__RULE_LAUNCH_OTHER, launch_other, false, false, 0},
    {PH__RULE_LAUNCH_LEGACY, launch_legacy, false, false, 0},
    {PH__RULE_LAUNCH_LEGACY_BLOCKING, launch_legacy, true, false, 0},
    {PH__RULE_COPY_CAPTURING, copy_capturing, false, false, 1},
    {PH__RULE_COPY_PAGEABLE_CAPTURING, copy_pageable, false, false, 0},
    {PH__RULE_COPY_OTHER, copy_other, false, false, 0},
    {PH__RULE_COPY_LEGACY_BLOCKING, copy_legacy, true, false, 0},
    {PH__RULE_FILL_CAPTURING, fill_capturing, false, false, 1},
    {PH__RULE_FILL_OTHER, fill_other, false, false, 0},
    {PH__RULE_FILL_LEGACY_BLOCKING, fill_legacy, true, false, 0},
    {PH__RULE_HOST_CAPTURING, host_capturing, false, false, 1},
    {PH__RULE_HOST_OTHER, host_other, false, false, 0},
    {PH__RULE_HOST_LEGACY_BLOCKING, host_legacy, true, false, 0},
    {PH__RULE_EVENT_CREATE, event_create, false, false, 0},
    {PH__RULE_EVENT_DESTROY, event_destroy, false, false, 0},
    {PH__RULE_EVENT_RECORD_CAPTURING, record_capturing, false, false, 0},
    {PH__RULE_EVENT_RECORD_OTHER, record_other, false, false, 0},
    {PH__RULE_EVENT_RECORD_LEGACY_BLOCKING, record_legacy, true, false, 0},
    {PH__RULE_EVENT_QUERY_CAPTURED, query_captured, false, false, 0},
    {PH__RULE_EVENT_SYNC_CAPTURED, sync_captured, false, false, 0},
    {PH__RULE_EVENT_ELAPSED_CAPTURED, elapsed_captured, false, false, 0},
    {PH__RULE_EVENT_QUERY_OTHER, query_other, false, false, 0},
    {PH__RULE_EVENT_SYNC_OTHER, sync_other, false, false, 0},
    {PH__RULE_EVENT_ELAPSED_OTHER, elapsed_other, false, false, 0},
    {PH__RULE_WAIT_JOIN, wait_join, false, false, 1},
    {PH__RULE_WAIT_MERGE, wait_merge, false, true, 0},
    {PH__RULE_WAIT_ISOLATION, wait_isolation, false, false, 0},
    {PH__RULE_WAIT_LEGACY, wait_legacy, false, false, 0},
    {PH__RULE_WAIT_OTHER, wait_other, false, false, 0},
    {PH__RULE_WAIT_EXTERNAL, wait_external, false, false, 1},
    {PH__RULE_RECORD_EXTERNAL, record_external, false, false, 1},
    {PH__RULE_STREAM_CREATE, stream_create, false, false, 0},
    {PH__RULE_STREAM_DESTROY, stream_destroy, false, false, 0},
    {PH__RULE_STREAM_QUERY_CAPTURING, stream_query_capturing, false, false, 0},
    {PH__RULE_STREAM_SYNC_CAPTURING, stream_sync_capturing, false, false, 0},
    {PH__RULE_STREAM_QUERY_OTHER, stream_query_other, false, false, 0},
    {PH__RULE_STREAM_SYNC_OTHER, stream_sync_other, false, false, 0},
    {PH__RULE_DEVICE_SYNC, device_sync, false, false, 0},
    {PH__RULE_IS_CAPTURING, is_capturing, false, false, 0},
    {PH__RULE_PINNED_ALLOC, pinned_alloc, false, false, 0},
    {PH__RULE_PINNED_FREE, pinned_free, false, false, 0},
    {PH__RULE_SEGMENT_CREATE, segment_create, false, false, 0},
    {PH__RULE_SEGMENT_DESTROY, segment_destroy, false, false, 0},
    {PH__RULE_POINTER_INFO, pointer_info, false, false, 0},
    {PH__RULE_DEVICE_INFO, device_info, false, false, 0},
    {PH__RULE_KERNEL_CREATE, kernel_create, false, false, 0},
    {PH__RULE_KERNEL_DESTROY, kernel_destroy, false, false, 0},
    {PH__RULE_BEGIN_AGAIN, begin_again, false, false, 0},
    {PH__RULE_BEGIN_OTHER, begin_other, false, false, 0},
    {PH__RULE_BEGIN_LEGACY, begin_legacy, false, false, 0},
    {PH__RULE_END_WRONG_THREAD, end_wrong_thread, false, false, 0},
    {PH__RULE_INSTANTIATE, instantiate, false, false, 0},
    {PH__RULE_EXEC_LAUNCH_OTHER, replay_other, false, false, 0},
    {PH__RULE_EXEC_LAUNCH_CAPTURING, replay_capturing, false, false, 1},
    {PH__RULE_CHILD, replay_capturing, false, false, 1},
    {PH__RULE_ROOT, cells_create, false, false, 1},
    {PH__RULE_DEPEND, cells_require, false, false, 1},
    {PH__RULE_EXEC_LAUNCH_LEGACY_BLOCKING, replay_legacy, true, false, 0},
    {PH__RULE_EXEC_UPLOAD_OTHER, upload_other, false, false, 0},
    {PH__RULE_EXEC_UPLOAD_CAPTURING, upload_capturing, false, false, 0},
    {PH__RULE_EXEC_UPLOAD_LEGACY_BLOCKING, upload_legacy, true, false, 0},
    {PH__RULE_EXEC_UPDATE, update, false, false, 0},
    {PH__RULE_EXEC_ENABLE, set_enabled, false, false, 0},
    {PH__RULE_GRAPH_DESTROY, destroy_graph, false, false, 0},
    {PH__RULE_EXEC_SET, set_launch, false, false, 0},
    {PH__RULE_EXEC_DESTROY, reset_ready, false, false, 0},
};

static void begin_captures(scene *s, const struct row_call *row, ph_capture_mode mode)
{
    if (row->merge) {
        ph_capture_options relaxed = {.mode = PH_CAPTURE_RELAXED};
        assert_ok(ph_graph_capture_begin(s->merge, s->spare, &relaxed));
        assert_ok(t_fill(&s->world, s->spare, s->memory, N, 1));
        assert_ok(ph_event_record(s->outside_capture, s->spare));
        s->merge_open = true;
    }
    ph_capture_options options = {.mode = mode};
    assert_ok(ph_graph_capture_begin(s->graph, s->capturing, &options));
    assert_ok(launch_capturing(s));
    assert_ok(ph_event_record(s->inside, s->capturing));
    assert_ok(ph_event_record(s->inside_timed, s->capturing));
}

/* Makes the call on this or another thread and keeps the outcome, the thread's record included. */
typedef struct outcome {
    scene *s;
    call_fn call;
    ph_status status;
    ph_error error;
} outcome;

static void *make_call(void *argument)
{
    outcome *o = argument;
    o->status = o->call(o->s);
    o->error = *ph_error_last();
    return NULL;
}

static void call_on(outcome *o, bool same_thread)
{
    if (same_thread) {
        make_call(o);
        return;
    }
    pthread_t thread;
    assert_true(ph__thread_start(&thread, "caller", make_call, o));
    pthread_join(thread, NULL);
}

static void check_outcome(const struct row_call *row, const outcome *o, int expected,
                          const char *where)
{
    if (expected <= 0) {
        if (o->status != PH_OK)
            fail_msg("%s: %s: %s", ph__rules[row->rule].id, where, o->error.message);
        return;
    }
    int number = expected % PH__KEEPS;
    if (o->status == PH_OK || o->error.native_code != number)
        fail_msg("%s: %s: wanted %d, got status %d, native %d: %s", ph__rules[row->rule].id, where,
                 number, (int)o->status, o->error.native_code, o->error.message);
    if (strlen(o->error.message) < 20)
        fail_msg("%s: %s: the message says nothing: \"%s\"", ph__rules[row->rule].id, where,
                 o->error.message);
}

/* The capture must have survived: it takes one more node and ends well, with the nodes that were
 * recorded. */
static void check_survival(scene *s, const struct row_call *row, int expected)
{
    size_t nodes = 2 + (expected == PH__RECORDED ? row->nodes : 0);
    assert_ok(launch_capturing(s));
    assert_ok(ph_graph_capture_end(s->graph, PH_OK));
    const ph_record *record;
    assert_ok(ph_graph_record(&record, s->graph));
    if (ph_record_node_count(record) != nodes)
        fail_msg("%s: %zu nodes, expected %zu", ph__rules[row->rule].id,
                 ph_record_node_count(record), nodes);
    if (s->merge_open)
        assert_ok(ph_graph_capture_end(s->merge, PH_OK));
    assert_ok(
        /* whatever was allowed to run writes the same memory */
        ph_device_synchronize(s->world.device));
    assert_ok(ph_graph_replay(s->graph, s->other));
    assert_ok(ph_stream_synchronize(s->other));
}

/* END_WRONG_THREAD is about the capture's own end: allowed means that it ended. */
static void check_end(scene *s, const outcome *o, int expected)
{
    if (expected == 0) {
        assert_ok(o->status);
        assert_int_equal(ph_graph_get_state(s->graph), PH_GRAPH_READY);
        return;
    }
    assert_int_equal(o->status, PH_ERROR_CAPTURE);
    assert_int_equal(o->error.native_code, 908);
    assert_int_equal(ph_graph_get_state(s->graph), PH_GRAPH_FAILED);
    assert_true(ph_stream_is_capturing(s->capturing));
    assert_int_equal(ph_graph_capture_end(s->graph, PH_OK), PH_ERROR_CAPTURE);
    assert_false(ph_stream_is_capturing(s->capturing));
}

static void walk(bool same_thread, ph_capture_mode mode)
{
    char where[64];
    (void)snprintf(where, sizeof where, "%s thread, mode %d", same_thread ? "same" : "other",
                   (int)mode);
    for (size_t i = 0; i < sizeof row_calls / sizeof row_calls[0]; i++) {
        const struct row_call *row = &row_calls[i];
        scene s;
        open_scene(&s, row->blocking);
        begin_captures(&s, row, mode);
        outcome o = {.s = &s, .call = row->call};
        call_on(&o, same_thread);
        int expected = ph__rules[row->rule].public_[same_thread ? 0 : 1][mode];
        if (row->rule == PH__RULE_END_WRONG_THREAD) {
            check_end(&s, &o, expected);
        } else {
            check_outcome(row, &o, expected, where);
            check_survival(&s, row, expected);
        }
        close_scene(&s);
    }
}

TEST(every_row_has_a_call)
{
    for (int rule = 0; rule < PH__RULE_COUNT; rule++) {
        bool found = strcmp(ph__rules[rule].public_call, "-") == 0;
        for (size_t i = 0; i < sizeof row_calls / sizeof row_calls[0]; i++)
            found = found || (int)row_calls[i].rule == rule;
        if (!found)
            fail_msg("row %s has no call in this test", ph__rules[rule].id);
    }
}

#define WALK(name, same, mode)                                                                     \
    TEST(name)                                                                                     \
    {                                                                                              \
        walk(same, mode);                                                                          \
    }
WALK(same_thread_global, true, PH_CAPTURE_GLOBAL)
WALK(same_thread_thread_local, true, PH_CAPTURE_THREAD_LOCAL)
WALK(same_thread_relaxed, true, PH_CAPTURE_RELAXED)
WALK(other_thread_global, false, PH_CAPTURE_GLOBAL)
WALK(other_thread_thread_local, false, PH_CAPTURE_THREAD_LOCAL)
WALK(other_thread_relaxed, false, PH_CAPTURE_RELAXED)

/* The thread's own mode, as cuThreadExchangeStreamCaptureMode: potentially unsafe calls pass
 * when it is relaxed. */
TEST(exchanged_thread_mode)
{
    scene s;
    bool done;
    open_scene(&s, false);
    assert_ok(ph_graph_capture_begin(s.graph, s.capturing, NULL));
    assert_status(ph_stream_query(&done, s.other), PH_ERROR_CAPTURE);
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    assert_ok(ph_thread_exchange_capture_mode(&mode));
    assert_int_equal(mode, PH_CAPTURE_GLOBAL);
    assert_ok(ph_stream_query(&done, s.other));
    assert_status(ph_device_synchronize(s.world.device), PH_ERROR_CAPTURE);
    assert_ok(ph_thread_exchange_capture_mode(&mode));
    assert_int_equal(mode, PH_CAPTURE_RELAXED);
    assert_status(ph_stream_query(&done, s.other), PH_ERROR_CAPTURE);
    mode = (ph_capture_mode)7;
    assert_status(ph_thread_exchange_capture_mode(&mode), PH_ERROR_ARGUMENT);
    assert_ok(launch_capturing(&s));
    assert_ok(ph_graph_capture_end(s.graph, PH_OK));
    close_scene(&s);
}

int main(void)
{
    t_hold_context();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_a_call),     cmocka_unit_test(same_thread_global),
        cmocka_unit_test(same_thread_thread_local), cmocka_unit_test(same_thread_relaxed),
        cmocka_unit_test(other_thread_global),      cmocka_unit_test(other_thread_thread_local),
        cmocka_unit_test(other_thread_relaxed),     cmocka_unit_test(exchanged_thread_mode),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
