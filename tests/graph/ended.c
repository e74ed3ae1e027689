/* SPDX-License-Identifier: MIT */
/* tests/graph/ended.c: calls with handles whose object was destroyed: each says so, and a second
 * destroy does nothing. */
#include "base/ended.h"
#include "support/support.h"
#include "support/test.h"
#include <phonograph/graph_cache.h>

enum {
    BYTES = 256
};
typedef struct scene {
    t_world w;
    char *memory;
} scene;

static void open_scene(scene *s)
{
    if (!PH__RECYCLES) {
        print_message("skipped: handles go at once, so that tools which watch the heap see it\n");
        skip();
    }
    t_open(&s->w, NULL);
    assert_ok(PH_NEW(&s->memory, BYTES, s->w.stream));
    t_log_start();
}

static void close_scene(scene *s)
{
    t_log_stop();
    ph_free(s->memory, s->w.stream);
    t_close(&s->w);
}

static ph_status fill(ph_stream *stream, void *user)
{
    const scene *s = user;
    return ph_memset(s->memory, 1, BYTES, stream);
}

TEST(a_destroyed_graph_is_refused)
{
    scene s;
    ph_graph *graph;
    static const char words[] = "the graph was destroyed before this call";
    open_scene(&s);
    for (int captured = 0; captured < 2; captured++) {
        assert_ok(ph_graph_create(&graph, NULL));
        if (captured)
            assert_ok(ph_graph_capture(graph, s.w.stream, NULL, fill, &s));
        if (captured)
            assert_ok(ph_graph_replay(graph, s.w.stream));
        ph_graph_destroy(graph);
        assert_error(ph_graph_replay(graph, s.w.stream), PH_ERROR_STATE, words);
        assert_error(ph_graph_reset(graph), PH_ERROR_STATE, words);
        assert_error(ph_graph_capture(graph, s.w.stream, NULL, fill, &s), PH_ERROR_STATE, words);
        assert_error(ph_graph_instantiate(graph), PH_ERROR_STATE, words);
        assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_FAILED);
        assert_int_equal(t_log_count("destroyed already"), captured);
        ph_graph_destroy(graph);
        assert_int_equal(t_log_count("ph_graph_destroy: the graph was destroyed already"),
                         captured + 1);
    }
    close_scene(&s);
}

/* One that is destroyed inside of a hook goes behind the call that runs the hook. */
static ph_status end_inside(const ph_graph_hook_info *info, void *user)
{
    (void)user;
    ph_graph_destroy(info->graph);
    assert_error(ph_graph_reset(info->graph), PH_ERROR_STATE,
                 "the graph was destroyed, inside of a function of its own");
    return PH_OK;
}

TEST(a_graph_that_goes_inside_of_its_hook)
{
    scene s;
    ph_graph *graph;
    ph_hook *hook;
    open_scene(&s);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.w.stream, NULL, fill, &s));
    assert_ok(ph_graph_hook_add(&hook, graph, PH_HOOK_REPLAY_END, end_inside, NULL));
    assert_ok(ph_graph_replay(graph, s.w.stream));
    assert_error(ph_graph_reset(graph), PH_ERROR_STATE, "destroyed before this call");
    ph_graph_hook_remove(hook);
    close_scene(&s);
}

TEST(destroyed_streams_and_events_are_refused)
{
    scene s;
    ph_stream *stream;
    ph_event *event;
    open_scene(&s);
    assert_ok(ph_stream_create(&stream, s.w.device, NULL));
    assert_ok(ph_event_create(&event, s.w.device, NULL));
    ph_stream_destroy(stream);
    ph_event_destroy(event);
    assert_error(ph_stream_synchronize(stream), PH_ERROR_ARGUMENT,
                 "the stream was destroyed before this call");
    assert_error(ph_memset(s.memory, 1, BYTES, stream), PH_ERROR_ARGUMENT, "destroyed before");
    assert_error(ph_event_record(event, s.w.stream), PH_ERROR_STATE,
                 "the event was destroyed before this call");
    assert_error(ph_event_synchronize(event), PH_ERROR_STATE, "destroyed before this call");
    ph_stream_destroy(stream);
    ph_event_destroy(event);
    assert_int_equal(t_log_count("ph_event_destroy: the event was destroyed already"), 1);
    close_scene(&s);
}

static ph_status record_event(ph_stream *stream, void *event)
{
    return ph_event_record(event, stream);
}

/* Its node works on; the user's handle is gone all the same. */
TEST(an_event_that_a_graph_keeps_is_refused)
{
    scene s;
    ph_event *event;
    ph_graph *graph;
    open_scene(&s);
    assert_ok(ph_event_create(&event, s.w.device, &(ph_event_options){.external = true}));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.w.stream, NULL, record_event, event));
    ph_event_destroy(event);
    assert_error(ph_event_record(event, s.w.stream), PH_ERROR_STATE, "destroyed before this call");
    ph_event_destroy(event);
    assert_int_equal(t_log_count("ph_event_destroy: the event was destroyed already"), 1);
    assert_ok(ph_graph_replay(graph, s.w.stream));
    ph_graph_destroy(graph);
    assert_int_equal(t_log_count("destroyed already"), 1);
    close_scene(&s);
}

TEST(a_destroyed_cache_is_refused)
{
    scene s;
    ph_graph_cache *cache;
    ph_graph_cache_stats stats;
    size_t bucket;
    const ph_graph_cache_call call = {.key = "k", .key_bytes = 1, .body = fill, .user = &s};
    static const char words[] = "the cache was destroyed before this call";
    open_scene(&s);
    assert_ok(ph_graph_cache_create(&cache, s.w.device, NULL));
    assert_ok(ph_graph_cache_run(cache, s.w.stream, &call, NULL));
    ph_graph_cache_destroy(cache);
    assert_error(ph_graph_cache_run(cache, s.w.stream, &call, NULL), PH_ERROR_STATE, words);
    assert_error(ph_graph_cache_drop(cache, "k", 1), PH_ERROR_STATE, words);
    assert_error(ph_graph_cache_get_stats(&stats, cache), PH_ERROR_STATE, words);
    assert_error(ph_graph_cache_bucket(&bucket, cache, 4), PH_ERROR_STATE, words);
    ph_graph_cache_destroy(cache);
    assert_int_equal(t_log_count("ph_graph_cache_destroy: the cache was destroyed already"), 1);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_destroyed_graph_is_refused),
        cmocka_unit_test(a_graph_that_goes_inside_of_its_hook),
        cmocka_unit_test(destroyed_streams_and_events_are_refused),
        cmocka_unit_test(an_event_that_a_graph_keeps_is_refused),
        cmocka_unit_test(a_destroyed_cache_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
