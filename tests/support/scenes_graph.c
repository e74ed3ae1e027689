/* SPDX-License-Identifier: MIT */
/* tests/support/scenes_graph.c: scenarios of captures, executables, replays, records, hooks and
 * what graphs hold. */
#include "support/scenes.h"
#include <phonograph/host.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    N = T_SCENE_N
};

/* y = 1 + 2 + 3 over a fork to b, with two temporaries; host functions count. */
static void count_call(void *user)
{
    atomic_fetch_add((atomic_int *)user, 1);
}

static ph_status fork_and_join(ph_stream *stream, void *user)
{
    t_scene *s = user;
    ph_status status;
    int32_t *first = NULL, *second = NULL;
    T_GO_OUT(first, PH_NEW(&first, N, stream));
    T_GO(t_fill(&s->world, stream, first, N, 1));
    T_GO(ph_event_record(s->event, stream));
    T_GO(ph_stream_wait_event(s->b, s->event));
    T_GO_OUT(second, PH_NEW(&second, N, s->b));
    T_GO(t_add(&s->world, s->b, first, second, N, 2));
    T_GO(ph_launch_host(stream, count_call, &s->calls));
    T_GO(ph_memcpy(s->x, s->pinned, N * sizeof(int32_t), stream));
    T_GO(ph_stream_wait_stream(stream, s->b));
    T_GO(t_add(&s->world, stream, second, s->y, N, 3));
    T_GO(ph_memset_u32(s->x, 9, N, stream));
out:
    ph_free(first, NULL);
    ph_free(second, NULL);
    return status;
}

static ph_status check_fork(t_scene *s, ph_graph *graph, ph_stream *stream)
{
    int calls = atomic_load(&s->calls);
    PH_TRY(ph_memset(s->y, 0, N * sizeof *s->y, stream));
    PH_TRY(ph_graph_replay(graph, stream));
    PH_TRY(ph_stream_synchronize(stream));
    PH_TRY(t_same(stream, s->y, N, 6));
    PH_TRY(t_same(stream, s->x, N, 9));
    assert_int_equal(atomic_load(&s->calls), calls + 1);
    return PH_OK;
}

static ph_status capture_by_function(t_scene *s)
{
    PH_TRY(ph_graph_reset(s->graph));
    PH_TRY(ph_graph_capture(s->graph, s->a, NULL, fork_and_join, s));
    for (int i = 0; i < 3; i++)
        PH_TRY(check_fork(s, s->graph, s->a));
    return ph_graph_reset(s->graph);
}

static ph_status capture_begin_end(t_scene *s)
{
    ph_capture_options options = {
        .mode = PH_CAPTURE_THREAD_LOCAL, .pool = s->pool, .prepare = true};
    ph_graph_capture_abort(s->graph);
    PH_TRY(ph_graph_reset(s->graph));
    PH_TRY(ph_graph_capture_begin(s->graph, s->a, &options));
    ph_status status = ph_graph_capture_end(s->graph, fork_and_join(s->a, s));
    if (status != PH_OK)
        return status;
    PH_TRY(check_fork(s, s->graph, s->b));
    PH_TRY(check_fork(s, s->graph, ph_device_default_stream(s->world.device)));
    return ph_graph_reset(s->graph);
}

static ph_status keep_graph(t_scene *s)
{
    void *raw = NULL, *exec = NULL;
    size_t count = 0;
    PH_TRY(ph_graph_reset(s->kept));
    PH_TRY(ph_graph_capture(s->kept, s->a, NULL, fork_and_join, s));
    PH_TRY(t_raw(&raw, s->kept));
    if (t_on_host()) {
        PH_TRY(ph_host_graph_nodes(NULL, 0, &count, raw));
        assert_int_equal(count, 6);
    }
    PH_TRY(ph_graph_instantiate(s->kept));
    PH_TRY(ph_graph_instantiate(s->kept));
    PH_TRY(t_raw_exec(&exec, s->kept));
    assert_non_null(exec);
    PH_TRY(check_fork(s, s->kept, s->a));
    return ph_graph_reset(s->kept);
}

/* Two graphs of one pool, on two streams: each writes its own output through a temporary of the
 * shared pool. */
static ph_status through_temporary(ph_stream *stream, t_scene *s, int32_t *output, int32_t value)
{
    ph_status status;
    int32_t *temporary = NULL;
    T_GO_OUT(temporary, PH_NEW(&temporary, N, stream));
    T_GO(t_fill(&s->world, stream, temporary, N, value));
    T_GO(t_add(&s->world, stream, temporary, output, N, 100));
out:
    ph_free(temporary, NULL);
    return status;
}
static ph_status output_x(ph_stream *stream, void *user)
{
    t_scene *s = user;
    return through_temporary(stream, s, s->x, 1);
}
static ph_status output_y(ph_stream *stream, void *user)
{
    t_scene *s = user;
    return through_temporary(stream, s, s->y, 2);
}

static ph_status shared_pool(t_scene *s)
{
    ph_capture_options options = {.pool = s->pool};
    PH_TRY(ph_graph_reset(s->graph));
    PH_TRY(ph_graph_reset(s->other));
    PH_TRY(ph_graph_capture(s->graph, s->a, &options, output_x, s));
    PH_TRY(ph_graph_capture(s->other, s->a, &options, output_y,
                            s)); /* the temporary lies where the other one does */
    for (int i = 0; i < 6; i++) {
        PH_TRY(ph_graph_replay(s->graph, i % 2 ? s->a : s->b));
        PH_TRY(ph_graph_replay(s->other, i % 3 ? s->a : s->b));
    }
    PH_TRY(ph_stream_synchronize(s->a));
    PH_TRY(ph_stream_synchronize(s->b));
    PH_TRY(t_same(s->a, s->x, N, 101));
    PH_TRY(t_same(s->a, s->y, N, 102));
    PH_TRY(ph_graph_reset(s->graph));
    return ph_graph_reset(s->other);
}

/* ---- nodes ---- a chain of one node of each kind that can be set. */
static ph_status one_of_each(ph_stream *stream, void *user)
{
    t_scene *s = user;
    PH_TRY(t_fill(&s->world, stream, s->x, N, 1));
    PH_TRY(ph_memcpy(s->y, s->x, N * sizeof(int32_t), stream));
    PH_TRY(ph_memset_u32(s->pinned, 2, N, stream));
    return ph_launch_host(stream, count_call, &s->calls);
}

static ph_status set_nodes(t_scene *s)
{
    bool enabled = true;
    int calls = atomic_load(&s->other_calls);
    ph_launch_config config = t_config(N);
    struct t_fill_i32 args = {N, s->y, 50};
    PH_TRY(ph_graph_reset(s->graph));
    PH_TRY(ph_graph_capture(s->graph, s->a, NULL, one_of_each, s));
    PH_TRY(ph_graph_node_set_launch(s->graph, 0, &config, &args, sizeof args));
    PH_TRY(ph_graph_node_set_memcpy(s->graph, 1, s->x, s->y, N * sizeof(int32_t)));
    PH_TRY(ph_graph_node_set_memset(s->graph, 2, s->pinned, 51, N));
    PH_TRY(ph_graph_node_set_host(s->graph, 3, count_call, &s->other_calls));
    PH_TRY(ph_graph_replay(s->graph, s->b));
    PH_TRY(ph_stream_synchronize(s->b));
    PH_TRY(t_same(s->b, s->x, N, 50));
    t_same_host(s->pinned, N, 51);
    assert_int_equal(atomic_load(&s->other_calls), calls + 1);
    memset(s->pinned, 0, N * sizeof(int32_t));
    PH_TRY(ph_graph_node_set_enabled(s->graph, 2, false));
    PH_TRY(ph_graph_node_get_enabled(&enabled, s->graph, 2));
    assert_false(enabled);
    PH_TRY(ph_graph_replay(s->graph, s->a));
    PH_TRY(ph_stream_synchronize(s->a));
    t_same_host(s->pinned, N, 0);
    return ph_graph_reset(s->graph);
}

static ph_status update(t_scene *s)
{
    ph_update_result result;
    PH_TRY(ph_graph_reset(s->graph));
    PH_TRY(ph_graph_reset(s->kept));
    PH_TRY(ph_graph_capture(s->graph, s->a, NULL, output_x, s));
    PH_TRY(ph_graph_capture(s->kept, s->b, NULL, output_y, s));
    PH_TRY(ph_graph_update(s->graph, s->kept, &result));
    PH_TRY(ph_graph_reset(s->kept)); /* the graph retains what it needs of it */
    PH_TRY(ph_memset(s->y, 0, N * sizeof *s->y, s->a));
    PH_TRY(ph_graph_replay(s->graph, s->a));
    PH_TRY(ph_stream_synchronize(s->a));
    PH_TRY(t_same(s->a, s->y, N, 102));
    return ph_graph_reset(s->graph);
}

/* ---- records ---- */
static ph_status records(t_scene *s)
{
    ph_status status;
    char path[64], *json = NULL, *dot = NULL;
    const ph_record *record = NULL;
    ph_node_info node;
    ph_word word;
    (void)snprintf(path, sizeof path, "scene-%ld.out", (long)getpid());
    T_GO(ph_graph_reset(s->graph));
    T_GO(ph_graph_capture(s->graph, s->a, NULL, fork_and_join, s));
    T_GO_OUT(record, ph_graph_record(&record, s->graph));
    assert_int_equal(ph_record_node_count(record), 6);
    for (size_t i = 0; i < 6; i++) {
        T_GO(ph_record_node(&node, record, i));
        for (size_t w = 0; w < node.word_count; w++)
            T_GO(ph_record_word(&word, record, i, w));
    }
    T_GO_OUT(json, ph_record_json(&json, record));
    assert_int_equal(json[0], '{');
    T_GO_OUT(dot, ph_record_dot(&dot, record, true));
    assert_non_null(strstr(dot, "digraph"));
    T_GO(ph_record_dump(record, path));
    T_GO(ph_graph_debug_dump(s->graph, path, true));
    T_GO(ph_graph_check_inputs(s->graph));
    T_GO(ph_graph_reset(s->graph));
out:
    (void)unlink(path);
    ph_string_free(json);
    ph_string_free(dot);
    return status;
}

static ph_status differences(t_scene *s)
{
    ph_status status;
    char *text = NULL;
    ph_diff *diff = NULL;
    ph_record *made = NULL;
    const ph_record *record = NULL;
    static const ph_annotation_pair pair = {.key = "name", .text = "said"};
    static const ph_record_source_node node = {
        .info = {.kind = PH_NODE_HOST}, .annotation = &pair, .annotation_count = 1};
    T_GO(ph_graph_reset(s->graph));
    T_GO(ph_graph_reset(s->kept));
    T_GO(ph_graph_capture(s->graph, s->a, NULL, fork_and_join, s));
    T_GO(ph_graph_capture(s->kept, s->b, NULL, output_y, s));
    T_GO_OUT(diff, ph_graph_diff(&diff, s->graph, s->kept));
    assert_true(ph_diff_count(diff) > 0);
    T_GO_OUT(text, ph_diff_text(&text, diff));
    ph_diff_destroy(diff);
    diff = NULL;
    T_GO_OUT(record, ph_graph_record(&record, s->kept));
    T_GO_OUT(made, ph_record_create(&made, &node, 1));
    T_GO_OUT(diff, ph_record_diff(&diff, record, made));
    assert_true(ph_diff_count(diff) > 0);
    T_GO(ph_graph_reset(s->kept));
    T_GO(ph_graph_reset(s->graph));
out:
    ph_diff_destroy(diff);
    ph_record_destroy(made);
    ph_string_free(text);
    return status;
}

/* ---- breadcrumbs and checks ---- */
static ph_status marked_body(ph_stream *stream, void *user)
{
    t_scene *s = user;
    PH_TRY(ph_annotation_push(stream, "outer", NULL));
    PH_TRY(ph_annotation_push(stream, "inner", NULL));
    PH_TRY(output_y(stream, s));
    PH_TRY(ph_finite_check(stream, s->y, PH_NUMBER_BF16, 2 * T_SCENE_N, "y"));
    PH_TRY(ph_annotation_pop(stream));
    return ph_annotation_pop(stream);
}

static ph_status places(t_scene *s)
{
    const ph_capture_options options = {.enable_annotations = true, .breadcrumbs = true};
    ph_status status;
    ph_progress at;
    ph_finite_result found;
    T_GO(ph_graph_reset(s->graph));
    T_GO(ph_graph_reset(s->kept));
    T_GO(ph_graph_capture(s->graph, s->a, &options, marked_body, s));
    T_GO(ph_graph_capture(s->kept, s->a, &options, marked_body, s));
    T_GO(ph_graph_breadcrumbs_enable(s->graph, true));
    T_GO(ph_finite_enable(s->graph, true));
    T_GO(ph_graph_update(s->graph, s->kept, NULL));
    /* Where the update could not set them again they are off. */
    T_GO(ph_graph_breadcrumbs_enable(s->graph, true));
    T_GO(ph_finite_enable(s->graph, true));
    T_GO(ph_graph_replay(s->graph, s->a));
    T_GO(ph_stream_synchronize(s->a));
    T_GO(ph_graph_where(&at, s->graph));
    assert_true(at.complete && at.count == 4);
    T_GO(ph_finite_at(&found, s->graph, 0));
    assert_true(found.ran);
    T_GO(ph_graph_breadcrumbs_enable(s->graph, false));
    T_GO(ph_finite_enable(s->graph, false));
    T_GO(ph_graph_reset(s->kept));
    T_GO(ph_graph_reset(s->graph));
out:
    ph_annotation_unwind(0);
    return status;
}

/* ---- hooks and retained objects ---- */
static ph_status count_hook(const ph_graph_hook_info *info, void *user)
{
    (void)info;
    atomic_fetch_add((atomic_int *)user, 1);
    return PH_OK;
}

static ph_status hooks(t_scene *s)
{
    ph_status status;
    ph_hook *hook[8] = {0}, *everywhere = NULL;
    T_GO(ph_graph_reset(s->graph));
    for (int point = PH_HOOK_CAPTURE_START; point <= PH_HOOK_CAPTURE_PREPARE; point++)
        T_GO_OUT(hook[point], ph_graph_hook_add(&hook[point], s->graph, (ph_graph_hook_point)point,
                                                count_hook, &s->calls));
    T_GO_OUT(everywhere,
             ph_graph_hook_add(&everywhere, NULL, PH_HOOK_REPLAY_START, count_hook, &s->calls));
    int calls = atomic_load(&s->calls);
    T_GO(ph_graph_capture(s->graph, s->a, NULL, output_x, s));
    T_GO(ph_graph_replay(s->graph, s->a));
    T_GO(ph_stream_synchronize(s->a));
    T_GO(ph_graph_reset(s->graph));
    assert_int_equal(atomic_load(&s->calls), calls + 8);
out:
    for (int point = PH_HOOK_CAPTURE_START; point <= PH_HOOK_CAPTURE_PREPARE; point++)
        ph_graph_hook_remove(hook[point]);
    ph_graph_hook_remove(everywhere);
    return status;
}

/* What was registered is released exactly once, whatever failed; what was refused is never. */
static ph_status retained(t_scene *s)
{
    ph_status status;
    ph_pool *pool = NULL, *of_graph = NULL;
    int registered = 0;
    size_t count = 0;
    PH_TRY(ph_graph_reset(s->graph));
    int calls = atomic_load(&s->calls);
    T_GO_OUT(pool, ph_pool_create(&pool, s->world.device, NULL));
    T_GO(ph_graph_retain(s->graph, count_call, &s->calls, false));
    registered++;
    T_GO(ph_graph_capture_begin(s->graph, s->a, NULL));
    T_GO(ph_graph_retain_pool(s->graph, pool));
    T_GO(ph_graph_capture_end(s->graph, output_x(s->a, s)));
    T_GO(ph_graph_retain(s->graph, count_call, &s->calls, true));
    registered++;
    T_GO_OUT(of_graph, ph_graph_pool(&of_graph, s->graph));
    T_GO(ph_graph_pools(NULL, 0, &count, s->graph));
    assert_int_equal(count, 2);
    T_GO(ph_graph_replay(s->graph, s->b));
out:
    if (status != PH_OK) {
        ph_graph_destroy(s->graph);
        s->graph = NULL;
        assert_int_equal(atomic_load(&s->calls), calls + registered);
    }
    ph_pool_release(pool);
    if (status != PH_OK)
        return status;
    PH_TRY(ph_graph_reset(s->graph));
    assert_int_equal(atomic_load(&s->calls), calls + registered);
    return PH_OK;
}

/* The graph is destroyed on failure, so this one makes its own again. */
static ph_status retained_fresh(t_scene *s)
{
    if (!s->graph)
        PH_TRY(ph_graph_create(&s->graph, NULL));
    return retained(s);
}

static ph_status reset_and_recapture(t_scene *s)
{
    PH_TRY(ph_graph_reset(s->graph));
    PH_TRY(ph_graph_capture(s->graph, s->a, NULL, output_x, s));
    PH_TRY(ph_graph_replay(s->graph, s->a));
    PH_TRY(ph_graph_reset(s->graph));
    PH_TRY(ph_graph_capture(s->graph, s->b, NULL, output_y, s));
    PH_TRY(ph_graph_replay(s->graph, s->b));
    PH_TRY(ph_stream_synchronize(s->a));
    PH_TRY(ph_stream_synchronize(s->b));
    PH_TRY(t_same(s->a, s->x, N, 101));
    PH_TRY(t_same(s->a, s->y, N, 102));
    return ph_graph_reset(s->graph);
}

/* The output stays allocated, so that it can be asked whether a replay overwrote it; the input's
 * liveness is checked at each replay. */
typedef struct output_scene {
    t_scene *s;
    int32_t *output;
} output_scene;

static ph_status kept_output(ph_stream *stream, void *user)
{
    output_scene *o = user;
    PH_TRY(PH_NEW(&o->output, N, stream));
    return t_add(&o->s->world, stream, o->s->x, o->output, N, 1);
}

static ph_status outputs(t_scene *s)
{
    ph_status status;
    output_scene o = {s, NULL};
    ph_capture_options options = {.check_input_liveness = true};
    T_GO(ph_graph_reset(s->graph));
    T_GO(ph_memset_u32(s->x, 30, N, s->a));
    T_GO(ph_graph_capture(s->graph, s->a, &options, kept_output, &o));
    T_GO(ph_graph_replay(s->graph, s->a));
    T_GO(ph_graph_check_output(s->graph, o.output, ph_graph_epoch(s->graph)));
    T_GO(ph_graph_check_inputs(s->graph));
    T_GO(ph_stream_synchronize(s->a));
    T_GO(t_same(s->a, o.output, N, 31));
    T_GO(ph_graph_reset(s->graph));
out:
    ph_free(o.output, NULL);
    return status;
}

/* Event nodes take times of replays; pinned memory of the capture carries a value through. */
typedef struct external_scene {
    t_scene *s;
    ph_event *start, *stop;
} external_scene;

static ph_status timed_body(ph_stream *stream, void *user)
{
    external_scene *e = user;
    ph_status status;
    int32_t *pinned = NULL;
    T_GO(ph_event_record(e->start, stream));
    T_GO_OUT(pinned, ph_malloc_pinned(&pinned, N, sizeof(int32_t), stream));
    T_GO(ph_memset_u32(pinned, 60, N, stream));
    T_GO(ph_memcpy(e->s->x, pinned, N * sizeof(int32_t), stream));
    T_GO(ph_event_record(e->stop, stream));
out:
    ph_free_pinned(pinned, NULL);
    return status;
}

static ph_status external_events(t_scene *s)
{
    ph_status status;
    external_scene e = {s, NULL, NULL};
    ph_event_options options = {.timing = true, .external = true};
    float ms = -1;
    T_GO(ph_graph_reset(s->graph));
    T_GO_OUT(e.start, ph_event_create(&e.start, s->world.device, &options));
    T_GO_OUT(e.stop, ph_event_create(&e.stop, s->world.device, &options));
    T_GO(ph_graph_capture(s->graph, s->a, NULL, timed_body, &e));
    T_GO(ph_graph_replay(s->graph, s->a));
    T_GO(ph_stream_synchronize(s->a));
    T_GO(ph_stream_wait_event(s->b, e.stop));
    T_GO(t_add(&s->world, s->b, s->x, s->y, N, 1));
    T_GO(ph_stream_synchronize(s->b));
    T_GO(t_same(s->b, s->y, N, 61));
    T_GO(ph_event_elapsed(&ms, e.start, e.stop));
    assert_true(ms >= 0);
    T_GO(ph_graph_reset(s->graph));
out:
    ph_event_destroy(e.start);
    ph_event_destroy(e.stop);
    return status;
}

static ph_status graph_objects(t_scene *s)
{
    ph_status status;
    ph_graph *graph = NULL;
    T_GO_OUT(graph, ph_graph_create(&graph, NULL));
    T_GO(ph_graph_capture(graph, s->a, NULL, output_x, s));
    T_GO(ph_graph_replay(graph, s->a));
    ph_graph_destroy(graph); /* legal while the replay is in flight */
    graph = NULL;
    T_GO(ph_stream_synchronize(s->a));
    T_GO(t_same(s->a, s->x, N, 101));
out:
    ph_graph_destroy(graph);
    return status;
}

/* Uploaded by the call, and by the first replay. */
static ph_status deferred_uploads(t_scene *s)
{
    ph_status status;
    ph_graph *graph = NULL;
    const ph_graph_options defer = {.defer_upload = true};
    T_GO_OUT(graph, ph_graph_create(&graph, &defer));
    for (int upload = 0; upload < 2; upload++) {
        T_GO(ph_graph_capture(graph, s->a, NULL, output_x, s));
        if (upload)
            T_GO(ph_graph_upload(graph, s->b));
        T_GO(ph_graph_replay(graph, s->a));
        T_GO(ph_stream_synchronize(s->a));
        T_GO(t_same(s->a, s->x, N, 101));
        T_GO(ph_graph_reset(graph));
    }
out:
    ph_graph_destroy(graph);
    return status;
}

static ph_status add_ten(ph_stream *stream, void *user)
{
    t_scene *s = user;
    return t_add(&s->world, stream, s->x, s->x, N, 10);
}

/* x = 1 by way of memory that lives across the break, + 10; a fork adds 100; y = x. */
static ph_status broken(ph_stream *stream, void *user)
{
    t_scene *s = user;
    int32_t *block = NULL;
    ph_status status;
    T_GO_OUT(block, PH_NEW(&block, N, stream));
    T_GO(t_fill(&s->world, stream, block, N, 1));
    T_GO(ph_stream_wait_stream(s->b, stream));
    T_GO(ph_stream_wait_stream(stream, s->b));
    T_GO(t_add(&s->world, stream, block, s->x, N, 0));
    T_GO(ph_break(stream, add_ten, s));
    T_GO(t_add(&s->world, stream, s->x, s->x, N, 100));
    T_GO(ph_break(stream, add_ten, s));
    T_GO(t_add(&s->world, stream, block, s->y, N, 4));
out:
    ph_free(block, stream);
    return status;
}

static ph_status breaks(t_scene *s)
{
    const ph_record *record;
    size_t segments;
    const ph_capture_options options = {.allow_breaks = true, .enable_annotations = true};
    PH_TRY(ph_graph_reset(s->graph));
    PH_TRY(ph_graph_capture(s->graph, s->a, &options, broken, s));
    segments = ph_graph_segment_count(s->graph);
    assert_int_equal(segments, 3);
    PH_TRY(ph_graph_record(&record, s->graph));
    assert_int_equal(ph_record_node_count(record), 5);
    for (int i = 0; i < 2; i++) {
        PH_TRY(ph_graph_replay(s->graph, i ? s->b : s->a));
        PH_TRY(ph_stream_synchronize(i ? s->b : s->a));
        PH_TRY(t_same(s->a, s->x, N, 121));
        PH_TRY(t_same(s->a, s->y, N, 5));
    }
    return ph_graph_reset(s->graph);
}

const t_scenario t_scenarios_graph[] = {
    {"breaks", breaks},
    {"graph objects", graph_objects},
    {"uploads that are deferred", deferred_uploads},
    {"capture by function", capture_by_function},
    {"capture by begin and end", capture_begin_end},
    {"keep_graph", keep_graph},
    {"a shared pool", shared_pool},
    {"setting nodes", set_nodes},
    {"update", update},
    {"differences", differences},
    {"breadcrumbs and checks", places},
    {"records", records},
    {"hooks", hooks},
    {"retained objects", retained_fresh},
    {"reset and recapture", reset_and_recapture},
    {"outputs", outputs},
    {"external events", external_events},
    {NULL, NULL},
};
