/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_events.c: what the event callback is told, against results and numbers. */
#include "support/cached.h"

#include "base/alloc.h"
#include "support/test.h"
#include <stdio.h>

static t_cached s;
static int told[PH_CACHE_KEPT + 1];

static void on_event(const ph_graph_cache_event *event, void *user)
{
    (void)user;
    assert_in_range(event->what, 1, PH_CACHE_KEPT);
    assert_int_equal(event->key_bytes, 1);
    assert_memory_equal(event->key, "a", 1);
    told[event->what]++;
}

static void open_with(ph_graph_cache_options options)
{
    memset(told, 0, sizeof told);
    if (!options.event)
        options.event = on_event;
    t_cached_open(&s, &options);
}

static void close_scene(void)
{
    t_cached_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

static void expect_told(int captured, int learned, int refused)
{
    int count = 0;
    for (int what = 1; what <= PH_CACHE_KEPT; what++)
        count += told[what];
    assert_int_equal(told[PH_CACHE_CAPTURED], captured);
    assert_int_equal(told[PH_CACHE_LEARNED], learned);
    assert_int_equal(told[PH_CACHE_REFUSED], refused);
    assert_int_equal(count, captured + learned + refused);
}

TEST(captures_and_learnt_places_are_told_once)
{
    open_with((ph_graph_cache_options){0});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    for (int i = 0; i < 2; i++)
        t_cached_run(&s, "a", &w, 10, PH_CACHE_EAGER);
    expect_told(0, 0, 0);
    t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
    expect_told(1, 0, 0);
    t_cached_run(&s, "a", &w, 10, PH_CACHE_REPLAYED);
    w.x = s.buffers[2];
    w.value = 6;
    t_cached_run(&s, "a", &w, 20, PH_CACHE_LEARNED);
    expect_told(1, 1, 0);
    for (int i = 0; i < 2; i++)
        t_cached_run(&s, "a", &w, 20, PH_CACHE_REPLAYED);
    expect_told(1, 1, 0);
    close_scene();
}

TEST(so_are_those_of_prepared_calls)
{
    open_with((ph_graph_cache_options){0});
    t_cached_work works[2] = {{.scene = &s, .x = s.buffers[1], .y = s.outputs[0], .value = 5},
                              {.scene = &s, .x = s.buffers[2], .y = s.outputs[0], .value = 5}};
    const void *pointers[2][1] = {{works[0].x}, {works[1].x}};
    ph_graph_cache_call calls[2];
    for (int i = 0; i < 2; i++)
        calls[i] = (ph_graph_cache_call){.key = "a",
                                         .key_bytes = 1,
                                         .body = t_cached_body,
                                         .user = &works[i],
                                         .pointers = pointers[i],
                                         .pointer_count = 1};
    assert_ok(ph_graph_cache_prepare(s.cache, s.world.stream, calls, 2, NULL, NULL));
    expect_told(1, 1, 0);
    close_scene();
}

/* The entry says so, too, and the numbers count the key once. */
static void expect_unlearned(const char *why)
{
    ph_graph_cache_stats stats;
    ph_graph_cache_entry entry;
    expect_told(1, 0, 1);
    assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
    assert_int_equal(stats.refused, 1);
    assert_ok(ph_graph_cache_entry_at(&entry, s.cache, 0));
    assert_false(entry.refused);
    assert_non_null(strstr(entry.reason, why));
}

TEST(keys_that_cannot_be_learned_are_counted_as_refused)
{
    for (int f = PH_CACHE_FALLBACK_EAGER; f <= PH_CACHE_FALLBACK_UPDATE; f++) {
        open_with(
            (ph_graph_cache_options){.after = PH_ZERO, .fallback = (ph_graph_cache_fallback)f});
        t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
        t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
        for (int i = 1; i <= 5; i++) {
            w.more = i;
            w.value = 100 + i;
            t_cached_run(&s, "a", &w, 10, f ? PH_CACHE_UPDATED : PH_CACHE_EAGER);
        }
        expect_unlearned("nodes, the captured one");
        close_scene();
    }
}

TEST(so_are_those_whose_later_captures_are_refused)
{
    open_with((ph_graph_cache_options){.after = PH_ZERO});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
    w.synchronizes = true;
    w.x = s.buffers[2];
    for (int i = 1; i <= 5; i++)
        t_cached_run(&s, "a", &w, 20, PH_CACHE_EAGER);
    expect_unlearned("ph_stream_synchronize");
    close_scene();
}

/* Of a value no capture was ever learned from, "the same in all captures" would be wrong. */
TEST(results_have_the_reason_that_a_key_is_not_learned_for)
{
    open_with((ph_graph_cache_options){.after = PH_ZERO, .fallback = PH_CACHE_FALLBACK_UPDATE});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    t_cached_run(&s, "a", &w, 10, PH_CACHE_CAPTURED);
    for (int i = 1; i <= 5; i++) {
        ph_graph_cache_result result;
        w.more = i;
        w.value = 100 + i;
        assert_ok(t_cached_call(&s, "a", &w, &result));
        t_cached_expect(&s, &w, 10);
        assert_int_equal(result.path, PH_CACHE_UPDATED);
        assert_non_null(strstr(result.reason, "nodes, the captured one"));
    }
    close_scene();
}

/* ---- calls of callbacks ---- */
static char within[240];

static void call_within(const ph_graph_cache_event *event, void *user)
{
    ph_graph_cache_result result;
    t_cached_work w = {.x = s.buffers[3], .y = s.outputs[1], .value = 9};
    (void)user;
    if (event->what != PH_CACHE_CAPTURED)
        return;
    assert_ok(t_cached_call(&s, "a", &w, &result));
    s.calls++; /* the outer one's replay came before */
    t_cached_expect(&s, &w, 30);
    assert_int_equal(result.path, PH_CACHE_EAGER);
    (void)snprintf(within, sizeof within, "%s", result.reason);
}

TEST(a_call_of_a_callback_has_its_own_reason)
{
    open_with((ph_graph_cache_options){.after = PH_ZERO, .event = call_within});
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    assert_ok(t_cached_call(&s, "a", &w, NULL));
    t_all(w.y, T_CACHED_N, 15, s.world.stream);
    assert_int_equal(s.calls, 2);
    assert_non_null(strstr(within, "the call is made within one that captures"));
    w.x = s.buffers[2];
    t_cached_run(&s, "a", &w, 20, PH_CACHE_LEARNED);
    close_scene();
}

/* ---- long reasons ---- */
static char last_reason[240];

static void keep_reason(const ph_graph_cache_event *event, void *user)
{
    (void)user;
    (void)snprintf(last_reason, sizeof last_reason, "%s", event->reason);
}

static ph_status verbose_body(ph_stream *stream, void *user)
{
    ph_graph *capturing = NULL;
    PH_TRY(ph_stream_capturing_graph(&capturing, stream));
    return capturing ? ph_fail(PH_ERROR_ARGUMENT, "%s", (const char *)user) : PH_OK;
}

static void expect_reason(const char *end, const char *clauses, size_t words)
{
    char message[440];
    ph_graph_cache_result result;
    ph_graph_cache_entry entry;
    size_t length = 0;
    for (size_t i = 0; i < words; i++)
        length += (size_t)snprintf(message + length, sizeof message - length, "word ");
    (void)snprintf(message + length, sizeof message - length, "%s", clauses);
    open_with((ph_graph_cache_options){.after = PH_ZERO, .event = keep_reason});
    assert_ok(ph_graph_cache_run(
        s.cache, s.world.stream,
        &(ph_graph_cache_call){.key = "a", .key_bytes = 1, .body = verbose_body, .user = message},
        &result));
    assert_memory_equal(result.reason, "word word", 9);
    assert_string_equal(result.reason + strlen(result.reason) - strlen(end), end);
    assert_string_equal(last_reason, result.reason);
    assert_ok(ph_graph_cache_entry_at(&entry, s.cache, 0));
    assert_string_equal(entry.reason, result.reason);
    close_scene();
}

TEST(a_long_reason_keeps_what_to_do)
{
    expect_reason("word ; one; two", "; one; two", 20);
    expect_reason("word w...; take the short way", "; one thing; take the short way", 60);
    expect_reason("...", "", 60);
    expect_reason("...",
                  "; but the last clause is longer than half of the room that there is, and "
                  "goes on, and on, and on, and on, and on, and on, and on, as some do",
                  20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captures_and_learnt_places_are_told_once),
        cmocka_unit_test(so_are_those_of_prepared_calls),
        cmocka_unit_test(keys_that_cannot_be_learned_are_counted_as_refused),
        cmocka_unit_test(so_are_those_whose_later_captures_are_refused),
        cmocka_unit_test(results_have_the_reason_that_a_key_is_not_learned_for),
        cmocka_unit_test(a_call_of_a_callback_has_its_own_reason),
        cmocka_unit_test(a_long_reason_keeps_what_to_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
