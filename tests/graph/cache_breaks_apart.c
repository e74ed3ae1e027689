/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_breaks_apart.c: while a call of a cache is between two segments of its graph,
 * other keys' graphs leave the memory alone that they share with it. */
#include "support/fixture.h"
#include "support/support.h"

#include <phonograph/graph_cache.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

enum {
    N = 100,
    HANGS_AFTER = 120 /* seconds: the alarm ends a program whose calls wait for each other */
};
static t_world world;
static ph_graph_cache *cache;
static ph_stream *side;
static int32_t *x, *y, *z;

static const t_fixture fixture = {
    .world = &world,
    .streams = {&side},
    .arrays = {{&x, N, T_INTS, 0}, {&y, N, T_INTS, 0}, {&z, N, T_INTS, 0}},
    .leaves_nothing = true};

/* The calls of a key. Its numbers are in memory of the graph's own when the break comes. */
typedef struct work {
    const char *key;
    ph_stream *stream;
    int32_t *out;
    int32_t value;
    ph_break_fn within;           /* NULL: the body has no break */
    void (*submitted)(void);      /* as the body's last act; NULL: there is none */
    ph_graph_cache_result result; /* of the last call */
} work;
static work outer, inner;
static bool armed; /* what is called within the outer key's calls calls the inner key */
static int told;   /* captures of the inner key */
static atomic_int is_inside, inner_is_over;

static void count_captures(const ph_graph_cache_event *event, void *user)
{
    (void)user;
    told += event->what == PH_CACHE_CAPTURED && event->key_bytes == strlen("inner") &&
            memcmp(event->key, "inner", event->key_bytes) == 0;
}

FIXTURE(open_world)
{
    const ph_capture_options capture = {.mode = PH_CAPTURE_THREAD_LOCAL, .allow_breaks = true};
    (void)alarm(HANGS_AFTER);
    t_fixture_open(&fixture);
    assert_ok(ph_graph_cache_create(
        &cache, world.device,
        &(ph_graph_cache_options){.after = 1, .capture = &capture, .event = count_captures}));
    outer = (work){.key = "outer", .stream = world.stream, .out = x, .value = 5};
    inner = (work){.key = "inner", .stream = side, .out = y, .value = 100};
    armed = false;
    told = 0;
    atomic_store(&is_inside, 0);
    atomic_store(&inner_is_over, 0);
    return 0;
}

FIXTURE(close_world)
{
    ph_graph_cache_destroy(cache);
    cache = NULL;
    t_fixture_close(&fixture);
    (void)alarm(0);
    return 0;
}

static ph_status body(ph_stream *stream, void *user)
{
    const work *w = user;
    int32_t *between;
    PH_TRY(PH_NEW(&between, N, stream));
    PH_TRY(t_fill(&world, stream, between, N, w->value));
    if (w->within)
        PH_TRY(ph_break(stream, w->within, user));
    PH_TRY(t_add(&world, stream, between, w->out, N, 0));
    ph_free(between, stream);
    if (w->submitted)
        w->submitted();
    return PH_OK;
}

static void run(work *w)
{
    const void *pointers[] = {w->out};
    assert_ok(ph_graph_cache_run(cache, w->stream,
                                 &(ph_graph_cache_call){.key = w->key,
                                                        .key_bytes = strlen(w->key),
                                                        .body = body,
                                                        .user = w,
                                                        .pointers = pointers,
                                                        .pointer_count = 1},
                                 &w->result));
}

static void *run_in_thread(void *of)
{
    run(of);
    assert_ok(ph_stream_synchronize(((work *)of)->stream));
    return NULL;
}

static ph_status run_inner(ph_stream *stream, void *user)
{
    (void)stream, (void)user;
    if (armed)
        (void)run_in_thread(&inner);
    return PH_OK;
}

static ph_status run_inner_beside(ph_stream *stream, void *user)
{
    pthread_t thread;
    (void)stream, (void)user;
    if (!armed)
        return PH_OK;
    assert_int_equal(pthread_create(&thread, NULL, run_in_thread, &inner), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    return PH_OK;
}

static void check_kept_out(const work *w)
{
    assert_int_equal(w->result.path, PH_CACHE_EAGER);
    assert_non_null(strstr(w->result.reason, "another call of the cache is in a replay"));
}

static void check_other_key(ph_break_fn within, ph_stream *stream)
{
    outer.within = within;
    inner.stream = stream;
    for (int i = 0; i < 3; i++) {
        run(&outer);
        run(&inner);
    }
    assert_int_equal(inner.result.path, PH_CACHE_REPLAYED);
    armed = true;
    for (int i = 0; i < 2; i++) {
        assert_ok(t_fill(&world, world.stream, x, N, 0));
        assert_ok(t_fill(&world, inner.stream, y, N, 0));
        run(&outer);
        assert_int_equal(outer.result.path, PH_CACHE_REPLAYED);
        check_kept_out(&inner);
        t_all(x, N, 5, world.stream);
        t_all(y, N, 100, inner.stream);
    }
    run(&inner);
    assert_int_equal(inner.result.path, PH_CACHE_REPLAYED);
}

TEST(test_another_key_that_a_function_calls_runs_as_it_is)
{
    check_other_key(run_inner, world.stream);
}

TEST(test_another_key_that_another_thread_calls_meanwhile_runs_as_it_is)
{
    check_other_key(run_inner_beside, side);
}

TEST(test_within_a_break_no_other_key_is_captured_or_learned)
{
    outer.within = run_inner;
    for (int i = 0; i < 2; i++)
        run(&outer);
    run(&inner); /* the first call of a key runs as it is */
    armed = true;
    run(&outer);
    check_kept_out(&inner);
    run(&inner);
    assert_int_equal(inner.result.path, PH_CACHE_CAPTURED);
    inner.out = z;
    run(&outer);
    check_kept_out(&inner);
    run(&inner);
    assert_int_equal(inner.result.path, PH_CACHE_LEARNED);
    t_all(x, N, 5, world.stream);
    t_all(z, N, 100, side);
}

/* ---- captures that a replay with breaks overtakes ---- */
static pthread_t beside;

static ph_status wait_for_inner(ph_stream *stream, void *user)
{
    (void)stream, (void)user;
    atomic_store(&is_inside, armed);
    while (armed && !atomic_load(&inner_is_over))
        (void)usleep(100);
    return PH_OK;
}

static void begin_outer(void)
{
    if (!armed || atomic_load(&is_inside))
        return;
    assert_int_equal(pthread_create(&beside, NULL, run_in_thread, &outer), 0);
    while (!atomic_load(&is_inside))
        (void)usleep(100);
}

TEST(test_a_graph_that_was_captured_meanwhile_is_for_later_calls)
{
    outer.within = wait_for_inner;
    for (int i = 0; i < 2; i++)
        run(&outer);
    run(&inner);
    inner.submitted = begin_outer;
    armed = true;
    run(&inner);
    check_kept_out(&inner);
    assert_int_equal(told, 1);
    atomic_store(&inner_is_over, 1);
    assert_int_equal(pthread_join(beside, NULL), 0);
    assert_int_equal(outer.result.path, PH_CACHE_REPLAYED);
    run(&inner);
    assert_int_equal(inner.result.path, PH_CACHE_REPLAYED);
    t_all(x, N, 5, world.stream);
    t_all(y, N, 100, side);
}

/* ---- launches that a replay with breaks would overtake ---- */
static ph_status run_outer_once(const ph_graph_hook_info *info, void *user)
{
    (void)info, (void)user;
    if (!armed)
        return PH_OK;
    armed = false;
    run(&outer);
    return PH_OK;
}

TEST(test_a_body_with_breaks_runs_as_it_is_while_another_key_is_launched)
{
    outer.within = wait_for_inner;
    for (int i = 0; i < 2; i++) {
        run(&outer);
        run(&inner);
    }
    ph_hook *hook;
    assert_ok(
        ph_graph_hook_add(&hook, inner.result.graph, PH_HOOK_REPLAY_START, run_outer_once, NULL));
    armed = true;
    run(&inner);
    assert_int_equal(inner.result.path, PH_CACHE_REPLAYED);
    assert_int_equal(outer.result.path, PH_CACHE_EAGER);
    assert_non_null(strstr(outer.result.reason, "launches a graph"));
    run(&outer);
    assert_int_equal(outer.result.path, PH_CACHE_REPLAYED);
    ph_graph_hook_remove(hook);
    t_all(x, N, 5, world.stream);
    t_all(y, N, 100, side);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_another_key_that_a_function_calls_runs_as_it_is),
        IN_WORLD(test_another_key_that_another_thread_calls_meanwhile_runs_as_it_is),
        IN_WORLD(test_within_a_break_no_other_key_is_captured_or_learned),
        IN_WORLD(test_a_graph_that_was_captured_meanwhile_is_for_later_calls),
        IN_WORLD(test_a_body_with_breaks_runs_as_it_is_while_another_key_is_launched),
    };
    return cmocka_run_group_tests_name("graph.cache_breaks_apart", tests, NULL, NULL);
}
