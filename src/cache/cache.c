/* SPDX-License-Identifier: MIT */
/* cache/cache.c: making a cache of graphs, and its end. */
#include "cache/cache.h"
#include "base/alloc.h"
#include "base/ended.h"
#include "base/option.h"
#include "cache/buckets.h"
#include "cache/entry.h"
#include "cache/renewal_end.h"
#include "device/handles/device.h"
#include <string.h>

enum {
    GRAPHS = 64,
    EAGER_CALLS = 2,
    RENEW_AFTER = 16,    /* the gain of so many replays is what an executable costs */
    KEYS_OF_A_GRAPH = 16 /* keys without a graph that are remembered, for each of max_graphs */
};

static ph_status check_capture_options(const ph_capture_options *capture, const char *call)
{
    const char *set = capture == NULL          ? NULL
                      : capture->pool          ? "pool, which the cache's options name"
                      : capture->prepare       ? "prepare, which waits for the device"
                      : capture->breadcrumbs   ? "breadcrumbs, whose nodes captures differ in"
                      : capture->compared      ? "compared, which the cache sets"
                      : capture->record_at_end ? "record_at_end, which the cache asks for itself"
                      : capture->defer_breaks  ? "defer_breaks, which the cache sets"
                                               : NULL;
    if (set != NULL)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: the capture options of a cache have %s; leave it out", call, set);
    if (capture && capture->plan && capture->allow_breaks)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: the capture options of a cache have plan, which is of one capture, and "
                       "allow_breaks, which makes several; leave one of the two out",
                       call);
    return PH_OK;
}

static ph_status check_cache_options(const ph_graph_cache_options *options, const char *call)
{
    if (!PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_graph_cache_options");
    PH_TRY(ph__option_no_zero(options->budget, "budget", call));
    PH_TRY(ph__option_no_zero(options->max_graphs, "max_graphs", call));
    PH_TRY(ph__option_named(options->fallback, "fallback", call));
    if (options->fallback > PH_CACHE_FALLBACK_UPDATE)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: fallback is %d, which is none", call,
                       (int)options->fallback);
    if (options->fallback != PH_CACHE_FALLBACK_UPDATE && options->renew_after &&
        options->renew_after != PH_ZERO)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: renew_after (%zu) is of executables that PH_CACHE_FALLBACK_UPDATE "
                       "updates; set fallback, or leave renew_after 0",
                       call, options->renew_after);
    return check_capture_options(options->capture, call);
}

static void free_cache(ph_graph_cache *cache)
{
    while (cache->spare) {
        ph__cache_entry *entry = cache->spare;
        cache->spare = entry->next;
        ph__free(entry);
    }
    ph_pool_release(cache->pool);
    ph_device_release(cache->device);
    ph__buckets_destroy(cache->buckets);
    ph__map_free(&cache->entries);
    memset(cache, 0, sizeof *cache); /* no device: it is gone */
    ph__ended_put(cache);
}

static ph_status make_pool(ph_graph_cache *cache, ph_pool *pool)
{
    if (pool) {
        cache->pool = ph_pool_retain(pool);
        return PH_OK;
    }
    return ph_pool_create(&cache->pool, cache->device, NULL);
}

ph_status ph_graph_cache_create(ph_graph_cache **out, ph_device *device,
                                const ph_graph_cache_options *options)
{
    static const char call[] = "ph_graph_cache_create";
    static const ph_graph_cache_options defaults;
    static const ph_capture_options default_capture = {.mode = PH_CAPTURE_THREAD_LOCAL};
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!device)
        return ph__fail_null(call, "device");
    options = options ? options : &defaults;
    PH_TRY(check_cache_options(options, call));
    ph_graph_cache *cache = ph__calloc(1, sizeof *cache);
    if (!cache)
        return ph__fail_host_memory(call, "the cache");
    cache->device = ph_device_retain(device);
    cache->budget = options->budget;
    cache->max_graphs = options->max_graphs ? options->max_graphs : GRAPHS;
    cache->max_keys = cache->max_graphs > SIZE_MAX / KEYS_OF_A_GRAPH
                          ? SIZE_MAX
                          : cache->max_graphs * KEYS_OF_A_GRAPH;
    cache->after = (uint32_t)ph__option_count(options->after, EAGER_CALLS);
    cache->fallback = options->fallback;
    cache->renew_after = ph__option_count(options->renew_after, RENEW_AFTER);
    cache->capture = options->capture ? *options->capture : default_capture;
    cache->capture.compared = true;
    /* A capture is replayed at once: the functions are called there, once. */
    cache->capture.defer_breaks = cache->capture.allow_breaks;
    cache->event = options->event;
    cache->user = options->user;
    cache->buckets = ph__buckets_create();
    ph_status status =
        cache->buckets ? make_pool(cache, options->pool) : ph__fail_host_memory(call, "the cache");
    cache->capture.pool = cache->pool;
    if (status == PH_OK)
        *out = cache;
    else
        free_cache(cache);
    return status;
}

void ph_graph_cache_destroy(ph_graph_cache *cache)
{
    if (!cache)
        return;
    if (!cache->device) {
        ph__ended_report("ph_graph_cache_destroy", "the cache");
        return;
    }
    do { /* calls of objects that the last executables release make keys again */
        while (cache->oldest)
            (void)ph__entry_drop(cache, cache->oldest->key, cache->oldest->key_bytes);
        ph__renewal_end(cache);
    } while (cache->oldest);
    free_cache(cache);
}
