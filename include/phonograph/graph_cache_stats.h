/* SPDX-License-Identifier: MIT */
/* phonograph/graph_cache_stats.h: what a graph cache has done, and the sizes that come to it
 * (docs/reference/graph-cache.md). */
#ifndef PHONOGRAPH_GRAPH_CACHE_STATS_H
#define PHONOGRAPH_GRAPH_CACHE_STATS_H
#include <phonograph/graph_cache.h>

PH_BEGIN_DECLS

/* ---- numbers ---- since the cache was made. All calls here are thread-safe, and legal in a
 * capture. */
typedef struct ph_graph_cache_stats {
    uint64_t calls; /* of ph_graph_cache_run, and how they were done */
    uint64_t eager, captured, replayed, learned, updated, nested, recorded;
    uint64_t evicted;    /* keys whose graphs went, for the budget or for max_graphs */
    uint64_t refused;    /* keys that were found not to be captured, or not to be learned */
    uint64_t beyond;     /* sizes above the largest bucket */
    size_t keys, graphs; /* now; graphs: keys that have some */
    size_t executable_bytes, pool_bytes;
    uint64_t renewed; /* executables that were made anew (ph_graph_cache_options.renew_after) */
    uint64_t reserved[3];
} ph_graph_cache_stats;
PH_CALL ph_graph_cache_get_stats(ph_graph_cache_stats *out, ph_graph_cache *cache);

typedef struct ph_graph_cache_entry {
    /* Borrowed until the key is dropped, or goes: keys without a graph go in order of their last
     * use, when the cache has 16 for each of max_graphs. */
    const void *key;
    size_t key_bytes;
    bool has_graph, refused; /* refused: it will not be captured before it is dropped */
    uint64_t uses, hits;     /* hits: replays without a capture */
    size_t bytes;            /* of the device, of its executables */
    /* Pointers that moved, in groups that moved alike, and values that changed, as far as captures
     * have shown. */
    size_t moved_groups, changed_values;
    char reason[240]; /* of the last call that could not be captured or learned; "": none */
    size_t demoted;   /* nodes that updates made slower (inspect/changes.h), as far as is known */
    /* of the failure that the reason tells, as in its error record; PH_OK: it tells of none */
    ph_status status;
    int32_t native_code;
    uint64_t reserved[2];
} ph_graph_cache_entry;
/* The entry of that place in the order of last use, the latest first. NOT_FOUND beyond the last. A
 * key that another thread is running may have its reason, its learned numbers and its demoted nodes
 * of before. */
PH_CALL ph_graph_cache_entry_at(ph_graph_cache_entry *out, ph_graph_cache *cache, size_t index);
/* A table for people, one line for each entry. Freed with ph_string_free. */
PH_CALL ph_graph_cache_text(char **out, ph_graph_cache *cache);

/* ---- buckets ---- Sizes that work is padded to, so that few keys serve all of them. A cache has
 * one ladder of buckets. A key has to contain its bucket, as all that decides the work.
 *
 * set replaces the ladder: sizes are ascending and not 0 (ARGUMENT); count 0 takes it away. */
PH_CALL ph_graph_cache_set_buckets(ph_graph_cache *cache, const size_t *sizes, size_t count);
/* *bucket: the smallest bucket that is at least the size.
 * - 0: the size lies beyond the largest bucket, or there are none. The first time, the log says so;
 *   each time, the event callback is told (PH_CACHE_BEYOND) before this returns.
 * - Sizes are counted, up to 2^32 (SIZE), for suggest. */
PH_CALL ph_graph_cache_bucket(size_t *bucket, ph_graph_cache *cache, size_t size);
/* The ladder of at most `most` buckets (1 to 4096) with the least padding for the sizes that came.
 * - Padding: the sum of bucket minus size, over all calls of bucket.
 * - Exact, by dynamic programming over the different sizes. Sums of distances have the monotone
 *   property of Wu, "Optimal quantization by matrix searching" (1991): n log n for each bucket.
 * - sizes has room for `most`; *count is how many are needed. NOT_FOUND: no size has come. */
PH_CALL ph_graph_cache_suggest(size_t *sizes, size_t *count, ph_graph_cache *cache, size_t most);

PH_END_DECLS
#endif
