/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_renewals_threads.c: threads run a cache that makes executables anew, while keys
 * are dropped, graphs evicted, and other captures open: every call is done once, and right. */
#include "support/renewed.h"

#include "base/alloc.h"
#include "support/test.h"

enum {
    THREADS = 3,
    CALLS = 360,
    KEYS = 4
};

typedef struct worker {
    t_cached *scene;
    pthread_t thread;
    ph_stream *stream;
    int32_t *y, number;
    int wrong;
} worker;

typedef struct work {
    const worker *of;
    int32_t value;
    uint32_t wide;
} work;

/* Which nothing explains, so that every call is captured. */
static int32_t filled_for(int32_t value)
{
    return 7 * value + 3;
}

static ph_status fill_own(ph_stream *stream, void *user)
{
    const work *w = user;
    const struct t_fill_i32 args = {T_CACHED_N, w->of->y, filled_for(w->value)};
    ph_launch_config config = t_config(T_CACHED_N);
    config.grid[0] += w->wide;
    return ph_launch(stream, w->of->scene->world.fill_i32, &config, &args, sizeof args);
}

/* Grids stay for some calls, so that some executables are worth to be made. */
static ph_status run_call(const worker *me, int i, int32_t *got)
{
    work w = {.of = me, .value = me->number * 1000 + i, .wide = 1 + (uint32_t)(i / 60 % 3)};
    int key = (i / 30 + me->number) % KEYS; /* now and then shared */
    const void *pointers[] = {me->y};
    const ph_graph_cache_value values[] = {{&w.value, sizeof w.value}};
    const ph_graph_cache_call call = {.key = &key,
                                      .key_bytes = sizeof key,
                                      .body = fill_own,
                                      .user = &w,
                                      .pointers = pointers,
                                      .pointer_count = 1,
                                      .values = values,
                                      .value_count = 1};
    PH_TRY(ph_graph_cache_run(me->scene->cache, me->stream, &call, NULL));
    PH_TRY(ph_memcpy(got, me->y, T_CACHED_N * sizeof *got, me->stream));
    return ph_stream_synchronize(me->stream);
}

static void *run_calls(void *user)
{
    worker *me = user;
    for (int i = 0; i < CALLS; i++) {
        int32_t got[T_CACHED_N];
        ph_status status = run_call(me, i, got);
        if (status != PH_OK)
            print_error("%s\n", ph_error_last()->message);
        me->wrong += status != PH_OK || got[0] != got[T_CACHED_N - 1] ||
                     got[0] != filled_for(me->number * 1000 + i);
    }
    return NULL;
}

/* Drops keys, captures, and reads the numbers, until the workers are done. */
typedef struct other {
    t_cached *scene;
    pthread_t thread;
    atomic_bool over;
    int failed;
} other;

static ph_status fill_output(ph_stream *stream, void *user)
{
    t_cached *s = user;
    usleep(100);
    return t_fill(&s->world, stream, s->outputs[1], T_CACHED_N, 1);
}

static void *disturb_calls(void *user)
{
    other *me = user;
    const ph_capture_options options = {.mode = PH_CAPTURE_THREAD_LOCAL};
    for (int i = 0; !atomic_load(&me->over); i++) {
        int key = i % KEYS;
        ph_graph_cache_stats stats;
        ph_graph *graph;
        char *text = NULL;
        if (i % 8 == 0)
            ph_ignore(ph_graph_cache_drop(me->scene->cache, &key, sizeof key));
        me->failed += ph_graph_create(&graph, NULL) != PH_OK ||
                      ph_graph_capture(graph, me->scene->world.stream, &options, fill_output,
                                       me->scene) != PH_OK;
        ph_graph_destroy(graph);
        me->failed += ph_graph_cache_get_stats(&stats, me->scene->cache) != PH_OK ||
                      ph_graph_cache_text(&text, me->scene->cache) != PH_OK;
        ph_string_free(text);
        usleep(500);
    }
    return NULL;
}

static void run_threads(const ph_graph_cache_options *options, bool disturbed)
{
    t_cached s;
    other beside = {.scene = &s};
    worker workers[THREADS];
    memset(workers, 0, sizeof workers);
    t_cached_open(&s, options);
    for (int i = 0; i < THREADS; i++) {
        workers[i].scene = &s;
        workers[i].number = i;
        assert_ok(ph_stream_create(&workers[i].stream, s.world.device, NULL));
        assert_ok(PH_NEW(&workers[i].y, T_CACHED_N, s.world.stream));
    }
    assert_ok(ph_stream_synchronize(s.world.stream));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run_calls, &workers[i]), 0);
    if (disturbed)
        assert_int_equal(pthread_create(&beside.thread, NULL, disturb_calls, &beside), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].wrong, 0);
    }
    atomic_store(&beside.over, true);
    if (disturbed)
        assert_int_equal(pthread_join(beside.thread, NULL), 0);
    assert_int_equal(beside.failed, 0);
    for (int i = 0; i < THREADS; i++) {
        ph_free(workers[i].y, s.world.stream);
        ph_stream_destroy(workers[i].stream);
    }
    t_cached_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

TEST(threads_share_executables_that_are_made_anew)
{
    run_threads(&(ph_graph_cache_options){.after = PH_ZERO,
                                          .fallback = PH_CACHE_FALLBACK_UPDATE,
                                          .renew_after = 1},
                false);
}

TEST(keys_are_dropped_and_captures_open_beside_them)
{
    run_threads(&(ph_graph_cache_options){.after = PH_ZERO,
                                          .fallback = PH_CACHE_FALLBACK_UPDATE,
                                          .renew_after = 1},
                true);
}

TEST(graphs_are_evicted_beside_them)
{
    run_threads(&(ph_graph_cache_options){.after = PH_ZERO,
                                          .fallback = PH_CACHE_FALLBACK_UPDATE,
                                          .max_graphs = 1,
                                          .renew_after = 1},
                true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_executables_that_are_made_anew),
        cmocka_unit_test(keys_are_dropped_and_captures_open_beside_them),
        cmocka_unit_test(graphs_are_evicted_beside_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
