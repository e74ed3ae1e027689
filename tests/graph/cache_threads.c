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
        char *text = NULL;
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

static void run_threads_seen(const ph_graph_cache_options *options, int least, bool drops,
                             ph_graph_cache **cache)
{
    t_cached s;
    dropper beside = {0};
    worker workers[THREADS];
    ph_graph_cache_stats stats;
    memset(workers, 0, sizeof workers);
    t_cached_open(&s, options);
    *cache = s.cache;
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

static void run_threads(const ph_graph_cache_options *options, int least, bool drops)
{
    ph_graph_cache *cache;
    run_threads_seen(options, least, drops, &cache);
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

/* Events come with no lock held: each asks for all entries meanwhile. */
static void ask_for_entries(const ph_graph_cache_event *event, void *user)
{
    ph_graph_cache *const *cache = user;
    char *text;
    if (event->what == PH_CACHE_EVICTED && ph_graph_cache_text(&text, *cache) == PH_OK)
        ph_string_free(text);
}

TEST(threads_share_keys_while_events_call_the_cache)
{
    static ph_graph_cache *cache;
    ph_graph_cache_options options = {
        .after = PH_ZERO, .max_graphs = 2, .event = ask_for_entries, .user = &cache};
    run_threads_seen(&options, 0, true, &cache);
}

/* ---- evictions beside captures ---- */
typedef struct evictor {
    t_cached *scene;
    ph_stream *stream;
    ph_status status;
    ph_graph_cache_path path;
} evictor;

static ph_status add_one(ph_stream *stream, void *user)
{
    t_cached *s = user;
    return t_add(&s->world, stream, s->outputs[0], s->outputs[0], T_CACHED_N, 1);
}

static ph_graph_cache_path run_key(t_cached *s, ph_stream *stream, const char *key)
{
    ph_graph_cache_result result;
    assert_ok(ph_graph_cache_run(
        s->cache, stream,
        &(ph_graph_cache_call){.key = key, .key_bytes = 1, .body = add_one, .user = s}, &result));
    assert_ok(ph_stream_synchronize(stream));
    return result.path;
}

static void *run_new_key(void *user)
{
    evictor *e = user;
    ph_graph_cache_result result;
    e->status = ph_graph_cache_run(
        e->scene->cache, e->stream,
        &(ph_graph_cache_call){.key = "n", .key_bytes = 1, .body = add_one, .user = e->scene},
        &result);
    e->path = result.path;
    return NULL;
}

/* Marks that the library leaves on a stream are work too. */
static void wait_until_idle(ph_stream *stream)
{
    for (bool idle = false; !idle;)
        assert_ok(ph_stream_query(&idle, stream));
}

/* The stream that replayed key c last is capturing while another thread's key needs room. */
static void evict_beside_capture(size_t max_graphs)
{
    t_cached s;
    ph_graph *graph;
    pthread_t thread;
    ph_graph_cache_stats stats;
    ph_stream *idle;
    t_cached_open(&s, &(ph_graph_cache_options){.after = PH_ZERO, .max_graphs = max_graphs});
    evictor e = {.scene = &s};
    ph_stream *captured = s.world.stream;
    assert_ok(ph_stream_create(&e.stream, s.world.device, NULL));
    assert_ok(ph_stream_create(&idle, s.world.device, NULL));
    assert_ok(t_fill(&s.world, captured, s.outputs[0], T_CACHED_N, 0));
    assert_int_equal(run_key(&s, captured, "c"), PH_CACHE_CAPTURED);
    assert_int_equal(run_key(&s, captured, "c"), PH_CACHE_REPLAYED);
    for (size_t i = 1; i < max_graphs; i++)
        assert_int_equal(run_key(&s, idle, "i"), PH_CACHE_CAPTURED);
    wait_until_idle(idle);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, captured,
                                     &(ph_capture_options){.mode = PH_CAPTURE_THREAD_LOCAL}));
    assert_ok(add_one(captured, &s));
    assert_int_equal(pthread_create(&thread, NULL, run_new_key, &e), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_ok(e.status);
    assert_int_equal(e.path, PH_CACHE_CAPTURED);
    assert_ok(add_one(captured, &s));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
    assert_int_equal(stats.evicted, 1);
    assert_ok(ph_stream_synchronize(e.stream));
    assert_ok(ph_graph_replay(graph, captured));
    assert_int_equal(run_key(&s, captured, "c"),
                     max_graphs == 1 ? PH_CACHE_CAPTURED : PH_CACHE_REPLAYED);
    t_all(s.outputs[0], T_CACHED_N, (int32_t)max_graphs + 5, captured);
    ph_graph_destroy(graph);
    ph_stream_destroy(e.stream);
    ph_stream_destroy(idle);
    t_cached_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

TEST(a_capture_survives_evictions_of_another_thread)
{
    evict_beside_capture(1);
    evict_beside_capture(2); /* the idle stream's graph goes first */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_share_keys_and_every_result_is_right),
        cmocka_unit_test(threads_share_keys_while_graphs_are_evicted),
        cmocka_unit_test(threads_share_keys_that_are_updated),
        cmocka_unit_test(threads_share_keys_that_are_dropped_beside_them),
        cmocka_unit_test(threads_share_keys_while_events_call_the_cache),
        cmocka_unit_test(a_capture_survives_evictions_of_another_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
