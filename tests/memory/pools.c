/* SPDX-License-Identifier: MIT */
/* tests/memory/pools.c: the behaviours of memory pools that PyTorch holds itself to: sources,
 * release, scopes, threads, statistics. */
#include "base/alloc.h"
#include "support/support.h"
#include "support/test.h"
#include <phonograph/cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((size_t)1 << 20)

static t_world w;

FIXTURE(setup)
{
    t_open(&w, NULL);
    return 0;
}

FIXTURE(teardown)
{
    t_close(&w);
    return 0;
}

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

static void *allocate(size_t bytes, ph_stream *stream)
{
    void *p;
    assert_ok(ph_malloc(&p, 1, bytes, stream));
    assert_non_null(p);
    return p;
}

static void *allocate_in(ph_pool *pool, size_t bytes, ph_stream *stream)
{
    assert_ok(ph_pool_begin(pool));
    void *p = allocate(bytes, stream);
    assert_ok(ph_pool_end(pool));
    return p;
}

static ph_memory_stats stats_of(const ph_pool *pool)
{
    ph_memory_stats stats;
    assert_ok(pool ? ph_pool_stats(&stats, pool) : ph_memory_get_stats(&stats, w.device));
    return stats;
}

/* How often a text occurs in the snapshot. */
static size_t in_snapshot(const ph_pool *pool, const char *part)
{
    char *json;
    size_t count = 0;
    assert_ok(ph_memory_snapshot(&json, w.device, pool));
    for (const char *at = json; (at = strstr(at, part)) != NULL; at++)
        count++;
    ph_string_free(json);
    return count;
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

static void test_mempool_no_split(void **state)
{
    (void)state;
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

/* ---- threads ---- */

typedef struct visitor {
    pthread_t thread;
    ph_pool *pool;
    ph_pool_id id;
    ph_status status;
    size_t segments, total_segments, default_active;
    pthread_barrier_t *barrier;
} visitor;

static void *make_pool(void *user)
{
    visitor *v = user;
    v->status = ph_pool_create(&v->pool, w.device, NULL);
    return NULL;
}

static void run(visitor *v, size_t count, void *(*body)(void *))
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(pthread_create(&v[i].thread, NULL, body, &v[i]), 0);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(pthread_join(v[i].thread, NULL), 0);
        assert_int_equal(v[i].status, PH_OK);
    }
}

TEST(test_mempool_multithread)
{
    visitor v[4] = {{0}};
    run(v, 4, make_pool);
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < i; k++)
            assert_true(ph_pool_get_id(v[i].pool).second != ph_pool_get_id(v[k].pool).second);
    for (int i = 0; i < 4; i++)
        ph_pool_release(v[i].pool);
}

static void *trim_in_scope(void *user)
{
    visitor *v = user;
    void *p = NULL;
    ph_memory_stats stats;
    memset(&stats, 0, sizeof stats);
    v->status = ph_pool_create(&v->pool, w.device, NULL);
    if (v->status == PH_OK)
        v->status = ph_pool_begin(v->pool);
    if (v->status == PH_OK)
        v->status = ph_malloc(&p, 4, 4, w.stream);
    ph_free(p, w.stream);
    if (v->status == PH_OK)
        v->status = ph_memory_trim(w.device);
    if (v->status == PH_OK)
        v->status = ph_pool_end(v->pool);
    if (v->status == PH_OK)
        v->status = ph_pool_stats(&stats, v->pool);
    v->segments = stats.segments;
    return NULL;
}

TEST(test_mempool_emptycache_multithread)
{
    visitor v[4] = {{0}};
    run(v, 4, trim_in_scope);
    for (int i = 0; i < 4; i++)
        assert_int_equal(v[i].segments, 1);
    for (int i = 0; i < 4; i++)
        ph_pool_release(v[i].pool);
    assert_int_equal(stats_of(NULL).segments, 0);
}

static void *allocate_unrouted(void *user)
{
    visitor *v = user;
    void *p = NULL;
    ph_memory_stats stats;
    (void)pthread_barrier_wait(v->barrier);
    v->status = ph_malloc(&p, 1, MIB, w.stream);
    if (v->status == PH_OK)
        v->status = ph_memory_get_stats(&stats, w.device);
    if (v->status == PH_OK)
        v->total_segments = stats.segments;
    if (v->status == PH_OK)
        v->status = ph_pool_stats(&stats, v->pool);
    if (v->status == PH_OK)
        v->default_active = stats.active_bytes[PH_MEMORY_ALL].current;
    (void)pthread_barrier_wait(v->barrier);
    ph_free(p, w.stream);
    return NULL;
}

/* Routing is of the thread: another thread's allocation beside an open scope is not in its pool. */
TEST(test_mempool_ctx_multithread)
{
    ph_pool *pool;
    pthread_barrier_t barrier;
    visitor v = {.barrier = &barrier};
    assert_int_equal(pthread_barrier_init(&barrier, NULL, 2), 0);
    assert_ok(ph_pool_create(&pool, w.device, NULL));
    v.pool = pool;
    assert_int_equal(stats_of(NULL).segments, 0);
    void *first = allocate(MIB, w.stream);
    assert_ok(ph_pool_begin(pool));
    void *inside = allocate(MIB, w.stream);
    ph_free(inside, w.stream);
    assert_int_equal(pthread_create(&v.thread, NULL, allocate_unrouted, &v), 0);
    (void)pthread_barrier_wait(&barrier);
    (void)pthread_barrier_wait(&barrier);
    assert_int_equal(pthread_join(v.thread, NULL), 0);
    assert_ok(ph_pool_end(pool));
    assert_int_equal(v.status, PH_OK);
    assert_int_equal(v.total_segments, 2);
    assert_int_equal(v.default_active, 0);
    assert_int_equal(stats_of(NULL).allocated_bytes[0].peak, 2 * MIB);
    ph_free(first, w.stream);
    ph_pool_release(pool);
    pthread_barrier_destroy(&barrier);
}

static void test_snapshot_include_traces_correctness(void **state)
{
    (void)state;
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

/* ---- misuse ---- */

TEST(test_scopes)
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

/* ---- handles ---- */
static ph_status fill_some(ph_stream *stream, void *user)
{
    void *p;
    (void)user;
    PH_TRY(ph_malloc(&p, 1, 100, stream));
    PH_TRY(ph_memset(p, 0, 100, stream));
    ph_free(p, stream);
    return PH_OK;
}

/* Every call that takes a pool, given one that is not there any more. */
static void refused_everywhere(ph_pool *gone)
{
    ph_pool_checkpoint *checkpoint;
    ph_memory_stats stats;
    ph_graph *graph;
    char *text;
    bool equal;
    const ph_capture_options into = {.pool = gone};
    const ph_pool_id id = ph_pool_get_id(gone);
    assert_true(id.first == 0 && id.second == 0);
    assert_int_equal(ph_pool_use_count(gone), 0);
    assert_error(ph_pool_begin(gone), PH_ERROR_ARGUMENT, "ph_pool_begin");
    assert_error(ph_pool_end(gone), PH_ERROR_STATE, "ph_pool_end");
    assert_error(ph_pool_trim(gone), PH_ERROR_ARGUMENT, "ph_pool_trim");
    assert_error(ph_pool_checkpoint_create(&checkpoint, gone), PH_ERROR_ARGUMENT, "ph_pool_retain");
    assert_error(ph_pool_check_live(&equal, gone, NULL, 0), PH_ERROR_ARGUMENT, "ph_pool_retain");
    assert_error(ph_pool_stats(&stats, gone), PH_ERROR_ARGUMENT, "ph_pool_retain");
    assert_error(ph_memory_snapshot(&text, w.device, gone), PH_ERROR_ARGUMENT, "ph_pool_retain");
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, w.stream, NULL));
    assert_error(ph_graph_retain_pool(graph, gone), PH_ERROR_ARGUMENT, "ph_pool_retain");
    ph_graph_capture_abort(graph);
    assert_error(ph_graph_import_cuda(graph, w.device, (struct CUgraph_st *)&stats, &into),
                 PH_ERROR_ARGUMENT, "ph_pool_retain");
    assert_error(ph_graph_capture(graph, w.stream, &into, fill_some, NULL), PH_ERROR_ARGUMENT,
                 "ph_pool_retain");
    assert_error(ph_graph_capture_begin(graph, w.stream, &into), PH_ERROR_ARGUMENT,
                 "ph_pool_retain");
    ph_graph_destroy(graph);
    assert_null(ph_pool_retain(gone));
    ph_pool_release(gone);
}

TEST(test_handles_of_pools_that_have_gone)
{
    ph_pool *pool, *kept;
    ph_pool_checkpoint *checkpoint;
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    t_log_start();
    for (int how = 0; how < 3; how++) {
        assert_ok(ph_graph_capture(graph, w.stream, NULL, fill_some, NULL));
        assert_ok(ph_graph_pool(&pool, graph));
        assert_ok(ph_pool_checkpoint_create(&checkpoint, pool));
        assert_ok(ph_graph_reset(graph));
        assert_ok(ph_memory_trim(w.device));
        if (how == 1) /* another pool does not get the address */
            assert_ok(ph_graph_capture(graph, w.stream, NULL, fill_some, NULL));
        refused_everywhere(pool);
        assert_error(ph_pool_checkpoint_restore(pool, checkpoint), PH_ERROR_ARGUMENT,
                     "ph_pool_retain");
        ph_pool_checkpoint_destroy(checkpoint);
        assert_ok(ph_graph_reset(graph));
    }
    t_log_stop();
    /* Whoever retains it has it. */
    assert_ok(ph_graph_capture(graph, w.stream, NULL, fill_some, NULL));
    assert_ok(ph_graph_pool(&pool, graph));
    kept = ph_pool_retain(pool);
    assert_ptr_equal(kept, pool);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_memory_trim(w.device));
    const ph_capture_options into = {.pool = kept};
    assert_ok(ph_graph_capture(graph, w.stream, &into, fill_some, NULL));
    assert_ok(ph_graph_replay(graph, w.stream));
    ph_pool_release(kept);
    ph_graph_destroy(graph);
}

/* However many: what is kept of them is bounded. */
TEST(test_many_pools_that_have_gone)
{
    ph_pool *pool;
    ph_graph *graph;
    int64_t before = 0;
    assert_ok(ph_graph_create(&graph, NULL));
    for (int i = 0; i < 1200; i++) {
        assert_ok(ph_graph_capture(graph, w.stream, NULL, fill_some, NULL));
        assert_ok(ph_graph_pool(&pool, graph));
        assert_ok(ph_graph_reset(graph));
        if (i == 600)
            before = ph__alloc_live();
    }
    assert_in_range(ph__alloc_live(), 0, before + 20);
    ph_graph_destroy(graph);
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

/* ---- threads that end ---- */
static void *end_inside(void *user)
{
    ph_pool **pools = user;
    void *p = NULL;
    bool ok = ph_pool_begin(pools[0]) == PH_OK && ph_pool_begin(pools[1]) == PH_OK &&
              ph_malloc(&p, 1, 100, w.stream) == PH_OK;
    ph_free(p, w.stream);
    return ok ? user : NULL;
}

TEST(test_thread_that_ends_in_a_scope)
{
    ph_pool *pools[2];
    assert_ok(ph_pool_create(&pools[0], w.device, NULL));
    assert_ok(ph_pool_create(&pools[1], w.device, NULL));
    for (int round = 0; round < 3; round++) {
        pthread_t thread;
        void *done = NULL, *p;
        assert_int_equal(pthread_create(&thread, NULL, end_inside, pools), 0);
        pthread_join(thread, &done);
        assert_non_null(done);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(ph_pool_use_count(pools[i]), 1);
            p = allocate_in(pools[i], 100, w.stream);
            ph_free(p, w.stream);
        }
        /* This thread's are as they were. */
        ph_allocation found;
        p = allocate(100, w.stream);
        assert_ok(ph_memory_lookup(&found, w.device, p));
        assert_null(found.pool);
        ph_free(p, w.stream);
    }
    ph_pool_release(pools[0]);
    ph_pool_release(pools[1]);
}

/* A pool that nobody holds is still named by its live blocks, and can be held again. */
TEST(test_pool_held_again)
{
    ph_pool *pool;
    ph_graph *graph;
    ph_allocation found;
    assert_ok(ph_pool_create(&pool, w.device, NULL));
    assert_ok(ph_pool_begin(pool));
    void *p = allocate(100, w.stream);
    assert_ok(ph_pool_end(pool));
    ph_pool_release(pool);
    for (int i = 0; i < 20; i++) {
        assert_ok(ph_memory_lookup(&found, w.device, p));
        assert_ptr_equal(found.pool, pool);
        assert_int_equal(ph_pool_use_count(found.pool), 0);
        assert_ptr_equal(ph_pool_retain(found.pool), pool);
        assert_int_equal(ph_pool_use_count(pool), 1);
        ph_pool_release(pool);
        assert_ok(ph_pool_begin(pool));
        assert_ok(ph_pool_end(pool));
    }
    const ph_capture_options options = {.pool = pool};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, w.stream, &options));
    assert_ok(ph_memset(p, 0, 100, w.stream));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    ph_free(p, w.stream);
    assert_ok(ph_graph_replay(graph, w.stream));
    ph_graph_destroy(graph);
    assert_ok(ph_device_synchronize(w.device));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mempool_id, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pool_id_in_snapshot, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mempool_empty_cache, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mempool_empty_cache_inactive, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mempool_with_allocator, setup, teardown),
        cmocka_unit_test_setup_teardown(test_tensor_delete_after_allocator_delete, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mempool_block_free_not_deferred, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mempool_no_split, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mempool_multithread, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mempool_emptycache_multithread, setup, teardown),
        cmocka_unit_test_setup_teardown(test_mempool_ctx_multithread, setup, teardown),
        cmocka_unit_test_setup_teardown(test_snapshot_include_traces_correctness, setup, teardown),
        cmocka_unit_test_setup_teardown(test_reserved_bytes_by_private_pools, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nccl_mem_alloc_addresses_in_random_order, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_scopes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sources_that_fail, setup, teardown),
        cmocka_unit_test_setup_teardown(test_handles_of_pools_that_have_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_pools_that_have_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sources_that_recurse, setup, teardown),
        cmocka_unit_test_setup_teardown(test_thread_that_ends_in_a_scope, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pool_held_again, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
