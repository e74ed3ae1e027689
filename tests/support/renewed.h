/* SPDX-License-Identifier: MIT */
/* support/renewed.h: work whose grid changes from call to call, for the tests of executables that
 * a cache makes anew. */
#ifndef PH_TESTS_RENEWED_H
#define PH_TESTS_RENEWED_H
#include "cache/cache.h"
#include "fake/fake_cuda.h"
#include "support/cached.h"
#include <unistd.h>

enum {
    T_RENEWED_CALM = 3,        /* calls with one grid before an executable is made */
    T_RENEWED_PATIENCE = 20000 /* calls until it is there */
};

/* y = value, in a grid with so many blocks more than it needs; total counts how often it ran. */
typedef struct t_renewed_work {
    t_cached *scene;
    int32_t value;
    uint32_t wide;
} t_renewed_work;

static inline ph_status t_renewed_body(ph_stream *stream, void *user)
{
    const t_renewed_work *w = user;
    const t_world *world = &w->scene->world;
    const struct t_fill_i32 args = {T_CACHED_N, w->scene->outputs[0], w->value};
    ph_launch_config config = t_config(T_CACHED_N);
    config.grid[0] += w->wide;
    PH_TRY(ph_launch(stream, world->fill_i32, &config, &args, sizeof args));
    return t_add(world, stream, w->scene->total, w->scene->total, 1, 1);
}

/* Each call has a value of its own, so that none is a hit. */
static inline ph_status t_renewed_call(t_cached *s, const char *key, uint32_t wide,
                                       ph_graph_cache_result *out)
{
    t_renewed_work w = {.scene = s, .value = 100 + s->calls, .wide = wide};
    const ph_graph_cache_value values[] = {{.data = &w.value, .bytes = sizeof w.value}};
    return ph_graph_cache_run(s->cache, s->world.stream,
                              &(ph_graph_cache_call){.key = key,
                                                     .key_bytes = strlen(key),
                                                     .body = t_renewed_body,
                                                     .user = &w,
                                                     .values = values,
                                                     .value_count = 1},
                              out);
}

/* The device did it once. */
static inline void t_renewed_run(t_cached *s, const char *key, uint32_t wide,
                                 ph_graph_cache_path path)
{
    ph_graph_cache_result result;
    assert_ok(t_renewed_call(s, key, wide, &result));
    assert_int_equal(result.path, path);
    t_all(s->outputs[0], T_CACHED_N, 100 + s->calls, s->world.stream);
    t_all(s->total, 1, ++s->calls, s->world.stream);
}

/* The key is captured, an executable made for another grid, and demoted by a third one. */
static inline void t_renewed_demote(t_cached *s, const char *key)
{
    t_renewed_run(s, key, 0, PH_CACHE_CAPTURED);
    t_renewed_run(s, key, 1, PH_CACHE_UPDATED);
    t_renewed_run(s, key, 2, PH_CACHE_UPDATED);
}

/* Calls with one grid: behind the last one an executable is due. */
static inline void t_renewed_calm(t_cached *s, const char *key)
{
    for (int i = 0; i < T_RENEWED_CALM; i++)
        t_renewed_run(s, key, 2, PH_CACHE_UPDATED);
}

static inline uint64_t t_renewed_count(const t_cached *s)
{
    ph_graph_cache_stats stats;
    assert_ok(ph_graph_cache_get_stats(&stats, s->cache));
    return stats.renewed;
}

/* Until the thread that makes an executable is over. */
static inline void t_renewed_await_thread(ph_graph_cache *cache)
{
    ph__renewal_state state;
    do {
        usleep(20);
        ph__mutex_lock(&cache->renewal.lock);
        state = cache->renewal.state;
        ph__mutex_unlock(&cache->renewal.lock);
    } while (state == PH__RENEWAL_RUNNING);
}

/* Calls until one more has been made. */
static inline void t_renewed_await(t_cached *s, const char *key)
{
    uint64_t before = t_renewed_count(s);
    for (int i = 0; i < T_RENEWED_PATIENCE && t_renewed_count(s) == before; i++) {
        t_renewed_run(s, key, 2, PH_CACHE_UPDATED);
        usleep(100);
    }
    assert_int_equal(t_renewed_count(s), before + 1);
}

static inline size_t t_renewed_demoted(const t_cached *s)
{
    ph_graph_cache_entry entry;
    assert_ok(ph_graph_cache_entry_at(&entry, s->cache, 0));
    return entry.demoted;
}

/* Executables that the software libcuda has made; 0 on other devices. */
static inline int64_t t_renewed_made(void)
{
    return t_on_host() || !fake_cuda() ? 0 : fake_cuda()->calls_of("cuGraphInstantiateWithParams");
}
#endif
