/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_breaks.c: bodies with breaks behind a cache: the functions are called once in
 * each call, whatever way it goes. */
#include "support/fixture.h"
#include "support/support.h"

#include <phonograph/graph_cache_stats.h>
#include <stdio.h>
#include <string.h>

enum {
    N = 100
};
static t_world world;
static ph_graph_cache *cache;
static ph_graph *graph;
static ph_stream *side;
static int32_t *x, *y, *z;
static int calls, bodies, fails_at;

static const t_fixture fixture = {
    .world = &world,
    .streams = {&side},
    .graphs = {&graph},
    .arrays = {{&x, N, T_INTS, 0}, {&y, N, T_INTS, 0}, {&z, N, T_INTS, 0}},
    .leaves_nothing = true};

static void make_cache(size_t budget)
{
    const ph_capture_options capture = {.mode = PH_CAPTURE_THREAD_LOCAL, .allow_breaks = true};
    assert_ok(ph_graph_cache_create(
        &cache, world.device,
        &(ph_graph_cache_options){.after = 1, .budget = budget, .capture = &capture}));
}

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    calls = bodies = fails_at = 0;
    make_cache(0);
    return 0;
}

FIXTURE(close_world)
{
    ph_graph_cache_destroy(cache);
    cache = NULL;
    t_fixture_close(&fixture);
    return 0;
}

/* x += 1, once more: what is done twice would show. */
static ph_status count_up(ph_stream *stream, void *user)
{
    (void)user;
    if (++calls == fails_at)
        return ph_fail(PH_ERROR_DEVICE_MEMORY, "the words of the function");
    return t_add(&world, stream, x, x, N, 1);
}

/* x += 3 in all, y = x. */
static ph_status work(ph_stream *stream, void *user)
{
    bodies++;
    PH_TRY(t_add(&world, stream, x, x, N, 1));
    PH_TRY(ph_break(stream, count_up, user));
    PH_TRY(t_add(&world, stream, x, x, N, 1));
    return t_add(&world, stream, x, y, N, 0);
}

static ph_graph_cache_result result;
static ph_status run(const char *key, const void *pointer, ph_stream *stream, ph_capture_fn body)
{
    const void *pointers[] = {pointer};
    return ph_graph_cache_run(cache, stream,
                              &(ph_graph_cache_call){.key = key,
                                                     .key_bytes = strlen(key),
                                                     .body = body,
                                                     .pointers = pointers,
                                                     .pointer_count = pointer != NULL},
                              &result);
}

TEST(test_functions_are_called_once_in_each_call)
{
    static const ph_graph_cache_path paths[] = {PH_CACHE_EAGER, PH_CACHE_CAPTURED,
                                                PH_CACHE_REPLAYED, PH_CACHE_REPLAYED};
    for (int i = 0; i < 4; i++) {
        assert_ok(run("key", NULL, i == 3 ? side : world.stream, work));
        assert_int_equal(result.path, paths[i]);
        assert_int_equal(calls, i + 1);
        t_all(x, N, 3 * (i + 1), i == 3 ? side : world.stream);
        t_all(y, N, 3 * (i + 1), i == 3 ? side : world.stream);
    }
    assert_int_equal(bodies, 2);
    assert_int_equal(ph_graph_segment_count(result.graph), 2);
}

TEST(test_pointers_that_move_are_not_learned_across_breaks)
{
    for (int i = 0; i < 2; i++)
        assert_ok(run("key", x, world.stream, work));
    assert_int_equal(result.path, PH_CACHE_CAPTURED);
    for (int i = 2; i < 5; i++) { /* whatever it was told, the body is the same */
        assert_ok(run("key", z, world.stream, work));
        assert_int_equal(result.path, PH_CACHE_EAGER);
        assert_non_null(strstr(result.reason, "the body has breaks"));
    }
    assert_ok(run("key", x, world.stream, work));
    assert_int_equal(result.path, PH_CACHE_REPLAYED);
    assert_int_equal(calls, 6);
    t_all(x, N, 18, world.stream);
}

TEST(test_a_failing_function_is_the_failure_of_the_call)
{
    for (int i = 0; i < 2; i++)
        assert_ok(run("key", NULL, world.stream, work));
    fails_at = 3;
    assert_error(run("key", NULL, world.stream, work), PH_ERROR_DEVICE_MEMORY,
                 "the break after segment 0");
    assert_int_equal(bodies, 2);
    t_all(x, N, 7, world.stream); /* the first segment, once */
    assert_ok(run("key", NULL, world.stream, work));
    assert_int_equal(result.path, PH_CACHE_REPLAYED);
    t_all(x, N, 10, world.stream);
}

static ph_status run_again(ph_stream *stream, void *user)
{
    (void)user;
    if (calls++)
        return PH_OK;
    ph_graph_cache_result outer = result;
    ph_status status = run("key", NULL, stream, work); /* of the same key */
    assert_int_equal(result.path, PH_CACHE_EAGER);
    assert_non_null(strstr(result.reason, "in a replay with breaks"));
    result = outer;
    return status;
}

static ph_status nested(ph_stream *stream, void *user)
{
    PH_TRY(t_add(&world, stream, x, x, N, 1));
    return ph_break(stream, run_again, user);
}

TEST(test_a_function_may_run_the_cache)
{
    calls = 1;
    for (int i = 0; i < 2; i++)
        assert_ok(run("key", NULL, world.stream, nested));
    assert_int_equal(result.path, PH_CACHE_CAPTURED);
    calls = 0;
    assert_ok(run("key", NULL, world.stream, nested));
    assert_int_equal(result.path, PH_CACHE_REPLAYED);
    t_all(x, N, 6, world.stream); /* 3, and what `work` did meanwhile */
}

static ph_status run_in_capture(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_add(&world, stream, x, x, N, 1));
    return run("key", NULL, stream, work);
}

TEST(test_in_a_capture_the_body_becomes_a_part_of_it)
{
    for (int i = 0; i < 2; i++)
        assert_ok(run("key", NULL, world.stream, work));
    assert_ok(ph_graph_capture(graph, world.stream,
                               &(ph_capture_options){.allow_breaks = true, .defer_breaks = true},
                               run_in_capture, NULL));
    assert_int_equal(result.path, PH_CACHE_RECORDED);
    assert_int_equal(ph_graph_segment_count(graph), 2);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 10, world.stream);
    assert_ok(ph_graph_reset(graph));
    assert_error(ph_graph_capture(graph, world.stream, NULL, run_in_capture, NULL), PH_ERROR_STATE,
                 "allows no breaks");
}

TEST(test_graphs_with_breaks_are_evicted_as_others)
{
    ph_graph_cache_stats stats;
    for (int i = 0; i < 200; i++) {
        char key[16];
        snprintf(key, sizeof key, "key %d", i);
        for (int k = 0; k < 2; k++)
            assert_ok(run(key, NULL, world.stream, work));
        assert_int_equal(result.path, PH_CACHE_CAPTURED);
    }
    assert_ok(ph_graph_cache_get_stats(&stats, cache));
    assert_int_equal(stats.graphs, 64);
    t_all(x, N, 1200, world.stream);
}

TEST(test_options_that_the_cache_sets)
{
    ph_graph_cache *none;
    const ph_capture_options capture = {.allow_breaks = true, .defer_breaks = true};
    assert_error(
        ph_graph_cache_create(&none, world.device, &(ph_graph_cache_options){.capture = &capture}),
        PH_ERROR_ARGUMENT, "defer_breaks, which the cache sets");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_functions_are_called_once_in_each_call),
        IN_WORLD(test_pointers_that_move_are_not_learned_across_breaks),
        IN_WORLD(test_a_failing_function_is_the_failure_of_the_call),
        IN_WORLD(test_a_function_may_run_the_cache),
        IN_WORLD(test_in_a_capture_the_body_becomes_a_part_of_it),
        IN_WORLD(test_graphs_with_breaks_are_evicted_as_others),
        IN_WORLD(test_options_that_the_cache_sets),
    };
    return cmocka_run_group_tests_name("graph.cache_breaks", tests, NULL, NULL);
}
