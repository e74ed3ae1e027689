/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_callbacks.c: functions of the user's that a cache calls, of events, the log,
 * hooks and objects of graphs, call that cache again, with the key that they were called for. */
#include "support/cached.h"

#include "base/alloc.h"
#include "support/test.h"
#include <phonograph/inspect/inputs.h>
#include <stdio.h>
#include <unistd.h>

enum {
    HANGS_AFTER = 120 /* seconds: the alarm ends a program that waits for its own lock */
};

static t_cached s;
static struct {
    const char *key; /* of the calls from callbacks */
    size_t key_bytes;
    ph_capture_fn body;
    t_cached_work within;
    void *user; /* of body */
    bool inside;
    int calls, captured, evicted, refused, released, logged, made;
} again;

/* What callbacks do. */
static void call_again(void)
{
    ph_graph_cache_entry entry;
    ph_graph_cache_stats stats;
    char *text;
    if (again.inside)
        return;
    again.inside = true;
    again.calls++;
    assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
    assert_ok(ph_graph_cache_text(&text, s.cache));
    ph_string_free(text);
    for (size_t i = 0; i < stats.keys; i++)
        assert_ok(ph_graph_cache_entry_at(&entry, s.cache, i));
    if (again.key && !again.body) {
        assert_ok(t_cached_call(&s, again.key, &again.within, NULL));
        s.calls++;
    } else if (again.key) {
        assert_ok(ph_graph_cache_run(s.cache, s.world.stream,
                                     &(ph_graph_cache_call){.key = again.key,
                                                            .key_bytes = again.key_bytes,
                                                            .body = again.body,
                                                            .user = again.user},
                                     NULL));
    }
    again.inside = false;
}

static void on_event(const ph_graph_cache_event *event, void *user)
{
    char key[64];
    char reason[240];
    (void)user;
    assert_in_range(event->key_bytes, 1, sizeof key);
    memcpy(key, event->key, event->key_bytes);
    (void)snprintf(reason, sizeof reason, "%s", event->reason);
    again.captured += event->what == PH_CACHE_CAPTURED || event->what == PH_CACHE_LEARNED;
    again.evicted += event->what == PH_CACHE_EVICTED;
    again.refused += event->what == PH_CACHE_REFUSED;
    call_again();
    assert_memory_equal(event->key, key, event->key_bytes);
    assert_string_equal(event->reason, reason);
}

static void on_release(void *object)
{
    (void)object;
    again.released++;
    call_again();
}

static void on_log(ph_log_level level, const char *message, void *user)
{
    (void)level, (void)message, (void)user;
    again.logged++;
    call_again();
}

static ph_status on_instantiate(const ph_graph_hook_info *info, void *user)
{
    (void)info, (void)user;
    again.made++;
    call_again();
    return PH_OK;
}

/* The captured graph has an object, whose release calls the cache. */
static ph_status retaining_body(ph_stream *stream, void *user)
{
    ph_graph *graph = NULL;
    PH_TRY(t_cached_body(stream, user));
    PH_TRY(ph_stream_capturing_graph(&graph, stream));
    return graph ? ph_graph_retain(graph, on_release, &s, false) : PH_OK;
}

static ph_graph_cache_result run_retaining(const char *key, t_cached_work *w, const void *x)
{
    const void *pointers[] = {x, w->y};
    const ph_graph_cache_value values[] = {{&w->value, sizeof w->value}};
    ph_graph_cache_result result;
    w->scene = &s;
    assert_ok(ph_graph_cache_run(s.cache, s.world.stream,
                                 &(ph_graph_cache_call){.key = key,
                                                        .key_bytes = strlen(key),
                                                        .body = retaining_body,
                                                        .user = w,
                                                        .pointers = pointers,
                                                        .pointer_count = 2,
                                                        .values = values,
                                                        .value_count = 1},
                                 &result));
    return result;
}

static void open_with(ph_graph_cache_options options)
{
    (void)alarm(HANGS_AFTER);
    memset(&again, 0, sizeof again);
    options.event = on_event;
    t_cached_open(&s, &options);
    again.within = (t_cached_work){.x = s.buffers[6], .y = s.outputs[1], .value = 7};
    again.key = "a";
}

static void close_scene(void)
{
    again.key = NULL;
    t_cached_close(&s);
    (void)alarm(0);
    assert_int_equal(ph__alloc_live(), 0);
}

/* Beside those that captures are told with. */
static void expect_calls(int calls)
{
    assert_int_equal(again.calls, calls + again.captured);
    t_all(s.outputs[1], T_CACHED_N, 67, s.world.stream);
}

/* ---- refusals ---- */
TEST(a_refused_capture_tells_with_its_key_free)
{
    for (int prepares = 0; prepares < 2; prepares++) {
        open_with((ph_graph_cache_options){.after = PH_ZERO});
        t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5, .synchronizes = true};
        const void *pointers[] = {w.x, w.y};
        const ph_graph_cache_value values[] = {{&w.value, sizeof w.value}};
        const ph_graph_cache_call call = {.key = "a",
                                          .key_bytes = 1,
                                          .body = t_cached_body,
                                          .user = &w,
                                          .pointers = pointers,
                                          .pointer_count = 2,
                                          .values = values,
                                          .value_count = 1};
        w.scene = &s;
        if (prepares)
            assert_ok(ph_graph_cache_prepare(s.cache, s.world.stream, &call, 1, NULL, NULL));
        t_cached_run(&s, "a", &w, 10, PH_CACHE_EAGER);
        assert_int_equal(again.refused, 1);
        expect_calls(1);
        close_scene();
    }
}

TEST(a_graph_beyond_the_budget_goes_with_its_key_free)
{
    open_with((ph_graph_cache_options){.after = PH_ZERO, .budget = 1});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    assert_int_equal(run_retaining("a", &w, w.x).path, PH_CACHE_EAGER);
    t_cached_expect(&s, &w, 10);
    assert_int_equal(again.refused, 1);
    assert_int_equal(again.released, 1);
    expect_calls(2);
    close_scene();
}

/* The log says where the input was freed, the graph goes with its object, and at last the key is
 * refused. */
TEST(a_refused_replay_tells_with_its_key_free)
{
    ph_capture_options capture = {.check_input_liveness = true};
    assert_ok(ph_memory_record_sites(8));
    open_with((ph_graph_cache_options){.after = PH_ZERO, .capture = &capture});
    t_cached_work w = {.y = s.outputs[0], .value = 5};
    again.key = NULL; /* a call would capture it; numbers and the table need its lock, too */
    ph_log_set(on_log, NULL);
    for (int i = 1; i <= 3; i++) {
        int32_t *gone;
        assert_ok(PH_NEW(&gone, T_CACHED_N, s.world.stream));
        assert_ok(t_fill(&s.world, s.world.stream, gone, T_CACHED_N, 10));
        w.x = gone;
        assert_int_equal(run_retaining("a", &w, gone).path, PH_CACHE_CAPTURED);
        t_cached_expect(&s, &w, 10);
        int released = again.released;
        ph_free(gone, s.world.stream);
        w.x = s.buffers[1]; /* the body has other memory, and the call does not say so */
        assert_int_equal(run_retaining("a", &w, gone).path, PH_CACHE_EAGER);
        t_cached_expect(&s, &w, 10);
        assert_int_equal(again.released, released + 1);
        assert_int_equal(again.refused, i == 3);
    }
    assert_true(again.logged > 0);
    assert_int_equal(again.calls, again.logged + again.released + again.refused + again.captured);
    ph_log_set(NULL, NULL);
    close_scene();
    assert_ok(ph_memory_record_sites(0));
}

TEST(what_cannot_be_learned_is_told_with_its_key_free)
{
    open_with((ph_graph_cache_options){.after = PH_ZERO});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    assert_int_equal(run_retaining("a", &w, w.x).path, PH_CACHE_CAPTURED);
    t_cached_expect(&s, &w, 10);
    for (int i = 1; i <= 4; i++) {
        w.more = i;
        w.value = 100 + i;
        assert_int_equal(run_retaining("a", &w, w.x).path, PH_CACHE_EAGER);
        t_cached_expect(&s, &w, 10);
    }
    assert_int_equal(again.refused, 1);
    assert_int_equal(again.released, 3);
    expect_calls(4);
    close_scene();
}

/* ---- updates ---- */
TEST(executables_are_made_and_go_with_their_key_free)
{
    ph_hook *hook;
    open_with((ph_graph_cache_options){.after = PH_ZERO, .fallback = PH_CACHE_FALLBACK_UPDATE});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    assert_int_equal(run_retaining("a", &w, w.x).path, PH_CACHE_CAPTURED);
    t_cached_expect(&s, &w, 10);
    assert_ok(ph_graph_hook_add(&hook, NULL, PH_HOOK_INSTANTIATE, on_instantiate, NULL));
    for (int i = 0; i < 20; i++) { /* topologies of 4 to 9 nodes: more than a key keeps */
        w.more = 1 + i % 6;
        w.value = 100 + i;
        w.x = s.buffers[i % 6];
        assert_int_equal(run_retaining("a", &w, w.x).path, PH_CACHE_UPDATED);
        t_cached_expect(&s, &w, 10 * (i % 6));
    }
    ph_graph_hook_remove(hook);
    assert_true(again.released > 4 && again.made > 4);
    expect_calls(again.refused + again.released + again.made);
    close_scene();
}

/* ---- room ---- */
typedef struct large {
    size_t bytes;
    int32_t *y;
} large;

static ph_status large_body(ph_stream *stream, void *user)
{
    const large *l = user;
    ph_graph *graph = NULL;
    void *room;
    PH_TRY(ph_malloc(&room, l->bytes, 1, stream));
    ph_status status = ph_memset(room, 3, 64, stream);
    if (status == PH_OK)
        status = ph_memcpy(l->y, room, 64, stream);
    ph_free(room, stream);
    PH_TRY(status);
    PH_TRY(ph_stream_capturing_graph(&graph, stream));
    return graph ? ph_graph_retain(graph, on_release, &s, false) : PH_OK;
}

/* What a capture brought needs the room of another graph, or has none: which goes first. A GPU's
 * driver takes memory for executables in pieces of megabytes. */
TEST(graphs_are_evicted_with_the_keys_free)
{
    const size_t mib = (size_t)1 << 20;
    open_with((ph_graph_cache_options){.after = PH_ZERO, .budget = 240 * mib});
    for (int i = 0; i < 8; i++) {
        large l = {.bytes = (i % 2 ? 180 : 120) * mib, .y = s.outputs[0]}, same = l;
        size_t key = l.bytes;
        again.key = (const char *)&key;
        again.key_bytes = sizeof key;
        again.body = large_body;
        again.user = &same;
        assert_ok(ph_graph_cache_run(
            s.cache, s.world.stream,
            &(ph_graph_cache_call){
                .key = &l.bytes, .key_bytes = sizeof l.bytes, .body = large_body, .user = &l},
            NULL));
        t_all(s.outputs[0], 16, 0x03030303, s.world.stream);
    }
    assert_true(again.evicted > 0 && again.released > 0);
    assert_int_equal(again.calls, again.evicted + again.released + again.refused + again.captured);
    close_scene();
}

TEST(a_dropped_key_and_the_caches_end_release_objects_that_call_it)
{
    open_with((ph_graph_cache_options){0});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    for (int i = 0; i < 3; i++) {
        (void)run_retaining("a", &w, w.x);
        t_cached_expect(&s, &w, 10);
    }
    assert_ok(ph_graph_cache_drop(s.cache, "a", 1));
    assert_int_equal(again.released, 1);
    for (int i = 0; i < 3; i++) {
        (void)run_retaining("a", &w, w.x);
        t_cached_expect(&s, &w, 10);
    }
    ph_graph_cache_destroy(s.cache);
    s.cache = NULL;
    assert_int_equal(again.released, 2);
    expect_calls(2);
    close_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_capture_tells_with_its_key_free),
        cmocka_unit_test(a_graph_beyond_the_budget_goes_with_its_key_free),
        cmocka_unit_test(a_refused_replay_tells_with_its_key_free),
        cmocka_unit_test(what_cannot_be_learned_is_told_with_its_key_free),
        cmocka_unit_test(executables_are_made_and_go_with_their_key_free),
        cmocka_unit_test(graphs_are_evicted_with_the_keys_free),
        cmocka_unit_test(a_dropped_key_and_the_caches_end_release_objects_that_call_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
