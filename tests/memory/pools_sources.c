/* SPDX-License-Identifier: MIT */
/* tests/memory/pools_sources.c: sources of memory pools whose addresses come in no order, that
 * fail, and that ask for what they are to give. */
#include "pools.h"
#include <stdlib.h>

/* ---- a source whose addresses come in no order ---- */

typedef struct arena {
    char *base;
    size_t low, high; /* from the head ascending, from the tail descending */
    ph_stream *ascending;
    void *log[16];
    size_t count;
} arena;

static ph_status arena_alloc(void **out, size_t bytes, ph_stream *stream, void *user)
{
    arena *a = user;
    if (stream == a->ascending) {
        *out = a->base + a->low;
        a->low += bytes;
    } else {
        a->high -= bytes;
        *out = a->base + a->high;
    }
    a->log[a->count++] = *out;
    return PH_OK;
}

static void arena_free(void *pointer, size_t bytes, void *user)
{
    (void)pointer;
    (void)bytes;
    (void)user;
}

/* Three rounds of two streams, of which each asks for two sizes, the second stream in the other
 * order. */
static void arena_fill(void *out[12], ph_stream *const streams[2])
{
    static const size_t sizes[2] = {24 * MIB, 32 * MIB};
    for (int i = 0; i < 12; i++) {
        int stream = i / 2 % 2, second = i % 2;
        out[i] = allocate(sizes[stream ? 1 - second : second], streams[stream]);
    }
}

static void arena_empty(void *const in[12], ph_stream *const streams[2])
{
    for (int i = 0; i < 12; i++)
        ph_free(in[i], streams[i / 2 % 2]);
}

/* A layout that was made once is made again: among equal blocks those of the oldest segment come
 * first, wherever they lie. */
TEST(test_nccl_mem_alloc_addresses_in_random_order)
{
    const size_t total = 1024 * MIB;
    arena a = {.base = aligned_alloc(2 * MIB, total), .high = total, .ascending = w.stream};
    ph_pool_options options = {.alloc = arena_alloc, .free = arena_free, .user = &a};
    ph_stream *streams[2] = {w.stream, NULL};
    ph_pool *pool;
    void *first[12], *second[12];
    assert_non_null(a.base);
    assert_ok(ph_stream_create(&streams[1], w.device, NULL));
    assert_ok(ph_pool_create(&pool, w.device, &options));
    assert_ok(ph_pool_begin(pool));
    arena_fill(first, streams);
    assert_int_equal(a.count, 12);
    assert_memory_equal(first, a.log, sizeof first);
    arena_empty(first, streams);
    for (int stream = 0; stream < 2; stream++) { /* split, and one again */
        void *half = allocate((stream ? 16 : 12) * MIB, streams[stream]);
        ph_free(half, streams[stream]);
    }
    arena_fill(second, streams);
    assert_memory_equal(second, first, sizeof first);
    arena_empty(second, streams);
    assert_ok(ph_pool_end(pool));
    assert_int_equal(a.count, 12);
    assert_int_equal(stats_of(pool).segments, 12);
    ph_pool_release(pool);
    ph_stream_destroy(streams[1]);
    free(a.base);
}

/* ---- sources that fail ---- */

static ph_status refusing_alloc(void **out, size_t bytes, ph_stream *stream, void *user)
{
    (void)bytes;
    (void)stream;
    *out = user;
    return user ? PH_OK : ph_fail(PH_ERROR_CALLER, "the source is dry");
}

TEST(test_sources_that_fail)
{
    ph_pool *pool;
    void *p;
    ph_pool_options options = {.alloc = refusing_alloc, .free = arena_free};
    assert_ok(ph_pool_create(&pool, w.device, &options));
    assert_ok(ph_pool_begin(pool));
    assert_error(ph_malloc(&p, 1, 16, w.stream), PH_ERROR_CALLER, "the source is dry");
    assert_null(p);
    assert_ok(ph_pool_end(pool));
    assert_int_equal(stats_of(pool).ooms, 1);
    ph_pool_release(pool);
    options.user = (void *)(uintptr_t)4100;
    assert_ok(ph_pool_create(&pool, w.device, &options));
    assert_ok(ph_pool_begin(pool));
    assert_error(ph_malloc(&p, 1, 16, w.stream), PH_ERROR_ARGUMENT, "aligned");
    assert_ok(ph_pool_end(pool));
    assert_int_equal(stats_of(pool).reserved, 0);
    ph_pool_release(pool);
}

/* ---- sources that ask for what they are to give ---- */
typedef struct well {
    ph_pool *routed; /* what it allocates from; NULL: from wherever its caller does */
    int depth, deepest;
} well;

static ph_status draw_alloc(void **out, size_t bytes, ph_stream *stream, void *user)
{
    well *one = user;
    one->depth++;
    one->deepest = one->depth > one->deepest ? one->depth : one->deepest;
    ph_status status = one->depth > 20 ? ph_fail(PH_ERROR_CALLER, "much too deep") : PH_OK;
    if (status == PH_OK && one->routed)
        status = ph_pool_begin(one->routed);
    if (status == PH_OK) {
        status = ph_malloc(out, 1, bytes, stream);
        if (one->routed)
            ph_ignore(ph_pool_end(one->routed));
    }
    one->depth--;
    return status;
}

static void draw_free(void *pointer, size_t bytes, void *user)
{
    (void)bytes;
    (void)user;
    ph_free(pointer, NULL);
}

TEST(test_sources_that_recurse)
{
    well wells[2] = {{0}};
    ph_pool *pools[2], *plain;
    void *p;
    for (int i = 0; i < 2; i++) {
        const ph_pool_options options = {.alloc = draw_alloc, .free = draw_free, .user = &wells[i]};
        assert_ok(ph_pool_create(&pools[i], w.device, &options));
    }
    assert_ok(ph_pool_create(&plain, w.device, NULL));
    for (int both = 0; both < 2; both++) {
        wells[0].routed = both ? pools[1] : NULL;
        assert_ok(ph_pool_begin(pools[0]));
        assert_error(ph_malloc(&p, 1, MIB, w.stream), PH_ERROR_STATE, "called by itself");
        assert_null(p);
        assert_ok(ph_pool_end(pools[0]));
        assert_int_equal(stats_of(pools[0]).reserved, 0);
    }
    assert_int_equal(wells[0].deepest, 1);
    assert_int_equal(wells[1].deepest, 1);
    /* What another pool gives would be in two. */
    wells[0].routed = plain;
    assert_ok(ph_pool_begin(pools[0]));
    assert_error(ph_malloc(&p, 1, MIB, w.stream), PH_ERROR_ARGUMENT, "has already");
    assert_ok(ph_pool_end(pools[0]));
    assert_int_equal(stats_of(plain).allocated, 0);
    assert_int_equal(stats_of(pools[0]).reserved, 0);
    for (int i = 0; i < 2; i++)
        ph_pool_release(pools[i]);
    assert_ok(ph_memory_trim(w.device));
    ph_pool_release(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_nccl_mem_alloc_addresses_in_random_order),
        IN_WORLD(test_sources_that_fail),
        IN_WORLD(test_sources_that_recurse),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
