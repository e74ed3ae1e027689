/* SPDX-License-Identifier: MIT */
/* tests/memory/pools.h: what the tests of memory pools share: a device for each test, allocations
 * in a pool, and what statistics and snapshots say of one. */
#ifndef PH_TESTS_MEMORY_POOLS_H
#define PH_TESTS_MEMORY_POOLS_H
#include "support/fixture.h"
#include <string.h>

#define MIB ((size_t)1 << 20)

static t_world w;

WORLD(w);

static inline void *allocate(size_t bytes, ph_stream *stream)
{
    void *p;
    assert_ok(ph_malloc(&p, 1, bytes, stream));
    assert_non_null(p);
    return p;
}

static inline void *allocate_in(ph_pool *pool, size_t bytes, ph_stream *stream)
{
    assert_ok(ph_pool_begin(pool));
    void *p = allocate(bytes, stream);
    assert_ok(ph_pool_end(pool));
    return p;
}

static inline ph_memory_stats stats_of(const ph_pool *pool)
{
    ph_memory_stats stats;
    assert_ok(pool ? ph_pool_stats(&stats, pool) : ph_memory_get_stats(&stats, w.device));
    return stats;
}

/* How often a text occurs in the snapshot. */
static inline size_t in_snapshot(const ph_pool *pool, const char *part)
{
    char *json;
    size_t count = 0;
    assert_ok(ph_memory_snapshot(&json, w.device, pool));
    for (const char *at = json; (at = strstr(at, part)) != NULL; at++)
        count++;
    ph_string_free(json);
    return count;
}
#endif
