/* SPDX-License-Identifier: MIT */
/* tests/rules/driver.c: the driver column of the capture rules, row by row: every call, by both threads, in
 * every mode. */
#include "driver/rules.h"
#include "support/host_driver.h"

/* What rows need; all of it is there before the capture begins, but for the events named captured. */
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

static const ph_kernel_source kernel_source = {
    .name = "rule", .host = add_body, .args_size = sizeof(struct add_args)};
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
    return drv->copy(stream, &copy);
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
    if (drv->capture_begin(s->other, PH_CAPTURE_RELAXED) || drv->event_record(s->fresh, s->other, 0))
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
    int result = drv->kernel_create(&kernel, s->w.device, &kernel_source);
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

static int end_capturing(scene *s)
{
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

static int exec_launch_legacy(scene *s)
{
    return drv->exec_launch(s->exec, s->legacy);
}

static int exec_upload_other(scene *s)
{
    return drv->exec_upload(s->exec, s->other);
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

/* A row without a call fails the test. blocking: the capturing stream is one of the blocking kind. silent:
 * what is recorded is no node. */
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
    [PH__RULE_EXEC_LAUNCH_LEGACY_BLOCKING] = {.call = exec_launch_legacy, .blocking = true},
    [PH__RULE_EXEC_UPLOAD_OTHER] = {.call = exec_upload_other},
    [PH__RULE_EXEC_UPDATE] = {.call = exec_update},
    [PH__RULE_EXEC_SET] = {.call = exec_set},
    [PH__RULE_EXEC_DESTROY] = {.call = exec_destroy},
    [PH__RULE_EXEC_ENABLE] = {.call = exec_enable},
    [PH__RULE_GRAPH_DESTROY] = {.call = graph_destroy},
};

/* ---- scenes ---- */

static ph__drv_graph *capture_one_kernel(scene *s, int32_t value)
{
    ph__drv_graph *graph = NULL;
    assert_int_equal(drv->capture_begin(s->other, PH_CAPTURE_RELAXED), 0);
    assert_int_equal(launch_add(&s->w, s->other, 0, 1, value), 0);
    assert_int_equal(drv->capture_end(&graph, s->other), 0);
    return graph;
}

static void set_up(scene *s, bool blocking)
{
    world_open(&s->w, 0);
    ph__drv_device *device = s->w.device;
    const int flags = blocking ? PH__STREAM_BLOCKING : PH__STREAM_NON_BLOCKING;
    assert_int_equal(drv->stream_create(&s->stream, device, flags, 0), 0);
    s->other = s->w.a;
    s->legacy = drv->stream_default(device);
    assert_int_equal(drv->stream_create(&s->spare, device, PH__STREAM_NON_BLOCKING, 0), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(drv->event_create(&s->outside[i], device, PH__EVENT_TIMING), 0);
        assert_int_equal(drv->event_record(s->outside[i], s->other, 0), 0);
    }
    assert_int_equal(drv->stream_synchronize(s->other), 0);
    assert_int_equal(drv->event_create(&s->captured, device, PH__EVENT_TIMING), 0);
    assert_int_equal(drv->event_create(&s->fresh, device, PH__EVENT_TIMING), 0);
    assert_int_equal(drv->kernel_create(&s->kernel, device, &kernel_source), 0);
    assert_int_equal(drv->plain_alloc(&s->plain, device, 4096), 0);
    assert_int_equal(drv->pinned_alloc(&s->pinned, device, 4096), 0);
    assert_int_equal(drv->segment_create(&s->segment, device, SEGMENT), 0);
    s->template = capture_one_kernel(s, 1);
    s->variant = capture_one_kernel(s, 2);
    assert_int_equal(drv->instantiate(&s->exec, s->template, 0, NULL), 0);
}

static void tear_down(scene *s)
{
    ph__drv_device *device = s->w.device;
    assert_int_equal(drv->device_synchronize(device), 0);
    drv->exec_destroy(s->exec);
    drv->graph_destroy(s->template);
    drv->graph_destroy(s->variant);
    if (s->segment)
        drv->segment_destroy(device, s->segment, SEGMENT);
    if (s->pinned)
        assert_int_equal(drv->pinned_free(device, s->pinned), 0);
    if (s->plain)
        assert_int_equal(drv->plain_free(device, s->plain), 0);
    drv->kernel_destroy(s->kernel);
    drv->event_destroy(s->fresh);
    drv->event_destroy(s->captured);
    drv->event_destroy(s->outside[0]);
    drv->event_destroy(s->outside[1]);
    drv->stream_destroy(s->spare);
    drv->stream_destroy(s->stream);
    world_close(&s->w);
}

/* On whatever thread makes the call. */
static void *make_call(void *argument)
{
    scene *s = argument;
    ph_capture_mode mode = s->thread_mode;
    if (drv->thread_exchange_mode(s->w.device, &mode)) {
        s->result = CONFUSED;
        return NULL;
    }
    s->result = calls[s->rule].call(s);
    if (drv->thread_exchange_mode(s->w.device, &mode))
        s->result = CONFUSED;
    return NULL;
}

static const char *const mode_names[] = {"global", "thread_local", "relaxed"};

#define check(condition, ...)                                                                                \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            print_error("%s, %s thread (%s), %s capture: ", ph__rules[s->rule].id, other ? "other" : "same", \
                        mode_names[s->thread_mode], mode_names[mode]);                                       \
            print_error(__VA_ARGS__);                                                                        \
            fail();                                                                                          \
        }                                                                                                    \
    } while (0)

/* What became of the capture. */
static void check_end(scene *s, bool other, ph_capture_mode mode, int outcome)
{
    ph__drv_graph *graph = s->ended;
    bool killed = outcome > 0 && outcome < PH__KEEPS;
    if (!graph) {
        check(status_of(s->stream) == (killed ? PH_CAPTURE_INVALIDATED : PH_CAPTURE_ACTIVE), "status %d\n",
              status_of(s->stream));
        int end = drv->capture_end(&graph, s->stream);
        check(end == (killed ? 901 : 0), "the end answers %d\n", end);
    }
    if (!killed) {
        size_t nodes = outcome == PH__RECORDED && !calls[s->rule].silent ? 2 : 1;
        check(node_count(graph) == nodes, "%zu nodes\n", node_count(graph));
        drv->graph_destroy(graph);
    }
    check(status_of(s->stream) == PH_CAPTURE_NONE, "the stream captures on\n");
    check(status_of(s->w.a) == PH_CAPTURE_NONE, "the other stream captures on\n");
}

static void play(ph__rule rule, bool other, ph_capture_mode mode, ph_capture_mode thread_mode, int outcome)
{
    if (!calls[rule].call)
        return; /* every_row_has_a_call fails for it */
    scene scene_of_row = {.rule = rule, .thread_mode = thread_mode}, *s = &scene_of_row;
    set_up(s, calls[rule].blocking);
    assert_int_equal(drv->capture_begin(s->stream, mode), 0);
    assert_int_equal(launch_add(&s->w, s->stream, 0, 1, 1), 0);
    assert_int_equal(drv->event_record(s->captured, s->stream, 0), 0);
    if (other)
        on_another_thread(make_call, s);
    else
        make_call(s);
    int expected = outcome >= PH__KEEPS ? outcome - PH__KEEPS : outcome > 0 ? outcome : 0;
    check(s->result == expected, "answers %d instead of %d\n", s->result, expected);
    check_end(s, other, mode, outcome);
    tear_down(s);
}

static void every_row_has_a_call(void **state)
{
    (void)state;
    int missing = 0;
    for (int rule = 0; rule < PH__RULE_COUNT; rule++) {
        if (!calls[rule].call)
            print_error("%s has no call here\n", ph__rules[rule].id);
        missing += !calls[rule].call;
    }
    assert_int_equal(missing, 0);
}

static void every_call_does_what_its_row_says(void **state)
{
    (void)state;
    for (int rule = 0; rule < PH__RULE_COUNT; rule++) {
        for (int other = 0; other < 2; other++) {
            for (int mode = 0; mode < 3; mode++)
                play((ph__rule)rule, other, (ph_capture_mode)mode, PH_CAPTURE_GLOBAL,
                     ph__rules[rule].driver[other][mode]);
        }
    }
}

/* A thread that is relaxed may make potentially unsafe calls; one that is thread_local is bound by its own
 * captures alone. Nothing else depends on the thread's mode. */
static void the_mode_of_the_thread_counts_for_unsafe_calls(void **state)
{
    (void)state;
    int unsafe_rows = 0;
    for (int rule = 0; rule < PH__RULE_COUNT; rule++) {
        const int(*column)[3] = ph__rules[rule].driver;
        bool unsafe = column[0][PH_CAPTURE_GLOBAL] == 900 && column[0][PH_CAPTURE_RELAXED] == 0;
        bool fixed = column[0][PH_CAPTURE_GLOBAL] == 900 && !unsafe;
        if (!unsafe && !fixed)
            continue;
        unsafe_rows += unsafe;
        for (int other = 0; other < 2; other++) {
            for (int mode = 0; mode < 3; mode++) {
                int outcome = column[other][mode];
                play((ph__rule)rule, other, (ph_capture_mode)mode, PH_CAPTURE_RELAXED, unsafe ? 0 : outcome);
                play((ph__rule)rule, other, (ph_capture_mode)mode, PH_CAPTURE_THREAD_LOCAL,
                     unsafe && other ? 0 : outcome);
            }
        }
    }
    assert_true(unsafe_rows >= 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_a_call),
        cmocka_unit_test(every_call_does_what_its_row_says),
        cmocka_unit_test(the_mode_of_the_thread_counts_for_unsafe_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
