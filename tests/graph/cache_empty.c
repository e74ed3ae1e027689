/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_empty.c: bodies whose capture is empty, as they submit to another stream than
 * they are given: no replay of nothing stands for their work. */
#include "support/cached.h"

#include "base/alloc.h"
#include "support/test.h"
#include <stdio.h>

static t_cached s;
static ph_stream *other;
static int refused, bodies, functions;
static bool elsewhere;
static char reason[240];

static void on_event(const ph_graph_cache_event *event, void *user)
{
    (void)user;
    if (event->what != PH_CACHE_REFUSED)
        return;
    refused++;
    (void)snprintf(reason, sizeof reason, "%s", event->reason);
}

static void open_with(ph_graph_cache_options options)
{
    refused = bodies = functions = 0;
    elsewhere = true;
    options.event = on_event;
    t_cached_open(&s, &options);
    assert_ok(ph_stream_create(&other, s.world.device, NULL));
    assert_ok(ph_stream_synchronize(s.world.stream));
}

static void close_scene(void)
{
    ph_stream_destroy(other);
    t_cached_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

static ph_status count_up(ph_stream *stream, void *user)
{
    (void)user;
    functions++;
    return t_add(&s.world, stream, s.total, s.total, 1, 1);
}

static ph_status wrong_stream(ph_stream *stream, void *user)
{
    (void)user;
    bodies++;
    return t_add(&s.world, elsewhere ? other : stream, s.total, s.total, 1, 1);
}

static ph_status nothing(ph_stream *stream, void *user)
{
    (void)stream, (void)user;
    bodies++;
    return PH_OK;
}

static ph_status only_breaks(ph_stream *stream, void *user)
{
    bodies++;
    return ph_break(stream, count_up, user);
}

static ph_graph_cache_result run(ph_capture_fn body, const int32_t *pointer)
{
    ph_graph_cache_result result;
    const void *pointers[] = {pointer};
    assert_ok(ph_graph_cache_run(
        s.cache, s.world.stream,
        &(ph_graph_cache_call){
            .key = "a", .key_bytes = 1, .body = body, .pointers = pointers, .pointer_count = 1},
        &result));
    assert_ok(ph_stream_synchronize(other));
    return result;
}

static void expect_refused(ph_status status)
{
    ph_graph_cache_entry entry;
    ph_graph_cache_stats stats;
    assert_int_equal(refused, 1);
    assert_non_null(strstr(reason, "wrong stream or device?"));
    assert_non_null(strstr(reason, "drop the key"));
    assert_ok(ph_graph_cache_entry_at(&entry, s.cache, 0));
    assert_true(entry.refused && !entry.has_graph);
    assert_string_equal(entry.reason, reason);
    assert_int_equal(entry.status, status);
    assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
    assert_int_equal(stats.refused, 1);
    assert_int_equal(stats.captured + stats.replayed, 0);
}

/* The third call is captured, and its work goes to the other stream meanwhile: once. */
static void work_elsewhere_is_done_once(ph_graph_cache_options options)
{
    open_with(options);
    for (int i = 1; i <= 6; i++) {
        ph_graph_cache_result result = run(wrong_stream, s.buffers[1]);
        assert_int_equal(result.path, PH_CACHE_EAGER);
        assert_null(result.graph);
        assert_true(i < 3 || strstr(result.reason, "wrong stream or device?"));
        t_all(s.total, 1, i, other);
        assert_int_equal(bodies, i);
    }
    expect_refused(PH_ERROR_STATE);
    assert_ok(ph_graph_cache_drop(s.cache, "a", 1));
    elsewhere = false;
    for (int i = 0; i < 3; i++)
        assert_int_equal(run(wrong_stream, s.buffers[1]).path,
                         i < 2 ? PH_CACHE_EAGER : PH_CACHE_CAPTURED);
    close_scene();
}

TEST(work_on_another_stream_is_not_lost_and_done_once)
{
    work_elsewhere_is_done_once((ph_graph_cache_options){0});
}

TEST(so_it_is_where_captures_are_strict_or_may_have_breaks)
{
    const ph_capture_options strict = {.mode = PH_CAPTURE_THREAD_LOCAL, .strict = true},
                             breaks = {.mode = PH_CAPTURE_THREAD_LOCAL, .allow_breaks = true};
    work_elsewhere_is_done_once((ph_graph_cache_options){.capture = &strict});
    work_elsewhere_is_done_once((ph_graph_cache_options){.capture = &breaks});
}

TEST(a_body_that_does_nothing_runs)
{
    open_with((ph_graph_cache_options){.after = PH_ZERO});
    for (int i = 1; i <= 4; i++) {
        assert_int_equal(run(nothing, s.buffers[1]).path, PH_CACHE_EAGER);
        assert_int_equal(bodies, i);
    }
    expect_refused(PH_ERROR_STATE);
    close_scene();
}

/* Their functions may submit to any stream; no capture calls them. */
TEST(a_body_of_breaks_alone_runs_and_its_functions_are_called_once)
{
    const ph_capture_options breaks = {.mode = PH_CAPTURE_THREAD_LOCAL, .allow_breaks = true};
    open_with((ph_graph_cache_options){.after = 1, .capture = &breaks});
    for (int i = 1; i <= 5; i++) {
        assert_int_equal(run(only_breaks, s.buffers[1]).path, PH_CACHE_EAGER);
        assert_int_equal(functions, i);
        t_all(s.total, 1, i, s.world.stream);
    }
    expect_refused(PH_ERROR_STATE);
    close_scene();
}

/* A later capture that is empty teaches nothing, and no executable is made or updated of it. */
static void later_capture(ph_graph_cache_fallback fallback)
{
    open_with((ph_graph_cache_options){.after = PH_ZERO, .fallback = fallback});
    elsewhere = false;
    assert_int_equal(run(wrong_stream, s.buffers[1]).path, PH_CACHE_CAPTURED);
    assert_ok(ph_stream_synchronize(s.world.stream));
    elsewhere = true;
    for (int i = 2; i <= 7; i++) {
        ph_graph_cache_result result = run(wrong_stream, s.buffers[2] + 16 * i);
        assert_int_equal(result.path, PH_CACHE_EAGER);
        assert_non_null(strstr(result.reason, "wrong stream or device?"));
        t_all(s.total, 1, i, other);
    }
    assert_int_equal(bodies, 7);
    assert_int_equal(run(wrong_stream, s.buffers[1]).path, PH_CACHE_REPLAYED);
    t_all(s.total, 1, 8, s.world.stream);
    close_scene();
}

TEST(a_later_capture_that_is_empty_is_not_used)
{
    later_capture(PH_CACHE_FALLBACK_EAGER);
    later_capture(PH_CACHE_FALLBACK_UPDATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_on_another_stream_is_not_lost_and_done_once),
        cmocka_unit_test(so_it_is_where_captures_are_strict_or_may_have_breaks),
        cmocka_unit_test(a_body_that_does_nothing_runs),
        cmocka_unit_test(a_body_of_breaks_alone_runs_and_its_functions_are_called_once),
        cmocka_unit_test(a_later_capture_that_is_empty_is_not_used),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
