/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_results.c: a call whose own callbacks make its graph go does not give that
 * graph: events and the log may drop the key, or run it. */
#include "support/cached.h"

#include "base/alloc.h"
#include "support/test.h"

static t_cached s;
static ph_kernel *copy_first; /* untyped */
static int32_t *gone;         /* freed by a callback, or before it is called */
static int called;

static void drop_key(ph_log_level level, const char *message, void *user)
{
    (void)level, (void)message, (void)user;
    called++;
    assert_ok(ph_graph_cache_drop(s.cache, "a", 1));
}

static ph_status copy_body(ph_stream *stream, void *user)
{
    (void)user;
    const struct t_copy_first args = {gone, s.outputs[0]};
    return ph_launch(stream, copy_first, NULL, &args, sizeof args);
}

/* The replay is not refused: nothing proves that the word is an address. */
TEST(a_hit_whose_message_drops_the_key_gives_no_graph)
{
    const ph_capture_options capture = {.check_input_liveness = true};
    const ph_graph_cache_call call = {.key = "a", .key_bytes = 1, .body = copy_body};
    ph_graph_cache_result result;
    ph_graph_cache_stats stats;
    called = 0;
    t_cached_open(&s, &(ph_graph_cache_options){.after = PH_ZERO, .capture = &capture});
    assert_ok(
        ph_kernel_create(&copy_first, s.world.device, &t_kernel_sources[T_KERNEL_COPY_FIRST]));
    assert_ok(PH_NEW(&gone, T_CACHED_N, s.world.stream));
    assert_ok(t_fill(&s.world, s.world.stream, gone, T_CACHED_N, 3));
    assert_ok(ph_graph_cache_run(s.cache, s.world.stream, &call, &result));
    assert_non_null(result.graph);
    ph_free(gone, s.world.stream);
    ph_log_set(drop_key, NULL);
    assert_ok(ph_graph_cache_run(s.cache, s.world.stream, &call, &result));
    ph_log_set(NULL, NULL);
    assert_int_equal(called, 1);
    assert_int_equal(result.path, PH_CACHE_REPLAYED);
    assert_null(result.graph);
    assert_int_equal(result.epoch, 0);
    assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
    assert_int_equal(stats.replayed, 1);
    assert_int_equal(stats.graphs, 0);
    ph_kernel_release(copy_first);
    t_cached_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

static void ignore(ph_log_level level, const char *message, void *user)
{
    (void)level, (void)message, (void)user;
}

/* The key is run once more, with memory that is gone: that replay is refused, and with it all
 * graphs of the key go. */
static void run_again(const ph_graph_cache_event *event, void *user)
{
    t_cached_work w = {.scene = &s, .x = s.buffers[6], .y = s.outputs[0], .value = 5};
    const void *pointers[] = {gone, w.y};
    const ph_graph_cache_value values[] = {{&w.value, sizeof w.value}};
    (void)user;
    if (event->what != PH_CACHE_REFUSED || called++)
        return;
    ph_free(gone, s.world.stream);
    assert_ok(ph_graph_cache_run(s.cache, s.world.stream,
                                 &(ph_graph_cache_call){.key = "a",
                                                        .key_bytes = 1,
                                                        .body = t_cached_body,
                                                        .user = &w,
                                                        .pointers = pointers,
                                                        .pointer_count = 2,
                                                        .values = values,
                                                        .value_count = 1},
                                 NULL));
    s.calls++;
}

TEST(an_update_whose_event_clears_the_key_gives_no_graph)
{
    const ph_capture_options capture = {.check_input_liveness = true};
    ph_graph_cache_result result = {.graph = NULL};
    called = 0;
    ph_log_set(ignore, NULL);
    t_cached_open(&s, &(ph_graph_cache_options){.after = PH_ZERO,
                                                .fallback = PH_CACHE_FALLBACK_UPDATE,
                                                .capture = &capture,
                                                .event = run_again});
    assert_ok(PH_NEW(&gone, T_CACHED_N, s.world.stream));
    t_cached_work w = {.x = gone, .y = s.outputs[0], .value = 5};
    assert_ok(t_cached_call(&s, "a", &w, &result));
    s.calls++;
    w.x = s.buffers[1];
    for (int i = 1; i <= 3; i++) {
        w.more = i;
        w.value = 100 + i;
        assert_ok(t_cached_call(&s, "a", &w, &result));
        s.calls++;
        assert_int_equal(result.path, PH_CACHE_UPDATED);
        assert_int_equal(result.graph != NULL, i < 3);
    }
    assert_int_equal(called, 1);
    assert_int_equal(result.epoch, 0);
    t_all(s.total, 1, s.calls, s.world.stream);
    t_cached_close(&s);
    ph_log_set(NULL, NULL);
    assert_int_equal(ph__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hit_whose_message_drops_the_key_gives_no_graph),
        cmocka_unit_test(an_update_whose_event_clears_the_key_gives_no_graph),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
