/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_threads.c: several threads run one cache: every call is done once, and right
 * where its output is its own. */
#include "support/cached.h"

#include "base/alloc.h"
#include "support/test.h"
#include <unistd.h>

enum {
    THREADS = 4,
    CALLS = 200
};

typedef struct worker {
    t_cached *scene;
    pthread_t thread;
    ph_stream *stream;
    int32_t *y, *x[2];
    int number;
    bool strays; /* some keys come once */
    int paths[PH_CACHE_BEYOND + 1];
    int wrong;
} worker;

typedef struct work {
    worker *of;
    const int32_t *x;
    int32_t value;
} work;

static ph_status body(ph_stream *stream, void *user)
{
    const work *w = user;
    const t_world *world = &w->of->scene->world;
    int32_t *between;
    PH_TRY(PH_NEW(&between, T_CACHED_N, stream));
    PH_TRY(t_add(world, stream, w->x, between, T_CACHED_N, w->value));
    PH_TRY(ph_memcpy(w->of->y, between, T_CACHED_N * sizeof *between, stream));
    ph_free(between, stream);
    return PH_OK;
}

/* Keys are shared by all threads, and each thread has a stream and memory of its own. */
static void *run_calls(void *user)
{
    worker *me = user;
    for (int i = 0; i < CALLS; i++) {
        int key = me->strays && i % 7 == 6 ? 100 + me->number * CALLS + i : i % 3;
        work w = {.of = me, .x = me->x[i & 1], .value = me->number * 1000 + i};
        const void *pointers[] = {w.x, me->y};
        const ph_graph_cache_value values[] = {{&w.value, sizeof w.value}};
        ph_graph_cache_result result;
        int32_t got[T_CACHED_N];
        ph_status status = ph_graph_cache_run(me->scene->cache, me->stream,
                                              &(ph_graph_cache_call){.key = &key,
                                                                     .key_bytes = sizeof key,
                                                                     .body = body,
                                                                     .user = &w,
                                                                     .pointers = pointers,
                                                                     .pointer_count = 2,
                                                                     .values = values,
                                                                     .value_count = 1},
                                              &result);
        if (status == PH_OK)
            status = ph_memcpy(got, me->y, sizeof got, me->stream);
        if (status == PH_OK)
            status = ph_stream_synchronize(me->stream);
        if (status != PH_OK)
            print_error("%s\n", ph_error_last()->message);
        me->wrong += status != PH_OK || got[0] != got[T_CACHED_N - 1] ||
                     got[0] != 10 * (1 + (i & 1)) + w.value;
        me->paths[status == PH_OK ? result.path : 0]++;
    }
    return NULL;
}

/* Drops the shared keys, and looks at all, until the workers are done. */
typedef struct dropper {
    pthread_t thread;
    ph_graph_cache *cache;
    atomic_bool over;
    int dropped;
    bool failed;
} dropper;

static void *drop_keys(void *user)
{
    dropper *me = user;
    while (!atomic_load(&me->over)) {
        ph_graph_cache_entry entry;
        char *text;
        for (int key = 0; key < 3; key++)
            me->dropped += ph_graph_cache_drop(me->cache, &key, sizeof key) == PH_OK;
        ph_status found = ph_graph_cache_entry_at(&entry, me->cache, 1);
        me->failed = me->failed || (found != PH_OK && found != PH_ERROR_NOT_FOUND) ||
                     (found == PH_OK && entry.hits > entry.uses) ||
                     ph_graph_cache_text(&text, me->cache) != PH_OK;
        ph_string_free(text);
        usleep(200);
    }
    return NULL;
}

static void run_threads(const ph_graph_cache_options *options, int least, bool drops)
{
    t_cached s;
    dropper beside = {0};
    worker workers[THREADS];
    ph_graph_cache_stats stats;
    memset(workers, 0, sizeof workers);
    t_cached_open(&s, options);
    for (int i = 0; i < THREADS; i++) {
        worker *one = &workers[i];
        one->scene = &s;
        one->number = i;
        one->strays = drops;
        assert_ok(ph_stream_create(&one->stream, s.world.device, NULL));
        assert_ok(PH_NEW(&one->y, T_CACHED_N, s.world.stream));
        for (int k = 0; k < 2; k++) {
            assert_ok(PH_NEW(&one->x[k], T_CACHED_N, s.world.stream));
            assert_ok(t_fill(&s.world, s.world.stream, one->x[k], T_CACHED_N, 10 * (k + 1)));
        }
    }
    assert_ok(ph_stream_synchronize(s.world.stream));
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run_calls, &workers[i]), 0);
    beside.cache = s.cache;
    if (drops)
        assert_int_equal(pthread_create(&beside.thread, NULL, drop_keys, &beside), 0);
    int replayed = 0;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].wrong, 0);
        replayed += workers[i].paths[PH_CACHE_REPLAYED];
    }
    atomic_store(&beside.over, true);
    if (drops)
        assert_int_equal(pthread_join(beside.thread, NULL), 0);
    assert_false(beside.failed);
    assert_true(!drops || beside.dropped > 0);
    assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
    assert_int_equal(stats.calls, THREADS * CALLS);
    assert_int_equal(stats.replayed, replayed);
    assert_true(replayed >= least);
    for (int i = 0; i < THREADS; i++) {
        ph_free(workers[i].y, s.world.stream);
        ph_free(workers[i].x[0], s.world.stream);
        ph_free(workers[i].x[1], s.world.stream);
        ph_stream_destroy(workers[i].stream);
    }
    t_cached_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

TEST(threads_share_keys_and_every_result_is_right)
{
    run_threads(NULL, 1, false);
}

TEST(threads_share_keys_while_graphs_are_evicted)
{
    run_threads(&(ph_graph_cache_options){.after = PH_ZERO, .max_graphs = 2}, 0, false);
}

TEST(threads_share_keys_that_are_updated)
{
    run_threads(&(ph_graph_cache_options){.fallback = PH_CACHE_FALLBACK_UPDATE}, 1, false);
}

TEST(threads_share_keys_that_are_dropped_beside_them)
{
    run_threads(&(ph_graph_cache_options){.after = PH_ZERO, .max_graphs = 2}, 0, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_keys_and_every_result_is_right),
        cmocka_unit_test(threads_share_keys_while_graphs_are_evicted),
        cmocka_unit_test(threads_share_keys_that_are_updated),
        cmocka_unit_test(threads_share_keys_that_are_dropped_beside_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
