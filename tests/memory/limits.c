/* SPDX-License-Identifier: MIT */
/* tests/memory/limits.c: running out: limits, recovery from cached memory, lending pools,
 * captures that survive; poison. */
#include "support/fault.h"
#include "support/support.h"

#include "driver/driver.h"
#include "support/test.h"
#include <string.h>

#define MIB ((size_t)1 << 20)

static t_world w;

FIXTURE(setup)
{
    ph_device *device;
    assert_ok(t_open_small(&device, 256 * MIB));
    t_open_world(&w, device);
    return 0;
}

FIXTURE(setup_poison)
{
    t_open_with(&w, &(ph_device_options){.debug_poison = true});
    return 0;
}

FIXTURE(teardown)
{
    t_close(&w);
    return 0;
}

static void *allocate(size_t bytes)
{
    void *p;
    assert_ok(ph_malloc(&p, 1, bytes, w.stream));
    return p;
}

static ph_memory_stats stats_now(void)
{
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, w.device));
    return stats;
}

static void recovery(ph_pool *pool)
{
    size_t free_bytes = 256 * MIB - stats_now().reserved,
           fill = free_bytes / 2 / (2 * MIB) * (2 * MIB);
    size_t want = (free_bytes - free_bytes / 8) / (2 * MIB) * (2 * MIB);
    assert_true(fill >= 64 * MIB);
    if (pool)
        assert_ok(ph_pool_begin(pool));
    void *p = allocate(fill);
    ph_free(p, w.stream);
    void *q = allocate(want);
    ph_free(q, w.stream);
    if (pool)
        assert_ok(ph_pool_end(pool));
    assert_true(stats_now().retries >= 1);
    assert_ok(ph_memory_trim(w.device));
}

TEST(test_mempool_oom_recovery_releases_cached_blocks)
{
    ph_pool *pool;
    recovery(NULL);
    assert_ok(ph_pool_create(&pool, w.device, NULL));
    recovery(pool);
    ph_pool_release(pool);
}

TEST(test_deleted_mempool_not_used_on_oom)
{
    ph_pool *pool;
    ph_pool_options options = {.use_on_oom = true};
    assert_ok(ph_memory_set_limit(w.device, 40 * MIB));
    for (int i = 0; i <= 10; i++) {
        assert_ok(ph_pool_create(&pool, w.device, &options));
        assert_ok(ph_pool_begin(pool));
        void *p = allocate(40 * MIB);
        ph_free(p, w.stream);
        assert_ok(ph_pool_end(pool));
        if (i < 10)
            ph_pool_release(pool);
    }
    void *a = allocate(20 * MIB), *b = allocate(20 * MIB), *c;
    assert_error(ph_malloc(&c, 1, 20 * MIB, w.stream), PH_ERROR_POOL_LIMIT, "ph_memory_set_limit");
    assert_null(c);
    assert_int_equal(stats_now().ooms, 1);
    ph_free(a, w.stream);
    ph_free(b, w.stream);
    ph_pool_release(pool);
    assert_ok(ph_memory_set_limit(w.device, 0));
}

static ph_status take_12(ph_stream *stream, void *user)
{
    void *p;
    (void)user;
    PH_TRY(ph_malloc(&p, 1, 12 * MIB, stream));
    PH_TRY(ph_memset(p, 0, 64, stream));
    ph_free(p, stream);
    return PH_OK;
}

/* The block that fits best is a graph's: the next best, which is nobody's, is lent. no_split:
 * whole. */
TEST(test_use_on_oom_passes_a_graphs_memory)
{
    for (int i = 0; i < 2; i++) {
        const ph_pool_options options = {.use_on_oom = true, .no_split = i == 1};
        const size_t lent = i == 1 ? 30 * MIB : 11 * MIB;
        ph_pool *pool;
        ph_graph *graph;
        ph_memory_stats stats;
        ph_allocation found;
        void *rest;
        assert_ok(ph_memory_set_limit(w.device, 62 * MIB));
        assert_ok(ph_pool_create(&pool, w.device, &options));
        const ph_capture_options into = {.pool = pool};
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(ph_graph_capture(graph, w.stream, &into, take_12, NULL));
        assert_ok(ph_pool_begin(pool));
        void *cached = allocate(30 * MIB);
        ph_free(cached, w.stream);
        assert_ok(ph_pool_end(pool));
        rest = allocate(20 * MIB);
        void *p = allocate(11 * MIB);
        assert_ptr_equal(p, cached);
        assert_ok(ph_memory_lookup(&found, w.device, p));
        assert_ptr_equal(found.pool, pool);
        assert_int_equal(found.size, lent);
        assert_ok(ph_pool_stats(&stats, pool));
        assert_int_equal(stats.allocated, lent);
        /* What is left is the graph's alone, and it stays so. */
        void *none;
        assert_error(ph_malloc(&none, 1, 20 * MIB, w.stream), PH_ERROR_POOL_LIMIT, "limit");
        if (i == 1)
            assert_error(ph_malloc(&none, 1, 12 * MIB, w.stream), PH_ERROR_POOL_LIMIT, "limit");
        ph_free(p, w.stream);
        ph_free(rest, w.stream);
        ph_graph_destroy(graph);
        ph_pool_release(pool);
        assert_ok(ph_memory_trim(w.device));
        assert_ok(ph_memory_set_limit(w.device, 0));
    }
}

TEST(test_pool_limit)
{
    ph_pool *pool;
    ph_pool_options options = {.limit = 24 * MIB};
    void *p, *q;
    assert_ok(ph_pool_create(&pool, w.device, &options));
    assert_ok(ph_pool_begin(pool));
    p = allocate(20 * MIB);
    assert_error(ph_malloc(&q, 1, 20 * MIB, w.stream), PH_ERROR_POOL_LIMIT,
                 "ph_pool_options.limit");
    ph_free(p, w.stream);
    q = allocate(24 * MIB); /* after its own cached segment went back */
    assert_ok(ph_pool_end(pool));
    ph_free(q, w.stream);
    ph_pool_release(pool);
}

/* The message says what holds the memory. */
TEST(test_out_of_memory_message)
{
    void *p = allocate(200 * MIB), *q;
    assert_error(ph_malloc(&q, 1, 300 * MIB, w.stream), t_shortage(),
                 t_on_host() ? "allocated 209715200" : "of which 209715200 are taken");
    assert_int_equal(stats_now().ooms, 1);
    ph_free(p, w.stream);
}

/* A capture that runs out fails without recovery, and everything is usable again at once. */
static ph_status allocate_too_much(ph_stream *stream, void *user)
{
    float *huge;
    (void)user;
    return PH_NEW(&huge, (size_t)1 << 40, stream);
}

TEST(test_graph_capture_oom)
{
    ph_graph *graph;
    int32_t *eager = allocate(1024);
    void *p, *cached = allocate(200 * MIB), *inside;
    ph_free(cached, w.stream);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, w.stream, NULL));
    inside = allocate(1024);
    assert_ok(ph_memset(inside, 0, 1024, w.stream));
    assert_error(ph_malloc(&p, 1, 200 * MIB, w.stream), t_shortage(),
                 t_on_host() ? "capture is open" : t_shortage_words());
    assert_true(ph_stream_is_capturing(w.stream));
    ph_free(inside, w.stream);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_replay(graph, w.stream));
    assert_ok(ph_stream_synchronize(w.stream));
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_memory_set_limit(w.device, 0)); /* none: the device itself has too little */
    assert_error(ph_graph_capture(graph, w.stream, NULL, allocate_too_much, NULL),
                 PH_ERROR_DEVICE_MEMORY, "out of memory");
    assert_false(ph_stream_is_capturing(w.stream));
    /* Eager work and further captures go on. */
    assert_ok(t_fill(&w, w.stream, eager, 256, 1));
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture_begin(graph, w.stream, NULL));
    assert_ok(ph_graph_capture_end(graph, t_add(&w, w.stream, eager, eager, 256, 10)));
    assert_ok(ph_graph_replay(graph, w.stream));
    t_all(eager, 256, 11, w.stream);
    ph_free(eager, w.stream);
    assert_ok(ph_graph_reset(graph));
    ph_capture_options options = {.prepare = true};
    assert_ok(ph_graph_capture_begin(graph, w.stream, &options));
    p = allocate(200 * MIB);
    assert_ok(ph_memset(p, 0, 16, w.stream));
    ph_free(p, w.stream);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    ph_graph_destroy(graph);
}

TEST(freed_memory_is_poisoned)
{
    unsigned char seen[64], want[64];
    unsigned char *p = allocate(64);
    memset(want, 0xDB, sizeof want);
    assert_ok(ph_memset(p, 7, 64, w.stream));
    ph_free(p, w.stream);
    unsigned char *q = allocate(64);
    assert_ptr_equal(q, p);
    t_read(seen, q, 64, w.stream);
    assert_memory_equal(seen, want, 64);
    ph_free(q, w.stream);
}

/* A block that could not be poisoned is freed all the same, and the log says so. */
TEST(test_poison_that_fails)
{
    unsigned char *p = allocate(64);
    t_log_start();
    ph__driver_fail_after(0, PH__R_LAUNCH_FAILED);
    ph_free(p, w.stream);
    ph__driver_fail_after(-1, PH__R_OK);
    assert_int_equal(t_log_count("without being poisoned"), 1);
    t_log_stop();
    unsigned char *q = allocate(64);
    assert_ptr_equal(q, p);
    ph_free(q, w.stream);
}

/* A block that another stream uses is poisoned only after that use. */
TEST(test_poison_waits_for_uses)
{
    t_gate gate = {0};
    ph_stream *side;
    assert_ok(ph_stream_create(&side, w.device, NULL));
    int32_t *p = allocate(64), *copy = allocate(64);
    assert_ok(ph_memset_u32(p, 5, 16, w.stream));
    assert_ok(ph_stream_wait_stream(side, w.stream));
    assert_ok(t_gate_wait_guarded(&gate, side));
    assert_ok(ph_memcpy(copy, p, 64, side));
    ph_free(p, side);
    void *other = allocate(64);
    if (t_gate_held(&gate)) {
        assert_ptr_not_equal(other, p);
    } else {
        ph_free(other, NULL);
        other = NULL;
    }
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(side));
    t_all(copy, 16, 5, w.stream);
    void *again = allocate(64);
    assert_ptr_equal(again, p);
    t_all(again, 16, (int32_t)0xDBDBDBDB, w.stream);
    ph_free(other, NULL);
    ph_free(again, NULL);
    ph_free(copy, NULL);
    ph_stream_destroy(side);
}

/* Memory of a graph's pool is the graph's: it is not poisoned, in or after the capture. */
TEST(test_poison_spares_captured_memory)
{
    ph_graph *graph;
    int32_t *out;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, w.stream, NULL));
    int32_t *in = allocate(64);
    out = allocate(64);
    assert_ok(ph_memset_u32(in, 3, 16, w.stream));
    assert_ok(ph_memcpy(out, in, 64, w.stream));
    ph_free(in, w.stream);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    ph_free(out, w.stream);
    assert_ok(ph_graph_replay(graph, w.stream));
    t_all(out, 16, 3, w.stream);
    ph_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_mempool_oom_recovery_releases_cached_blocks, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_deleted_mempool_not_used_on_oom, setup, teardown),
        cmocka_unit_test_setup_teardown(test_use_on_oom_passes_a_graphs_memory, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pool_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(test_out_of_memory_message, setup, teardown),
        cmocka_unit_test_setup_teardown(test_graph_capture_oom, setup, teardown),
        cmocka_unit_test_setup_teardown(freed_memory_is_poisoned, setup_poison, teardown),
        cmocka_unit_test_setup_teardown(test_poison_that_fails, setup_poison, teardown),
        cmocka_unit_test_setup_teardown(test_poison_waits_for_uses, setup_poison, teardown),
        cmocka_unit_test_setup_teardown(test_poison_spares_captured_memory, setup_poison, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
