/* SPDX-License-Identifier: MIT */
/* tests/graph/cache.c: graphs by key: which way a call goes, and that the device does its work
 * once. */
#include "support/cached.h"

#include "base/alloc.h"
#include "support/test.h"

static t_cached s;

FIXTURE(open_world)
{
    t_cached_open(&s, NULL);
    return 0;
}

FIXTURE(close_world)
{
    t_cached_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

TEST(a_key_runs_eagerly_twice_then_is_captured_and_replayed)
{
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    t_cached_run(&s, "a", &w, 10, PH_CACHE_EAGER);
    t_cached_run(&s, "a", &w, 10, PH_CACHE_EAGER);
    t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
    for (int i = 0; i < 5; i++)
        t_cached_run(&s, "a", &w, 10, PH_CACHE_REPLAYED);
    assert_int_equal(w.bodies, 3);
}

TEST(keys_that_alternate_do_not_disturb_each_other)
{
    t_cached_work a = {.x = s.buffers[1], .y = s.outputs[0], .value = 5},
                  b = {.x = s.buffers[2], .y = s.outputs[1], .value = 6, .more = 2};
    for (int i = 0; i < 8; i++) {
        ph_graph_cache_path path = i < 2    ? PH_CACHE_EAGER
                                   : i == 2 ? PH_CACHE_CAPTURED
                                            : PH_CACHE_REPLAYED;
        t_cached_run(&s, "a", &a, 10, path);
        t_cached_run(&s, "b", &b, 20, path);
    }
    assert_int_equal(a.bodies, 3);
    assert_int_equal(b.bodies, 3);
}

TEST(keys_are_compared_whole)
{
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    char key[4096], other[4096];
    memset(key, 'k', sizeof key);
    memcpy(other, key, sizeof key);
    key[sizeof key - 1] = other[sizeof other - 1] = '\0';
    other[sizeof other - 2] = 'l';
    for (int i = 0; i < 3; i++)
        t_cached_run(&s, key, &w, 10, i < 2 ? PH_CACHE_EAGER : PH_CACHE_CAPTURED);
    w.more = 3;
    t_cached_run(&s, other, &w, 10, PH_CACHE_EAGER);
}

TEST(a_drop_makes_the_key_a_new_one)
{
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    for (int i = 0; i < 3; i++)
        t_cached_run(&s, "a", &w, 10, i < 2 ? PH_CACHE_EAGER : PH_CACHE_CAPTURED);
    assert_ok(ph_graph_cache_drop(s.cache, "a", 1));
    assert_error(ph_graph_cache_drop(s.cache, "a", 1), PH_ERROR_NOT_FOUND, "no call had this key");
    t_cached_run(&s, "a", &w, 10, PH_CACHE_EAGER);
}

TEST(prepared_calls_replay_at_once_with_their_places_learned)
{
    t_cached_work works[2] = {
        {.scene = &s, .x = s.buffers[1], .y = s.outputs[0], .value = 5},
        {.scene = &s, .x = s.buffers[2] + T_CACHED_N, .y = s.outputs[1], .value = 0x1234567}};
    const void *pointers[2][2];
    ph_graph_cache_value values[2];
    ph_graph_cache_call calls[2];
    for (int i = 0; i < 2; i++) {
        pointers[i][0] = works[i].x;
        pointers[i][1] = works[i].y;
        values[i] = (ph_graph_cache_value){.data = &works[i].value, .bytes = sizeof(int32_t)};
        calls[i] = (ph_graph_cache_call){.key = "a",
                                         .key_bytes = 1,
                                         .body = t_cached_body,
                                         .user = &works[i],
                                         .pointers = pointers[i],
                                         .pointer_count = 2,
                                         .values = &values[i],
                                         .value_count = 1};
    }
    assert_ok(ph_graph_cache_prepare(s.cache, s.world.stream, calls, 2, NULL, NULL));
    t_all(s.total, 1, 0, s.world.stream);
    t_cached_run(&s, "a", &works[1], 20, PH_CACHE_REPLAYED);
    t_cached_run(&s, "a", &works[0], 10, PH_CACHE_REPLAYED);
    assert_int_equal(works[0].bodies, 1);
    assert_int_equal(works[1].bodies, 1);
}

static bool stop_after_first(size_t done, size_t count, void *user)
{
    (void)done, (void)count;
    ++*(int *)user;
    return false;
}

TEST(progress_ends_a_preparation)
{
    t_cached_work w = {.scene = &s, .x = s.buffers[1], .y = s.outputs[0], .value = 5};
    ph_graph_cache_call calls[2];
    int told = 0;
    for (int i = 0; i < 2; i++)
        calls[i] = (ph_graph_cache_call){
            .key = i ? "b" : "a", .key_bytes = 1, .body = t_cached_body, .user = &w};
    assert_ok(ph_graph_cache_prepare(s.cache, s.world.stream, calls, 2, stop_after_first, &told));
    assert_int_equal(told, 1);
    assert_int_equal(w.bodies, 1);
}

/* ---- captures of the caller's ---- */
typedef struct outer {
    t_cached_work *work;
    ph_graph_cache_path path;
} outer;

static ph_status outer_body(ph_stream *stream, void *user)
{
    outer *o = user;
    ph_graph_cache_result result;
    (void)stream;
    PH_TRY(t_cached_call(&s, "a", o->work, &result));
    o->path = result.path;
    return PH_OK;
}

static void replay_in_capture(t_cached_work *w, int32_t x_value, ph_graph_cache_path path)
{
    outer o = {.work = w};
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s.world.stream, NULL, outer_body, &o));
    assert_int_equal(o.path, path);
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_graph_replay(graph, s.world.stream));
        t_cached_expect(&s, w, x_value);
    }
    ph_graph_destroy(graph);
}

TEST(in_a_capture_a_hit_is_a_child_graph_and_a_miss_records_the_body)
{
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    replay_in_capture(&w, 10, PH_CACHE_RECORDED);
    for (int i = 0; i < 3; i++)
        t_cached_run(&s, "a", &w, 10, i < 2 ? PH_CACHE_EAGER : PH_CACHE_CAPTURED);
    replay_in_capture(&w, 10, PH_CACHE_NESTED);
    w.x = s.buffers[3]; /* a child has the captured addresses */
    replay_in_capture(&w, 30, PH_CACHE_RECORDED);
    ph_graph_cache_stats stats;
    assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
    assert_int_equal(stats.nested, 1);
    assert_int_equal(stats.recorded, 2);
    assert_int_equal(stats.graphs, 1);
}

TEST(stats_and_entries_say_what_was_done)
{
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    ph_graph_cache_stats stats;
    ph_graph_cache_entry entry;
    char *text;
    for (int i = 0; i < 6; i++)
        t_cached_run(&s, "first", &w, 10,
                     i < 2    ? PH_CACHE_EAGER
                     : i == 2 ? PH_CACHE_CAPTURED
                              : PH_CACHE_REPLAYED);
    t_cached_run(&s, "second", &w, 10, PH_CACHE_EAGER);
    assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
    assert_int_equal(stats.calls, 7);
    assert_int_equal(stats.eager, 3);
    assert_int_equal(stats.captured, 1);
    assert_int_equal(stats.replayed, 3);
    assert_int_equal(stats.keys, 2);
    assert_int_equal(stats.graphs, 1);
    assert_true(stats.pool_bytes > 0);
    assert_ok(ph_graph_cache_entry_at(&entry, s.cache, 0));
    assert_memory_equal(entry.key, "second", 6);
    assert_false(entry.has_graph);
    assert_ok(ph_graph_cache_entry_at(&entry, s.cache, 1));
    assert_int_equal(entry.uses, 6);
    assert_int_equal(entry.hits, 3);
    assert_true(entry.has_graph && !entry.refused);
    assert_error(ph_graph_cache_entry_at(&entry, s.cache, 2), PH_ERROR_NOT_FOUND, "no entry 2");
    assert_ok(ph_graph_cache_text(&text, s.cache));
    assert_non_null(strstr(text, "2 keys, 1 with graphs"));
    assert_non_null(strstr(text, "\nfirst  "));
    ph_string_free(text);
}

TEST(an_output_that_another_key_overwrote_is_known)
{
    t_cached_work a = {.x = s.buffers[1], .y = s.outputs[0], .value = 5},
                  b = {.x = s.buffers[2], .y = s.outputs[1], .value = 6};
    ph_graph_cache_result first, second;
    for (int i = 0; i < 3; i++) {
        t_cached_run(&s, "a", &a, 10, i < 2 ? PH_CACHE_EAGER : PH_CACHE_CAPTURED);
        t_cached_run(&s, "b", &b, 20, i < 2 ? PH_CACHE_EAGER : PH_CACHE_CAPTURED);
    }
    assert_ok(t_cached_call(&s, "a", &a, &first));
    assert_non_null(first.graph);
    assert_int_equal(first.epoch, ph_graph_epoch(first.graph));
    assert_ok(t_cached_call(&s, "b", &b, &second));
    assert_true(second.epoch > first.epoch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_key_runs_eagerly_twice_then_is_captured_and_replayed),
        IN_WORLD(keys_that_alternate_do_not_disturb_each_other),
        IN_WORLD(keys_are_compared_whole),
        IN_WORLD(a_drop_makes_the_key_a_new_one),
        IN_WORLD(prepared_calls_replay_at_once_with_their_places_learned),
        IN_WORLD(progress_ends_a_preparation),
        IN_WORLD(in_a_capture_a_hit_is_a_child_graph_and_a_miss_records_the_body),
        IN_WORLD(stats_and_entries_say_what_was_done),
        IN_WORLD(an_output_that_another_key_overwrote_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
