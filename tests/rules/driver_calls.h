/* SPDX-License-Identifier: MIT */
/* tests/rules/driver_calls.h: the call of each row of the capture rules, at the driver. */
#ifndef PH_TESTS_RULES_DRIVER_CALLS_H
#define PH_TESTS_RULES_DRIVER_CALLS_H
#include "driver/rules.h"
#include "rules/any_driver.h"

/* What rows need; all of it is there before the capture begins, but for the events named
 * captured. */
typedef struct scene {
    world w;
    ph__drv_stream *stream;        /* captures; blocking where the row says so */
    ph__drv_stream *other, *spare; /* non-blocking, never in the capture at first */
    ph__drv_stream *legacy;
    ph__drv_event *outside[2]; /* timing; recorded and done before the capture */
    ph__drv_event *captured;   /* timing; recorded in the capture */
    ph__drv_event *fresh;      /* never recorded */
    ph__drv_kernel *kernel;
    void *plain, *pinned, *segment;
    ph__drv_graph *template, *variant; /* of one shape */
    ph__drv_exec *exec;
    ph__drv_graph *ended;        /* where the row's call ends the capture itself */
    ph_capture_mode thread_mode; /* of the calling thread */
    ph__rule rule;
    int result;
} scene;

enum {
    SEGMENT = 2 << 20,
    CONFUSED = -1000 /* a call did something else than its row needs */
};

static int32_t pageable[4];

/* ---- the calls ---- */

static int launch_capturing(scene *s)
{
    return launch_add(&s->w, s->stream, 0, 1, 1);
}

static int launch_other(scene *s)
{
    return launch_add(&s->w, s->other, 0, 1, 1);
}

static int launch_legacy(scene *s)
{
    return launch_add(&s->w, s->legacy, 0, 1, 1);
}

static int copy_on(scene *s, ph__drv_stream *stream, const void *source)
{
    const ph__drv_memcpy copy = {.dst = s->w.words, .src = source, .bytes = 16};
    return drv->copy(stream, &copy, NULL);
}

static int copy_capturing(scene *s)
{
    return copy_on(s, s->stream, s->pinned);
}

static int copy_pageable_capturing(scene *s)
{
    return copy_on(s, s->stream, pageable);
}

static int copy_other(scene *s)
{
    return copy_on(s, s->other, s->pinned);
}

static int copy_legacy(scene *s)
{
    return copy_on(s, s->legacy, s->pinned);
}

static int copy_sync(scene *s)
{
    const ph__drv_memcpy copy = {.dst = s->w.words, .src = pageable, .bytes = sizeof pageable};
    return drv->copy_sync(s->w.device, &copy);
}

static int fill_on(scene *s, ph__drv_stream *stream)
{
    const ph__drv_memset fill = {.dst = s->w.words, .value_size = 1, .count = 16};
    return drv->fill(stream, &fill);
}

static int fill_capturing(scene *s)
{
    return fill_on(s, s->stream);
}

static int fill_other(scene *s)
{
    return fill_on(s, s->other);
}

static int fill_legacy(scene *s)
{
    return fill_on(s, s->legacy);
}

static void host_body(void *user)
{
    (void)user;
}

static int host_on(ph__drv_stream *stream)
{
    const ph__drv_host host = {.fn = host_body};
    return drv->host(stream, &host);
}

static int host_capturing(scene *s)
{
    return host_on(s->stream);
}

static int host_other(scene *s)
{
    return host_on(s->other);
}

static int host_legacy(scene *s)
{
    return host_on(s->legacy);
}

static int event_create(scene *s)
{
    ph__drv_event *event;
    int result = drv->event_create(&event, s->w.device, 0);
    if (!result)
        drv->event_destroy(event);
    return result;
}

static int event_destroy(scene *s)
{
    drv->event_destroy(s->fresh);
    s->fresh = NULL;
    return 0;
}

static int event_record_capturing(scene *s)
{
    return drv->event_record(s->fresh, s->stream, 0);
}

static int event_record_other(scene *s)
{
    return drv->event_record(s->fresh, s->other, 0);
}

static int event_record_legacy(scene *s)
{
    return drv->event_record(s->fresh, s->legacy, 0);
}

static int event_query_captured(scene *s)
{
    return drv->event_query(s->captured);
}

static int event_sync_captured(scene *s)
{
    return drv->event_synchronize(s->captured);
}

static int event_elapsed_captured(scene *s)
{
    float milliseconds;
    return drv->event_elapsed(&milliseconds, s->outside[0], s->captured);
}

static int event_query_other(scene *s)
{
    return drv->event_query(s->outside[0]);
}

static int event_sync_other(scene *s)
{
    return drv->event_synchronize(s->outside[0]);
}

static int event_elapsed_other(scene *s)
{
    float milliseconds;
    return drv->event_elapsed(&milliseconds, s->outside[0], s->outside[1]);
}

static int wait_join(scene *s)
{
    int result = drv->stream_wait_event(s->other, s->captured, 0);
    ph__drv_capture capture;
    if (!result && (drv->capture_get(&capture, s->other) || capture.status != PH_CAPTURE_ACTIVE))
        return CONFUSED;
    return result;
}

/* The second capture is relaxed, so that nothing but the merge can touch it, and dies too. */
static int wait_merge(scene *s)
{
    if (drv->capture_begin(s->other, PH_CAPTURE_RELAXED) ||
        drv->event_record(s->fresh, s->other, 0))
        return CONFUSED;
    int result = drv->stream_wait_event(s->stream, s->fresh, 0);
    ph__drv_capture capture;
    if (drv->capture_get(&capture, s->other) || capture.status != PH_CAPTURE_INVALIDATED)
        return CONFUSED;
    drv->capture_drop(s->other);
    return result;
}

static int wait_isolation(scene *s)
{
    return drv->stream_wait_event(s->stream, s->outside[0], 0);
}

static int wait_legacy(scene *s)
{
    return drv->stream_wait_event(s->legacy, s->captured, 0);
}

static int wait_other(scene *s)
{
    return drv->stream_wait_event(s->other, s->outside[0], 0);
}

static int wait_external(scene *s)
{
    return drv->stream_wait_event(s->stream, s->outside[0], PH__EVENT_RECORD_EXTERNAL);
}

static int record_external(scene *s)
{
    return drv->event_record(s->fresh, s->stream, PH__EVENT_RECORD_EXTERNAL);
}

static int stream_create(scene *s)
{
    ph__drv_stream *stream;
    int result = drv->stream_create(&stream, s->w.device, PH__STREAM_BLOCKING, 0);
    if (!result)
        drv->stream_destroy(stream);
    return result;
}

static int stream_destroy(scene *s)
{
    drv->stream_destroy(s->spare);
    s->spare = NULL;
    return 0;
}

static int stream_query_capturing(scene *s)
{
    return drv->stream_query(s->stream);
}

static int stream_sync_capturing(scene *s)
{
    return drv->stream_synchronize(s->stream);
}

static int stream_query_other(scene *s)
{
    return drv->stream_query(s->other);
}

static int stream_sync_other(scene *s)
{
    return drv->stream_synchronize(s->other);
}

static int device_sync(scene *s)
{
    return drv->device_synchronize(s->w.device);
}

static int is_capturing(scene *s)
{
    ph__drv_capture capture;
    int result = drv->capture_get(&capture, s->stream);
    return !result && capture.status != PH_CAPTURE_ACTIVE ? CONFUSED : result;
}

/* What was allocated is given back when the capture is over. */
static int plain_alloc(scene *s)
{
    void *before = s->plain;
    int result = drv->plain_alloc(&s->plain, s->w.device, 4096);
    if (result)
        return result;
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    if (drv->thread_exchange_mode(s->w.device, &mode) || drv->plain_free(s->w.device, before) ||
        drv->thread_exchange_mode(s->w.device, &mode))
        return CONFUSED;
    return result;
}

static int plain_free(scene *s)
{
    int result = drv->plain_free(s->w.device, s->plain);
    if (!result)
        s->plain = NULL;
    return result;
}

static int pinned_alloc(scene *s)
{
    void *before = s->pinned;
    int result = drv->pinned_alloc(&s->pinned, s->w.device, 4096);
    if (result)
        return result;
    ph_capture_mode mode = PH_CAPTURE_RELAXED;
    if (drv->thread_exchange_mode(s->w.device, &mode) || drv->pinned_free(s->w.device, before) ||
        drv->thread_exchange_mode(s->w.device, &mode))
        return CONFUSED;
    return result;
}

static int pinned_free(scene *s)
{
    int result = drv->pinned_free(s->w.device, s->pinned);
    if (!result)
        s->pinned = NULL;
    return result;
}

static int segment_create(scene *s)
{
    void *segment;
    int result = drv->segment_create(&segment, s->w.device, SEGMENT);
    if (!result)
        drv->segment_destroy(s->w.device, segment, SEGMENT);
    return result;
}

static int segment_destroy(scene *s)
{
    drv->segment_destroy(s->w.device, s->segment, SEGMENT);
    s->segment = NULL;
    return 0;
}

static int pointer_info(scene *s)
{
    ph__drv_pointer pointer;
    return drv->pointer_info(&pointer, s->w.device, s->w.words);
}

static int device_info(scene *s)
{
    ph__drv_device_info info;
    return drv->device_info(&info, s->w.device);
}

static int kernel_create(scene *s)
{
    ph__drv_kernel *kernel;
    int result = drv->kernel_create(&kernel, s->w.device, &add_source);
    if (!result)
        drv->kernel_destroy(kernel);
    return result;
}

static int kernel_destroy(scene *s)
{
    drv->kernel_destroy(s->kernel);
    s->kernel = NULL;
    return 0;
}

static int begin_again(scene *s)
{
    return drv->capture_begin(s->stream, PH_CAPTURE_RELAXED);
}

static int begin_other(scene *s)
{
    int result = drv->capture_begin(s->other, PH_CAPTURE_RELAXED);
    if (!result)
        drv->capture_drop(s->other);
    return result;
}

static int begin_legacy(scene *s)
{
    return drv->capture_begin(s->legacy, PH_CAPTURE_RELAXED);
}

static int end_not_capturing(scene *s)
{
    return drv->capture_end(&s->ended, s->other);
}

/* With a fork, which must leave the capture with its origin. */
static int end_capturing(scene *s)
{
    ph__drv_capture capture;
    if (drv->stream_wait_event(s->other, s->captured, 0) || drv->capture_get(&capture, s->other) ||
        capture.status != PH_CAPTURE_ACTIVE)
        return CONFUSED;
    return drv->capture_end(&s->ended, s->stream);
}

static int end_not_origin(scene *s)
{
    if (drv->stream_wait_event(s->other, s->captured, 0))
        return CONFUSED;
    return drv->capture_end(&s->ended, s->other);
}

static int instantiate_template(scene *s)
{
    ph__drv_exec *exec;
    int result = drv->instantiate(&exec, s->template, 0, NULL);
    if (!result)
        drv->exec_destroy(exec);
    return result;
}

static int exec_launch_other(scene *s)
{
    return drv->exec_launch(s->exec, s->other);
}

static int exec_launch_capturing(scene *s)
{
    return drv->exec_launch(s->exec, s->stream);
}

static int add_root(ph__drv_node **out, scene *s)
{
    const struct add_args args = {.words = s->w.words, .scale = 1};
    const ph__drv_launch launch = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .args = &args};
    return drv->capture_root(out, s->stream, s->w.add, &launch);
}

static int root(scene *s)
{
    ph__drv_node *node;
    return add_root(&node, s);
}

static int depend(scene *s)
{
    ph__drv_node *node;
    int result = add_root(&node, s);
    return result ? CONFUSED : drv->capture_depend(s->stream, node);
}

static int child(scene *s)
{
    return drv->child(s->stream, s->template);
}

static int exec_launch_legacy(scene *s)
{
    return drv->exec_launch(s->exec, s->legacy);
}

static int exec_upload_other(scene *s)
{
    return drv->exec_upload(&s->exec, 1, s->other);
}

static int exec_upload_capturing(scene *s)
{
    return drv->exec_upload(&s->exec, 1, s->stream);
}

static int exec_upload_legacy(scene *s)
{
    return drv->exec_upload(&s->exec, 1, s->legacy);
}

static int exec_update(scene *s)
{
    ph__drv_update update;
    return drv->exec_update(s->exec, s->variant, &update);
}

static int exec_set(scene *s)
{
    ph__drv_node *const *nodes;
    size_t count;
    const struct add_args args = {.words = s->w.words};
    const ph__drv_launch launch = {.grid = {1, 1, 1}, .block = {1, 1, 1}, .args = &args};
    if (drv->graph_nodes(&nodes, &count, s->template) || count != 1)
        return CONFUSED;
    return drv->exec_set_kernel(s->exec, nodes[0], &launch);
}

static int exec_destroy(scene *s)
{
    drv->exec_destroy(s->exec);
    s->exec = NULL;
    return 0;
}

static int exec_enable(scene *s)
{
    ph__drv_node *const *nodes;
    size_t count;
    if (drv->graph_nodes(&nodes, &count, s->template) || count != 1)
        return CONFUSED;
    return drv->exec_set_enabled(s->exec, nodes[0], false);
}

static int graph_destroy(scene *s)
{
    drv->graph_destroy(s->variant);
    s->variant = NULL;
    return 0;
}

/* A row without a call fails the test. blocking: the capturing stream is one of the blocking
 * kind. silent: what is recorded is no node. */
static const struct {
    int (*call)(scene *s);
    bool blocking, silent;
} calls[PH__RULE_COUNT] = {
    [PH__RULE_LAUNCH_CAPTURING] = {.call = launch_capturing},
    [PH__RULE_LAUNCH_OTHER] = {.call = launch_other},
    [PH__RULE_LAUNCH_LEGACY] = {.call = launch_legacy},
    [PH__RULE_LAUNCH_LEGACY_BLOCKING] = {.call = launch_legacy, .blocking = true},
    [PH__RULE_COPY_CAPTURING] = {.call = copy_capturing},
    [PH__RULE_COPY_PAGEABLE_CAPTURING] = {.call = copy_pageable_capturing},
    [PH__RULE_COPY_OTHER] = {.call = copy_other},
    [PH__RULE_COPY_LEGACY_BLOCKING] = {.call = copy_legacy, .blocking = true},
    [PH__RULE_COPY_SYNC] = {.call = copy_sync},
    [PH__RULE_COPY_SYNC_BLOCKING] = {.call = copy_sync, .blocking = true},
    [PH__RULE_FILL_CAPTURING] = {.call = fill_capturing},
    [PH__RULE_FILL_OTHER] = {.call = fill_other},
    [PH__RULE_FILL_LEGACY_BLOCKING] = {.call = fill_legacy, .blocking = true},
    [PH__RULE_HOST_CAPTURING] = {.call = host_capturing},
    [PH__RULE_HOST_OTHER] = {.call = host_other},
    [PH__RULE_HOST_LEGACY_BLOCKING] = {.call = host_legacy, .blocking = true},
    [PH__RULE_EVENT_CREATE] = {.call = event_create},
    [PH__RULE_EVENT_DESTROY] = {.call = event_destroy},
    [PH__RULE_EVENT_RECORD_CAPTURING] = {.call = event_record_capturing, .silent = true},
    [PH__RULE_EVENT_RECORD_OTHER] = {.call = event_record_other},
    [PH__RULE_EVENT_RECORD_LEGACY_BLOCKING] = {.call = event_record_legacy, .blocking = true},
    [PH__RULE_EVENT_QUERY_CAPTURED] = {.call = event_query_captured},
    [PH__RULE_EVENT_SYNC_CAPTURED] = {.call = event_sync_captured},
    [PH__RULE_EVENT_ELAPSED_CAPTURED] = {.call = event_elapsed_captured},
    [PH__RULE_EVENT_QUERY_OTHER] = {.call = event_query_other},
    [PH__RULE_EVENT_SYNC_OTHER] = {.call = event_sync_other},
    [PH__RULE_EVENT_ELAPSED_OTHER] = {.call = event_elapsed_other},
    [PH__RULE_WAIT_JOIN] = {.call = wait_join, .silent = true},
    [PH__RULE_WAIT_MERGE] = {.call = wait_merge},
    [PH__RULE_WAIT_ISOLATION] = {.call = wait_isolation},
    [PH__RULE_WAIT_LEGACY] = {.call = wait_legacy},
    [PH__RULE_WAIT_OTHER] = {.call = wait_other},
    [PH__RULE_WAIT_EXTERNAL] = {.call = wait_external},
    [PH__RULE_RECORD_EXTERNAL] = {.call = record_external},
    [PH__RULE_STREAM_CREATE] = {.call = stream_create},
    [PH__RULE_STREAM_DESTROY] = {.call = stream_destroy},
    [PH__RULE_STREAM_QUERY_CAPTURING] = {.call = stream_query_capturing},
    [PH__RULE_STREAM_SYNC_CAPTURING] = {.call = stream_sync_capturing},
    [PH__RULE_STREAM_QUERY_OTHER] = {.call = stream_query_other},
    [PH__RULE_STREAM_SYNC_OTHER] = {.call = stream_sync_other},
    [PH__RULE_DEVICE_SYNC] = {.call = device_sync},
    [PH__RULE_IS_CAPTURING] = {.call = is_capturing},
    [PH__RULE_PLAIN_ALLOC] = {.call = plain_alloc},
    [PH__RULE_PLAIN_FREE] = {.call = plain_free},
    [PH__RULE_PINNED_ALLOC] = {.call = pinned_alloc},
    [PH__RULE_PINNED_FREE] = {.call = pinned_free},
    [PH__RULE_SEGMENT_CREATE] = {.call = segment_create},
    [PH__RULE_SEGMENT_DESTROY] = {.call = segment_destroy},
    [PH__RULE_POINTER_INFO] = {.call = pointer_info},
    [PH__RULE_DEVICE_INFO] = {.call = device_info},
    [PH__RULE_KERNEL_CREATE] = {.call = kernel_create},
    [PH__RULE_KERNEL_DESTROY] = {.call = kernel_destroy},
    [PH__RULE_BEGIN_AGAIN] = {.call = begin_again},
    [PH__RULE_BEGIN_OTHER] = {.call = begin_other},
    [PH__RULE_BEGIN_LEGACY] = {.call = begin_legacy},
    [PH__RULE_END_NOT_CAPTURING] = {.call = end_not_capturing},
    [PH__RULE_END_WRONG_THREAD] = {.call = end_capturing},
    [PH__RULE_END_NOT_ORIGIN] = {.call = end_not_origin},
    [PH__RULE_INSTANTIATE] = {.call = instantiate_template},
    [PH__RULE_EXEC_LAUNCH_OTHER] = {.call = exec_launch_other},
    [PH__RULE_EXEC_LAUNCH_CAPTURING] = {.call = exec_launch_capturing},
    [PH__RULE_CHILD] = {.call = child},
    [PH__RULE_ROOT] = {.call = root},
    [PH__RULE_DEPEND] = {.call = depend},
    [PH__RULE_EXEC_LAUNCH_LEGACY_BLOCKING] = {.call = exec_launch_legacy, .blocking = true},
    [PH__RULE_EXEC_UPLOAD_OTHER] = {.call = exec_upload_other},
    [PH__RULE_EXEC_UPLOAD_CAPTURING] = {.call = exec_upload_capturing},
    [PH__RULE_EXEC_UPLOAD_LEGACY_BLOCKING] = {.call = exec_upload_legacy, .blocking = true},
    [PH__RULE_EXEC_UPDATE] = {.call = exec_update},
    [PH__RULE_EXEC_SET] = {.call = exec_set},
    [PH__RULE_EXEC_DESTROY] = {.call = exec_destroy},
    [PH__RULE_EXEC_ENABLE] = {.call = exec_enable},
    [PH__RULE_GRAPH_DESTROY] = {.call = graph_destroy},
};
#endif
