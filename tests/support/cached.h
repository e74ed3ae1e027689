/* SPDX-License-Identifier: MIT */
/* support/cached.h: work for the tests of graph caches: what it computes, and how often the device
 * did it. */
#ifndef PH_TESTS_CACHED_H
#define PH_TESTS_CACHED_H
#include "support/support.h"
#include <string.h>

enum {
    T_CACHED_N = 256,
    T_CACHED_BUFFERS = 8,
    T_CACHED_ROOM = 16 * T_CACHED_N
};

/* y = x + value, by way of memory that the body allocates; total counts how often it ran. */
typedef struct t_cached {
    t_world world;
    ph_graph_cache *cache;
    int32_t *buffers[T_CACHED_BUFFERS]; /* buffer i is full of 10 i */
    int32_t *outputs[2], *total;
    int32_t calls; /* that total must have */
} t_cached;

typedef struct t_cached_work {
    t_cached *scene;
    const int32_t *x;
    int32_t *y, value;
    int bodies;
    int more;          /* launches that another value of it adds */
    bool synchronizes; /* which a capture refuses */
    bool gives_up;     /* for a reason of its own */
} t_cached_work;

static inline void t_cached_open(t_cached *s, const ph_graph_cache_options *options)
{
    memset(s, 0, sizeof *s);
    t_open(&s->world, NULL);
    for (int i = 0; i < T_CACHED_BUFFERS; i++) {
        assert_ok(PH_NEW(&s->buffers[i], T_CACHED_ROOM, s->world.stream));
        assert_ok(t_fill(&s->world, s->world.stream, s->buffers[i], T_CACHED_ROOM, 10 * i));
    }
    for (int i = 0; i < 2; i++)
        assert_ok(PH_NEW(&s->outputs[i], T_CACHED_ROOM, s->world.stream));
    assert_ok(PH_NEW(&s->total, 1, s->world.stream));
    assert_ok(t_fill(&s->world, s->world.stream, s->total, 1, 0));
    assert_ok(ph_graph_cache_create(&s->cache, s->world.device, options));
}

static inline void t_cached_close(t_cached *s)
{
    ph_graph_cache_destroy(s->cache);
    for (int i = 0; i < T_CACHED_BUFFERS; i++)
        ph_free(s->buffers[i], s->world.stream);
    for (int i = 0; i < 2; i++)
        ph_free(s->outputs[i], s->world.stream);
    ph_free(s->total, s->world.stream);
    t_close(&s->world);
}

static inline ph_status t_cached_body(ph_stream *stream, void *user)
{
    t_cached_work *w = user;
    const t_world *world = &w->scene->world;
    int32_t *between;
    ph_graph *capturing = NULL;
    w->bodies++;
    if (w->gives_up)
        return ph_fail(PH_ERROR_CALLER, "the body gives up");
    PH_TRY(ph_stream_capturing_graph(&capturing, stream));
    if (w->synchronizes && capturing)
        PH_TRY(ph_stream_synchronize(stream));
    PH_TRY(PH_NEW(&between, T_CACHED_N, stream));
    PH_TRY(t_add(world, stream, w->x, between, T_CACHED_N, w->value));
    for (int i = 0; i < w->more; i++)
        PH_TRY(t_add(world, stream, between, between, T_CACHED_N, 1));
    PH_TRY(ph_memcpy(w->y, between, T_CACHED_N * sizeof *between, stream));
    ph_free(between, stream);
    return t_add(world, stream, w->scene->total, w->scene->total, 1, 1);
}

/* A call of `key` with x, y and the value. */
static inline ph_status t_cached_call(t_cached *s, const char *key, t_cached_work *w,
                                      ph_graph_cache_result *out)
{
    const void *pointers[] = {w->x, w->y};
    const ph_graph_cache_value values[] = {{.data = &w->value, .bytes = sizeof w->value}};
    w->scene = s;
    return ph_graph_cache_run(s->cache, s->world.stream,
                              &(ph_graph_cache_call){.key = key,
                                                     .key_bytes = strlen(key),
                                                     .body = t_cached_body,
                                                     .user = w,
                                                     .pointers = pointers,
                                                     .pointer_count = 2,
                                                     .values = values,
                                                     .value_count = 1},
                              out);
}

/* The device did the call once, as it is. x_value: of the elements of x. */
static inline void t_cached_expect(t_cached *s, const t_cached_work *w, int32_t x_value)
{
    t_all(w->y, T_CACHED_N, x_value + w->value + w->more, s->world.stream);
    t_all(s->total, 1, ++s->calls, s->world.stream);
}

/* Both, and which way it went. */
static inline void t_cached_run(t_cached *s, const char *key, t_cached_work *w, int32_t x_value,
                                ph_graph_cache_path path)
{
    ph_graph_cache_result result;
    assert_ok(t_cached_call(s, key, w, &result));
    t_cached_expect(s, w, x_value);
    if (result.path != path)
        print_error("%s\n", result.reason);
    assert_int_equal(result.path, path);
}
#endif
