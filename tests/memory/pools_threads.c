/* SPDX-License-Identifier: MIT */
/* tests/memory/pools_threads.c: memory pools and threads: a scope is of the thread that opened it,
 * and ends with it. */
#include "pools.h"
#include <pthread.h>

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_mempool_multithread),
        IN_WORLD(test_mempool_emptycache_multithread),
        IN_WORLD(test_mempool_ctx_multithread),
        IN_WORLD(test_thread_that_ends_in_a_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
