/* SPDX-License-Identifier: MIT */
/* tests/memory/pinned.c: pinned host memory: reuse only when no work can read it, in captures
 * and outside. */
#include "base/alloc.h"
#include "support/support.h"
#include "support/test.h"
#include <string.h>

static t_world w;

FIXTURE(setup)
{
    t_open(&w, NULL);
    return 0;
}

FIXTURE(teardown)
{
    ph_memory_stats stats;
    assert_ok(ph_memory_trim(w.device));
    assert_ok(ph_memory_get_stats(&stats, w.device));
    assert_int_equal(stats.pinned, 0);
    assert_int_equal(stats.pinned_reserved, 0);
    t_close(&w);
    return 0;
}

typedef struct found {
    float *first, *second;
    float *device;
    bool keep_first, copy;
} found;

static ph_status body(ph_stream *stream, void *user)
{
    found *f = user;
    PH_TRY(PH_NEW(&f->device, 8, stream));
    PH_TRY(ph_malloc_pinned(&f->first, 8, sizeof(float), stream));
    for (int i = 0; i < 8; i++)
        f->first[i] = (float)i;
    if (f->copy)
        PH_TRY(ph_memcpy(f->device, f->first, 32, stream));
    else
        PH_TRY(ph_memset(f->device, 0, 32, stream));
    if (!f->keep_first)
        ph_free_pinned(f->first, stream);
    PH_TRY(ph_malloc_pinned(&f->second, 8, sizeof(float), stream));
    return PH_OK;
}

static ph_graph *capture(found *f)
{
    ph_graph *graph;
    ph_capture_options options = {.mode = PH_CAPTURE_THREAD_LOCAL};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, w.stream, &options, body, f));
    return graph;
}

TEST(test_pin_memory_no_use)
{
    found f = {.keep_first = true};
    ph_graph *graph = capture(&f);
    assert_ptr_not_equal(f.first, f.second);
    ph_free_pinned(f.first, w.stream);
    ph_free_pinned(f.second, w.stream);
    ph_free(f.device, w.stream);
    ph_graph_destroy(graph);
}

TEST(test_pin_memory_no_use2)
{
    found f = {.keep_first = false};
    ph_graph *graph = capture(&f);
    assert_ptr_equal(f.first, f.second);
    ph_free_pinned(f.second, w.stream);
    ph_free(f.device, w.stream);
    ph_graph_destroy(graph);
}

TEST(test_pin_memory_use)
{
    found f = {.copy = true};
    ph_graph *graph = capture(&f);
    ph_pool *pool;
    float out[8];
    assert_ptr_not_equal(f.first, f.second);
    ph_free_pinned(f.second, w.stream);
    /* The freed source is still the graph's: what is written elsewhere does not reach it. */
    assert_ok(ph_graph_pool(&pool, graph));
    for (int i = 0; i < 4; i++) {
        float *other;
        assert_ok(ph_pool_begin(pool));
        assert_ok(ph_malloc_pinned(&other, 8, sizeof(float), w.stream));
        assert_ok(ph_pool_end(pool));
        assert_ptr_not_equal(other, f.first);
        memset(other, 0xFF, 32);
        assert_ok(ph_graph_replay(graph, w.stream));
        t_read(out, f.device, sizeof out, w.stream);
        assert_true(out[7] == 7.0f);
        ph_free_pinned(other, w.stream);
    }
    ph_free(f.device, w.stream);
    ph_graph_destroy(graph);
}

/* A source from before the capture, in the default pool, is held by the pool of the capture that
 * copies it. */
TEST(test_pin_used_of_another_pool)
{
    float *source, *device, *other, out[8];
    ph_graph *graph;
    assert_ok(ph_malloc_pinned(&source, 8, sizeof(float), w.stream));
    for (int i = 0; i < 8; i++)
        source[i] = 2.0f;
    assert_ok(PH_NEW(&device, 8, w.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, w.stream, NULL));
    assert_ok(ph_memcpy(device, source, 32, w.stream));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    ph_free_pinned(source, w.stream);
    assert_ok(ph_device_synchronize(w.device));
    assert_ok(ph_malloc_pinned(&other, 8, sizeof(float), w.stream));
    assert_ptr_not_equal(other, source);
    memset(other, 0, 32);
    assert_ok(ph_graph_replay(graph, w.stream));
    t_read(out, device, sizeof out, w.stream);
    assert_true(out[3] == 2.0f);
    ph_graph_destroy(graph);
    ph_free_pinned(other, w.stream);
    ph_free(device, w.stream);
}

/* The host writes at once: a freed block that a queued copy has still to read is not handed out. */
TEST(test_freed_block_waits_for_its_copy)
{
    t_gate gate = {0};
    int32_t *source, *other, *device, value;
    ph_memory_stats stats;
    assert_ok(PH_NEW(&device, 1, w.stream));
    assert_ok(ph_malloc_pinned(&source, 1, 4, w.stream));
    *source = 41;
    assert_ok(t_gate_wait_guarded(&gate, w.stream));
    assert_ok(ph_memcpy(device, source, 4, w.stream));
    ph_free_pinned(source, w.stream);
    assert_ok(ph_malloc_pinned(&other, 1, 4, w.stream));
    *other = 0;
    assert_ok(ph_memory_get_stats(&stats, w.device));
    assert_int_equal(stats.pinned, 512);
    if (t_gate_held(&gate)) {
        assert_ptr_not_equal(other, source);
        assert_int_equal(stats.pinned_reserved, 1024);
    }
    t_gate_open(&gate);
    t_read(&value, device, 4, w.stream);
    assert_int_equal(value, 41);
    ph_free_pinned(other, w.stream);
    assert_ok(ph_stream_synchronize(w.stream));
    assert_ok(ph_malloc_pinned(&other, 1, 4, w.stream));
    ph_free_pinned(other, NULL);
    ph_free(device, NULL);
}

TEST(test_pinned_misuse)
{
    void *p;
    ph_allocation where;
    assert_error(ph_malloc_pinned(&p, SIZE_MAX, 2, w.stream), PH_ERROR_SIZE, "too many");
    assert_error(ph_malloc_pinned(&p, SIZE_MAX / 4, 1, w.stream), PH_ERROR_SIZE, "too many");
    assert_ok(ph_malloc_pinned(&p, 0, 4, w.stream));
    assert_null(p);
    assert_ok(ph_malloc_pinned(&p, 100, 4, w.stream));
    assert_ok(ph_memory_lookup(&where, w.device, (char *)p + 3));
    assert_true(where.pinned && where.base == p && where.requested == 400 && where.size == 512);
    t_log_start();
    ph_free_pinned((char *)p + 1, w.stream);
    ph_free_pinned(p, w.stream);
    ph_free_pinned(p, NULL);
    assert_int_equal(t_log_count("no live pinned allocation"), 1);
    t_log_stop();
}

static ph_status copy_body(ph_stream *stream, void *user)
{
    float *temporary;
    PH_TRY(PH_NEW(&temporary, 8, stream));
    PH_TRY(ph_memcpy(temporary, user, 32, stream));
    ph_free(temporary, stream);
    return PH_OK;
}

static int64_t live_after(int cycles, ph_graph *graph, const ph_capture_options *options,
                          float *pinned)
{
    for (int i = 0; i < cycles; i++) {
        assert_ok(ph_graph_capture(graph, w.stream, options, copy_body, pinned));
        assert_ok(ph_graph_replay(graph, w.stream));
        assert_ok(ph_stream_synchronize(w.stream));
        assert_ok(ph_graph_reset(graph));
    }
    return ph__alloc_live();
}

/* A block that is read by one capture after the other remembers none that is over. */
TEST(test_block_outlives_many_captures)
{
    float *pinned;
    ph_graph *graph;
    const ph_capture_options options = {.mode = PH_CAPTURE_THREAD_LOCAL};
    assert_ok(ph_malloc_pinned(&pinned, 8, sizeof *pinned, w.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    int64_t few = live_after(20, graph, &options, pinned);
    assert_true(live_after(200, graph, &options, pinned) < few + 100);
    ph_free_pinned(pinned, w.stream);
    ph_graph_destroy(graph);
}

/* A pool that its user keeps: blocks that its captures copied from are free when the graphs are
 * gone. */
TEST(test_blocks_return_with_the_last_graph)
{
    ph_pool *pool;
    ph_graph *graph;
    ph_memory_stats stats;
    assert_ok(ph_pool_create(&pool, w.device, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    const ph_capture_options options = {.pool = pool, .mode = PH_CAPTURE_THREAD_LOCAL};
    for (int i = 0; i < 50; i++) {
        float *pinned;
        assert_ok(ph_graph_capture_begin(graph, w.stream, &options));
        assert_ok(ph_malloc_pinned(&pinned, 8, sizeof *pinned, w.stream));
        assert_ok(copy_body(w.stream, pinned));
        ph_free_pinned(pinned, w.stream);
        assert_ok(ph_graph_capture_end(graph, PH_OK));
        assert_ok(ph_graph_replay(graph, w.stream));
        assert_ok(ph_stream_synchronize(w.stream));
        assert_ok(ph_graph_reset(graph));
        assert_ok(ph_pool_stats(&stats, pool)); /* asks the events */
    }
    assert_true(stats.pinned_reserved <= (size_t)4 * 512);
    ph_graph_destroy(graph);
    ph_pool_release(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pin_memory_no_use, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pin_memory_no_use2, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pin_memory_use, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pin_used_of_another_pool, setup, teardown),
        cmocka_unit_test_setup_teardown(test_freed_block_waits_for_its_copy, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pinned_misuse, setup, teardown),
        cmocka_unit_test_setup_teardown(test_block_outlives_many_captures, setup, teardown),
        cmocka_unit_test_setup_teardown(test_blocks_return_with_the_last_graph, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
