/* SPDX-License-Identifier: MIT */
/* tests/memory/pools.c: the behaviours of memory pools that PyTorch holds itself to: ids, release,
 * snapshots, statistics, scopes. */
#include "pools.h"
#include <stdio.h>
#include <stdlib.h>

/* A source of segments that leaves marks. */
static int alloc_mark, free_mark;

static ph_status dummy_alloc(void **out, size_t bytes, ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    alloc_mark = 123;
    *out = aligned_alloc(4096, bytes);
    return *out ? PH_OK : ph_fail(PH_ERROR_DEVICE_MEMORY, "dummy: no memory");
}

static void dummy_free(void *pointer, size_t bytes, void *user)
{
    (void)bytes;
    (void)user;
    free_mark = 321;
    free(pointer);
}

static ph_pool *dummy_pool(void)
{
    ph_pool *pool;
    ph_pool_options options = {.alloc = dummy_alloc, .free = dummy_free};
    alloc_mark = free_mark = 0;
    assert_ok(ph_pool_create(&pool, w.device, &options));
    return pool;
}

static ph_status empty_body(ph_stream *stream, void *user)
{
    void *p;
    (void)user;
    PH_TRY(ph_malloc(&p, 1, 16, stream));
    PH_TRY(ph_memset(p, 0, 16, stream));
    ph_free(p, stream);
    return PH_OK;
}

TEST(test_mempool_id)
{
    ph_pool *first, *second;
    assert_ok(ph_pool_create(&first, w.device, NULL));
    assert_ok(ph_pool_create(&second, w.device, NULL));
    ph_pool_id a = ph_pool_get_id(first), b = ph_pool_get_id(second), none = ph_pool_get_id(NULL);
    assert_int_equal(a.first, 0);
    assert_int_equal(b.first, 0);
    assert_true(a.second > 0 && b.second > a.second);
    assert_int_equal(none.first + none.second, 0);
    ph_graph *graph;
    ph_pool *own;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, w.stream, NULL, empty_body, NULL));
    assert_ok(ph_graph_pool(&own, graph));
    assert_true(ph_pool_get_id(own).first > b.second);
    assert_int_equal(ph_pool_get_id(own).second, 0);
    ph_graph_destroy(graph);
    ph_pool_release(first);
    ph_pool_release(second);
}

TEST(test_pool_id_in_snapshot)
{
    ph_pool *pool;
    char id[64];
    assert_ok(ph_memory_record_history(w.device, 100));
    assert_ok(ph_pool_create(&pool, w.device, NULL));
    void *p = allocate_in(pool, 256, w.stream);
    (void)snprintf(id, sizeof id, "\"pool\":[0,%llu]",
                   (unsigned long long)ph_pool_get_id(pool).second);
    /* The pool itself, its segment, and the events segment_alloc and alloc. */
    assert_int_equal(in_snapshot(NULL, id), 4);
    assert_int_equal(in_snapshot(NULL, "\"event\":\"alloc\""), 1);
    ph_free(p, w.stream);
    assert_int_equal(in_snapshot(NULL, "\"event\":\"free\""), 1);
    ph_pool_release(pool);
    assert_ok(ph_memory_record_history(w.device, 0));
    assert_int_equal(in_snapshot(NULL, "history"), 0);
}

TEST(test_mempool_empty_cache)
{
    ph_pool *pool;
    assert_ok(ph_pool_create(&pool, w.device, NULL));
    void *a = allocate(4 * MIB, w.stream), *b = allocate_in(pool, 4 * MIB, w.stream);
    ph_free(a, w.stream);
    ph_free(b, w.stream);
    ph_pool_release(pool);
    assert_true(in_snapshot(NULL, "\"type\":\"large\"") >= 1);
}

TEST(test_mempool_empty_cache_inactive)
{
    ph_pool *pool = dummy_pool();
    void *p = allocate_in(pool, 16 * MIB, w.stream);
    ph_pool_release(pool);
    assert_int_equal(alloc_mark, 123);
    assert_int_equal(free_mark, 0);
    ph_free(p, w.stream);
    assert_ok(ph_memory_trim(w.device));
    assert_int_equal(free_mark, 321);
}

TEST(test_mempool_with_allocator)
{
    ph_pool *pool = dummy_pool();
    assert_int_equal(ph_pool_use_count(pool), 1);
    assert_int_equal(alloc_mark, 0);
    assert_ok(ph_pool_begin(pool));
    void *a = allocate(MIB, w.stream);
    assert_int_equal(ph_pool_use_count(pool), 2);
    assert_ok(ph_pool_end(pool));
    assert_int_equal(ph_pool_use_count(pool), 1);
    assert_int_equal(alloc_mark, 123);
    void *outside = allocate(MIB, w.stream);
    assert_ok(ph_pool_begin(pool));
    assert_int_equal(in_snapshot(pool, "\"type\":"), 1);
    void *b = allocate(MIB, w.stream);
    assert_int_equal(in_snapshot(pool, "\"type\":"), 1);
    void *c = allocate(MIB, w.stream);
    assert_int_equal(in_snapshot(pool, "\"type\":"), 2);
    assert_ok(ph_pool_end(pool));
    assert_int_equal(stats_of(pool).segments, 2);
    ph_free(a, w.stream);
    ph_free(b, w.stream);
    ph_free(c, w.stream);
    ph_free(outside, w.stream);
    assert_int_equal(free_mark, 0);
    ph_pool_release(pool);
    assert_int_equal(free_mark, 321);
}

TEST(test_tensor_delete_after_allocator_delete)
{
    ph_pool *pool = dummy_pool();
    void *p = allocate_in(pool, 16, w.stream);
    ph_pool_release(pool);
    assert_int_equal(free_mark, 0);
    ph_allocation found;
    assert_ok(ph_memory_lookup(&found, w.device, p));
    assert_non_null(found.pool);
    ph_free(p, w.stream);
    assert_ok(ph_memory_trim(w.device));
    assert_int_equal(free_mark, 321);
}

TEST(test_mempool_block_free_not_deferred)
{
    ph_pool *pools[2] = {NULL, NULL};
    ph_stream *side;
    assert_ok(ph_pool_create(&pools[1], w.device, NULL));
    assert_ok(ph_stream_create(&side, w.device, NULL));
    for (int i = 0; i < 2; i++) {
        int32_t *p = pools[i] ? allocate_in(pools[i], MIB, w.stream) : allocate(MIB, w.stream);
        assert_ok(ph_stream_wait_stream(side, w.stream));
        assert_ok(t_add(&w, side, p, p, MIB / 4, 1));
        assert_ok(ph_record_stream(p, side));
        ph_free(p, w.stream);
        assert_ok(ph_device_synchronize(w.device));
        void *again = pools[i] ? allocate_in(pools[i], MIB, w.stream) : allocate(MIB, w.stream);
        assert_ptr_equal(again, p);
        ph_free(again, w.stream);
    }
    ph_stream_destroy(side);
    ph_pool_release(pools[1]);
}

TEST(test_mempool_no_split)
{
    ph_pool *plain, *whole;
    ph_pool_options options = {.no_split = true};
    assert_ok(ph_pool_create(&plain, w.device, NULL));
    assert_ok(ph_pool_create(&whole, w.device, &options));
    void *p[4];
    for (int i = 0; i < 4; i++)
        p[i] = allocate_in(i < 2 ? plain : whole, 4 * MIB, w.stream);
    assert_int_equal(in_snapshot(plain, "\"type\":"), 1);
    assert_int_equal(in_snapshot(whole, "\"type\":"), 2);
    assert_int_equal(in_snapshot(plain, "\"state\":"), 3);
    assert_int_equal(in_snapshot(whole, "\"state\":"), 2);
    for (int i = 0; i < 4; i++)
        ph_free(p[i], w.stream);
    ph_pool_release(plain);
    ph_pool_release(whole);
}

TEST(test_snapshot_include_traces_correctness)
{
    void *p[3];
    for (int i = 0; i < 3; i++)
        p[i] = allocate(MIB, w.stream);
    size_t without = in_snapshot(NULL, "\"state\":\"allocated\"");
    assert_ok(ph_memory_record_history(w.device, 2));
    assert_int_equal(in_snapshot(NULL, "\"state\":\"allocated\""), without);
    assert_int_equal(without, 3);
    for (int i = 0; i < 3; i++)
        ph_free(p[i], w.stream);
    assert_int_equal(in_snapshot(NULL, "\"event\":"), 2);
}

/* ---- statistics of pools ---- */

TEST(test_reserved_bytes_by_private_pools)
{
    const size_t bytes = 5 * MIB * 4;
    ph_pool *pool, *other;
    void *p[4];
    assert_ok(ph_pool_create(&pool, w.device, NULL));
    for (size_t i = 0; i < 4; i++) {
        p[i] = allocate_in(pool, bytes, w.stream);
        assert_int_equal(stats_of(pool).reserved, (i + 1) * bytes);
    }
    for (size_t i = 0; i < 4; i++)
        ph_free(p[i], w.stream);
    assert_ok(ph_memory_trim(w.device));
    assert_int_equal(stats_of(pool).reserved, 4 * bytes);
    assert_ok(ph_memory_reset_accumulated(w.device));
    assert_ok(ph_memory_reset_peaks(w.device));
    ph_counter counter = stats_of(pool).reserved_bytes[PH_MEMORY_ALL];
    assert_int_equal(counter.current, 4 * bytes);
    assert_int_equal(counter.peak, 4 * bytes);
    assert_int_equal(counter.added, 0);
    assert_int_equal(counter.removed, 0);
    void *live = allocate_in(pool, bytes, w.stream);
    ph_free(live, w.stream);
    ph_pool_release(pool);
    counter = stats_of(NULL).reserved_bytes[PH_MEMORY_ALL];
    assert_int_equal(counter.current, 0);
    assert_int_equal(counter.peak, 4 * bytes);
    assert_int_equal(counter.removed, 4 * bytes);

    assert_ok(ph_pool_create(&pool, w.device, NULL));
    assert_ok(ph_pool_create(&other, w.device, NULL));
    p[0] = allocate_in(pool, bytes, w.stream);
    p[1] = allocate_in(other, bytes, w.stream);
    assert_int_equal(stats_of(pool).reserved, bytes);
    assert_int_equal(stats_of(other).reserved, bytes);
    ph_free(p[0], w.stream);
    ph_free(p[1], w.stream);
    ph_pool_release(pool);
    assert_int_equal(stats_of(other).reserved, bytes);
    assert_int_equal(stats_of(NULL).reserved, bytes);
    ph_pool_release(other);
    assert_int_equal(stats_of(NULL).reserved, 0);
}

/* ---- scopes ---- */

TEST(pool_scopes_nest_and_end_innermost_first)
{
    ph_pool *outer, *inner;
    assert_ok(ph_pool_create(&outer, w.device, NULL));
    assert_ok(ph_pool_create(&inner, w.device, NULL));
    assert_ok(ph_pool_begin(outer));
    assert_error(ph_pool_begin(outer), PH_ERROR_POOL_BUSY, "scope");
    assert_ok(ph_pool_begin(inner));
    assert_error(ph_pool_end(outer), PH_ERROR_STATE, "innermost");
    void *p = allocate(16, w.stream);
    ph_allocation found;
    assert_ok(ph_memory_lookup(&found, w.device, (char *)p + 100));
    assert_ptr_equal(found.pool, inner);
    assert_ok(ph_pool_end(inner));
    void *q = allocate(16, w.stream);
    assert_ok(ph_memory_lookup(&found, w.device, q));
    assert_ptr_equal(found.pool, outer);
    assert_ok(ph_pool_end(outer));
    assert_error(ph_pool_end(outer), PH_ERROR_STATE, "ph_pool_end");
    ph_free(p, w.stream);
    ph_free(q, w.stream);
    ph_pool_release(outer);
    ph_pool_release(inner);
    ph_pool_options half = {.alloc = dummy_alloc};
    assert_error(ph_pool_create(&outer, w.device, &half), PH_ERROR_ARGUMENT, "both");
    assert_null(outer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_mempool_id),
        IN_WORLD(test_pool_id_in_snapshot),
        IN_WORLD(test_mempool_empty_cache),
        IN_WORLD(test_mempool_empty_cache_inactive),
        IN_WORLD(test_mempool_with_allocator),
        IN_WORLD(test_tensor_delete_after_allocator_delete),
        IN_WORLD(test_mempool_block_free_not_deferred),
        IN_WORLD(test_mempool_no_split),
        IN_WORLD(test_snapshot_include_traces_correctness),
        IN_WORLD(test_reserved_bytes_by_private_pools),
        IN_WORLD(pool_scopes_nest_and_end_innermost_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
