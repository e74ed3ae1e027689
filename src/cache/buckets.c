/* SPDX-License-Identifier: MIT */
/* cache/buckets.c: sizes, the ladder of buckets, and the best ladder for the sizes that came. */
#include "cache/buckets.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"
#include "cache/cache.h"
#include "cache/check.h"
#include "cache/report.h"
#include <stdlib.h>
#include <string.h>

enum {
    MOST_BUCKETS = 4096
};
#define MOST_SIZE UINT64_C(0x100000000)
/* So many calls count; the sum of paddings stays below 2^63. */
#define MOST_CALLS (UINT64_C(1) << 30)

struct ph__buckets {
    size_t *sizes;
    size_t count;
    ph__map seen; /* size: calls */
    uint64_t calls, beyond;
    bool reported;
};

ph__buckets *ph__buckets_create(void)
{
    return ph__calloc(1, sizeof(ph__buckets));
}

void ph__buckets_destroy(ph__buckets *buckets)
{
    if (!buckets)
        return;
    ph__map_free(&buckets->seen);
    ph__free(buckets->sizes);
    ph__free(buckets);
}

ph_status ph_graph_cache_set_buckets(ph_graph_cache *cache, const size_t *sizes, size_t count)
{
    static const char call[] = "ph_graph_cache_set_buckets";
    PH_TRY(ph__cache_check_there(cache, call));
    if (count && !sizes)
        return ph__fail_null(call, "sizes");
    for (size_t i = 0; i < count; i++)
        if (sizes[i] == 0 || (i > 0 && sizes[i] <= sizes[i - 1]))
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: size %zu is %zu: sizes are not 0, and each is above the one before",
                           call, i, sizes[i]);
    if (count > MOST_BUCKETS)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %zu buckets; there are at most %d", call, count,
                       (int)MOST_BUCKETS);
    size_t *copy = ph__calloc(count + 1, sizeof *copy);
    if (!copy)
        return ph__fail_host_memory(call, "the buckets");
    if (count)
        memcpy(copy, sizes, count * sizeof *copy);
    ph__mutex_lock(&cache->lock);
    size_t *before = cache->buckets->sizes;
    cache->buckets->sizes = copy;
    cache->buckets->count = count;
    cache->buckets->reported = false;
    ph__mutex_unlock(&cache->lock);
    ph__free(before);
    return PH_OK;
}

/* Under the lock. The count of a size is the map's value, from 1. */
static void count_size(ph__buckets *buckets, size_t size)
{
    uintptr_t calls = (uintptr_t)ph__map_get(&buckets->seen, size);
    if (buckets->calls < MOST_CALLS && ph__map_put(&buckets->seen, size, (void *)(calls + 1)))
        buckets->calls++;
}

static size_t find_bucket(const ph__buckets *buckets, size_t size)
{
    size_t low = 0, high = buckets->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (buckets->sizes[middle] < size)
            low = middle + 1;
        else
            high = middle;
    }
    return low < buckets->count ? buckets->sizes[low] : 0;
}

ph_status ph_graph_cache_bucket(size_t *bucket, ph_graph_cache *cache, size_t size)
{
    static const char call[] = "ph_graph_cache_bucket";
    if (!bucket)
        return ph__fail_null(call, "bucket");
    *bucket = 0;
    PH_TRY(ph__cache_check_there(cache, call));
    if (size == 0 || size > MOST_SIZE)
        return ph_fail(PH_ERROR_SIZE, "%s: the size is %zu; it is 1 to 2^32", call, size);
    ph__mutex_lock(&cache->lock);
    count_size(cache->buckets, size);
    *bucket = find_bucket(cache->buckets, size);
    size_t count = cache->buckets->count;
    size_t largest = count ? cache->buckets->sizes[count - 1] : 0;
    bool beyond = count && *bucket == 0, first = beyond && !cache->buckets->reported;
    cache->buckets->reported = cache->buckets->reported || beyond;
    cache->beyond += beyond;
    ph__mutex_unlock(&cache->lock);
    if (first)
        ph__log(PH_LOG_WARNING,
                "graph cache: size %zu is above the largest bucket, %zu; such calls have no bucket",
                size, largest);
    if (beyond)
        ph__cache_report(cache, PH_CACHE_BEYOND, NULL, "the size is above the largest bucket");
    return PH_OK;
}

/* ---- the best ladder ---- */
typedef struct ladder {
    size_t count; /* of different sizes */
    uint64_t *sizes;
    uint64_t *calls, *weights; /* sums over the sizes before: of calls, and of calls times size */
    uint64_t *best, *next;     /* the padding of the first n sizes, with so many buckets */
    uint32_t *from;            /* for each number of buckets and n: the sizes before its last one */
} ladder;

/* Padding of the sizes [begin, end) with one bucket. */
static uint64_t padding_of(const ladder *l, size_t begin, size_t end)
{
    return l->sizes[end - 1] * (l->calls[end] - l->calls[begin]) -
           (l->weights[end] - l->weights[begin]);
}

/* The best last bucket begins no earlier for more sizes, as sums of distances have the quadrangle
 * inequality. So each half searches its part of the range alone. */
static void divide_range(ladder *l, uint32_t *from, size_t low, size_t high, size_t first,
                         size_t last)
{
    while (low < high) {
        size_t middle = low + (high - low) / 2, chosen = first;
        uint64_t least = UINT64_MAX;
        for (size_t k = first; k <= last && k < middle; k++) {
            uint64_t sum =
                l->best[k] == UINT64_MAX ? UINT64_MAX : l->best[k] + padding_of(l, k, middle);
            if (sum < least) {
                least = sum;
                chosen = k;
            }
        }
        l->next[middle] = least;
        from[middle] = (uint32_t)chosen;
        divide_range(l, from, low, middle, first, chosen);
        low = middle + 1;
        first = chosen;
    }
}

static int compare_sizes(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static bool fill_ladder(ladder *l, const ph__map *seen, size_t most)
{
    size_t cursor = 0, n = 0, count = seen->count;
    uint64_t key;
    void *value;
    l->sizes = ph__calloc(count + 1, sizeof *l->sizes);
    l->calls = ph__calloc(count + 1, sizeof *l->calls);
    l->weights = ph__calloc(count + 1, sizeof *l->weights);
    l->best = ph__calloc(count + 1, sizeof *l->best);
    l->next = ph__calloc(count + 1, sizeof *l->next);
    l->from = ph__calloc((count + 1) * most, sizeof *l->from);
    if (!l->sizes || !l->calls || !l->weights || !l->best || !l->next || !l->from)
        return false;
    while (ph__map_next(seen, &cursor, &key, &value))
        l->sizes[n++] = key;
    l->count = n;
    qsort(l->sizes, n, sizeof *l->sizes, compare_sizes);
    for (size_t i = 0; i < n; i++) {
        uint64_t calls = (uintptr_t)ph__map_get(seen, l->sizes[i]);
        l->calls[i + 1] = l->calls[i] + calls;
        l->weights[i + 1] = l->weights[i] + calls * l->sizes[i];
    }
    return true;
}

/* Fewer buckets where more would not help. */
static size_t solve_ladder(ladder *l, size_t *sizes, size_t most)
{
    size_t rows = most < l->count ? most : l->count, end = l->count, row;
    for (size_t n = 1; n <= l->count; n++)
        l->best[n] = UINT64_MAX;
    for (row = 0; row < rows; row++) {
        l->next[0] = 0;
        divide_range(l, l->from + row * (l->count + 1), 1, l->count + 1, 0, l->count);
        uint64_t *before = l->best;
        l->best = l->next;
        l->next = before;
    }
    for (row = rows; row > 0; row--) {
        sizes[row - 1] = (size_t)l->sizes[end - 1];
        end = l->from[(row - 1) * (l->count + 1) + end];
    }
    return rows;
}

static void free_ladder(ladder *l)
{
    ph__free(l->sizes);
    ph__free(l->calls);
    ph__free(l->weights);
    ph__free(l->best);
    ph__free(l->next);
    ph__free(l->from);
}

ph_status ph_graph_cache_suggest(size_t *sizes, size_t *count, ph_graph_cache *cache, size_t most)
{
    static const char call[] = "ph_graph_cache_suggest";
    ladder l = {0};
    if (!sizes || !count)
        return ph__fail_null(call, sizes ? "count" : "sizes");
    *count = 0;
    PH_TRY(ph__cache_check_there(cache, call));
    if (most == 0 || most > MOST_BUCKETS)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: %zu buckets; it is 1 to %d", call, most,
                       (int)MOST_BUCKETS);
    ph__mutex_lock(&cache->lock);
    bool none = cache->buckets->seen.count == 0;
    bool filled =
        !none && fill_ladder(&l, &cache->buckets->seen,
                             most < cache->buckets->seen.count ? most : cache->buckets->seen.count);
    ph__mutex_unlock(&cache->lock);
    ph_status status =
        none ? ph_fail(PH_ERROR_NOT_FOUND, "%s: no size has come yet (ph_graph_cache_bucket)", call)
        : filled ? PH_OK
                 : ph__fail_host_memory(call, "the ladder");
    if (status == PH_OK)
        *count = solve_ladder(&l, sizes, most);
    free_ladder(&l);
    return status;
}
