/* SPDX-License-Identifier: MIT */
/* tests/memory/streams.c: blocks and streams: record_stream, reuse inside a capture, routing by
 * stream, destroyed streams. */
#include "device/handles/device.h"
#include "device/handles/event.h"
#include "support/support.h"
#include "support/test.h"
#include <string.h>

#define MIB ((size_t)1 << 20)

static t_world w;
static ph_stream *s0, *s1, *s2;

static int setup_on(const char *name)
{
    t_open(&w, name);
    assert_ok(ph_stream_create(&s0, w.device, NULL));
    assert_ok(ph_stream_create(&s1, w.device, NULL));
    assert_ok(ph_stream_create(&s2, w.device, NULL));
    return 0;
}

FIXTURE(setup)
{
    return setup_on(NULL);
}

FIXTURE(setup_no_reuse)
{
    ph_device_options options = {.no_reuse_in_capture = true};
    memset(&w, 0, sizeof w);
    assert_ok(ph_device_open(&w.device, t_device_name(), &options));
    assert_ok(ph_stream_create(&s1, w.device, NULL));
    assert_ok(ph_stream_create(&s2, w.device, NULL));
    return 0;
}

FIXTURE(teardown_no_reuse)
{
    ph_stream_destroy(s1);
    ph_stream_destroy(s2);
    ph_device_release(w.device);
    return 0;
}

FIXTURE(teardown)
{
    ph_stream_destroy(s0);
    ph_stream_destroy(s1);
    ph_stream_destroy(s2);
    t_close(&w);
    return 0;
}

static void *allocate(size_t bytes, ph_stream *stream)
{
    void *p;
    assert_ok(ph_malloc(&p, 1, bytes, stream));
    return p;
}

static ph_memory_stats stats_now(void)
{
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, w.device));
    return stats;
}

/* While a capture is open nothing is polled, and a free that other streams are noted for waits
 * for its end. */
TEST(test_graph_record_stream)
{
    t_gate gate = {0};
    ph_graph *graph;
    int32_t *first = allocate(12, s0), *source = allocate(12, s0);
    assert_ok(ph_memset_u32(source, 0, 3, s0));
    assert_ok(ph_stream_synchronize(s0));
    assert_ok(ph_record_stream(first, s1));
    assert_ok(t_fill(&w, s1, first, 3, 1));
    assert_ok(t_gate_wait_guarded(&gate, s1));
    ph_free(first, s0);
    assert_int_equal(stats_now().deferred, 1);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, s0, NULL));
    int32_t *b = allocate(12, s0);
    assert_ok(ph_memcpy(b, source, 12, s0));
    assert_ok(ph_stream_wait_stream(s2, s0));
    assert_ok(ph_memset_u32(b, 1, 3, s2));
    assert_ok(ph_record_stream(b, s2));
    ph_free(b, s0);
    assert_ok(ph_stream_wait_stream(s0, s2));
    assert_int_equal(stats_now().deferred, 2);
    /* Captured work does not run: only the block that runs behind the gate waits on. */
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    if (t_gate_held(&gate))
        assert_int_equal(stats_now().deferred, 1);
    t_gate_open(&gate);
    assert_ok(ph_device_synchronize(w.device));
    int32_t *again = allocate(12, s0);
    assert_ptr_equal(again, first);
    assert_int_equal(stats_now().deferred, 0);
    assert_ok(ph_graph_replay(graph, s0));
    assert_ok(ph_stream_synchronize(s0));
    ph_free(again, s0);
    ph_free(source, s0);
    ph_graph_destroy(graph);
}

/* The pool is that of the capture which the stream belongs to, and segments are of one stream. */
TEST(test_cuda_graph_allocator_propagates_stream)
{
    ph_graph *graph;
    ph_pool *pool;
    ph_memory_stats stats;
    ph_allocation one, two;
    const size_t bytes = (size_t)10240000 * 4;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, s0, NULL));
    int32_t *z = allocate(bytes, s0);
    assert_ok(ph_memset_u32(z, 1, 10, s0));
    assert_ok(ph_stream_wait_stream(s1, s0));
    int32_t *dropped = allocate(bytes, s1);
    assert_ok(t_add(&w, s1, z, dropped, 10, 1));
    assert_ok(ph_memory_lookup(&one, w.device, z));
    assert_ok(ph_memory_lookup(&two, w.device, dropped));
    ph_free(dropped, s1);
    assert_ok(ph_stream_wait_stream(s0, s1));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_pool(&pool, graph));
    assert_ptr_equal(one.pool, pool);
    assert_ptr_equal(two.pool, pool);
    assert_ok(ph_memory_lookup(&one, w.device, z)); /* after the capture, too */
    assert_ptr_equal(one.pool, pool);
    assert_ok(ph_pool_stats(&stats, pool));
    assert_int_equal(stats.segments, 2);
    ph_free(z, s0);
    ph_graph_destroy(graph);
}

typedef struct addresses {
    void *data1, *data2, *data3;
} addresses;

static ph_status reclaim_body(ph_stream *stream, void *user)
{
    addresses *a = user;
    int32_t *sink1, *data1, *buf2, *data2, *data3;
    PH_TRY(PH_NEW(&sink1, 8, stream));
    PH_TRY(PH_NEW(&data1, 8, stream));
    a->data1 = data1;
    PH_TRY(ph_stream_wait_stream(s2, stream));
    PH_TRY(PH_NEW(&buf2, 8, s2));
    PH_TRY(ph_memcpy(buf2, data1, 32, s2));
    PH_TRY(ph_record_stream(data1, s2));
    ph_free(data1, stream);
    PH_TRY(PH_NEW(&data2, 8, stream));
    a->data2 = data2;
    PH_TRY(ph_stream_wait_stream(stream, s2));
    PH_TRY(ph_memset_u32(sink1, 0, 8, stream));
    PH_TRY(PH_NEW(&data3, 8, stream));
    a->data3 = data3;
    ph_free(sink1, stream);
    ph_free(data2, stream);
    ph_free(data3, stream);
    ph_free(buf2, s2);
    return PH_OK;
}

TEST(test_graph_capture_reclaim_2_streams)
{
    const ph_graph_options keep = {.keep_graph = true};
    ph_graph *graph;
    addresses a;
    assert_ok(ph_graph_create(&graph, &keep));
    assert_ok(ph_graph_capture(graph, s1, NULL, reclaim_body, &a));
    assert_ptr_not_equal(a.data2, a.data1); /* s2 may still read it there */
    assert_ptr_equal(a.data3, a.data1);     /* the join orders the reuse behind it */
    ph_graph_destroy(graph);
}

TEST(test_no_reuse_in_capture)
{
    ph_graph *graph;
    addresses a;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s1, NULL, reclaim_body, &a));
    assert_ptr_not_equal(a.data2, a.data1);
    assert_ptr_not_equal(a.data3, a.data1);
    assert_int_equal(stats_now().deferred, 0);
    ph_graph_destroy(graph);
}

TEST(test_graph_capture_reclaim_shared_pool)
{
    ph_pool *pool;
    ph_graph *g1, *g2;
    const size_t bytes = 8 * MIB;
    assert_ok(ph_pool_create(&pool, w.device, NULL));
    ph_capture_options options = {.pool = pool};
    assert_ok(ph_graph_create(&g1, NULL));
    assert_ok(ph_graph_create(&g2, NULL));
    assert_ok(ph_graph_capture_begin(g1, s1, &options));
    int32_t *data = allocate(bytes, s1);
    assert_ok(ph_stream_wait_stream(s2, s1));
    assert_ok(t_add(&w, s2, data, data, bytes / 4, 1));
    assert_ok(ph_record_stream(data, s2));
    assert_ok(ph_stream_wait_stream(s1, s2));
    ph_free(data, s1);
    assert_ok(ph_graph_capture_end(g1, PH_OK));
    assert_ok(ph_device_synchronize(w.device));
    assert_ok(ph_graph_capture_begin(g2, s1, &options));
    int32_t *second = allocate(bytes, s1);
    assert_ok(ph_memset_u32(second, 42, bytes / 4, s1));
    assert_ok(ph_graph_capture_end(g2, PH_OK));
    assert_ptr_equal(second, data);
    assert_ok(ph_graph_replay(g1, s1));
    assert_ok(ph_graph_replay(g2, s2));
    t_all(second, bytes / 4, 42, s2);
    ph_free(second, s1);
    ph_graph_destroy(g1);
    ph_graph_destroy(g2);
    ph_pool_release(pool);
}

/* A block freed on a stream other than its own is not handed out before that stream's work is
 * done. */
TEST(test_free_on_another_stream)
{
    t_gate gate = {0};
    void *p = allocate(4096, s0);
    assert_ok(t_gate_wait(&gate, s1));
    ph_free(p, s1);
    void *q = allocate(4096, s0);
    assert_ptr_not_equal(q, p);
    assert_int_equal(stats_now().deferred, 1);
    assert_int_equal(stats_now().allocation[PH_MEMORY_ALL].current, 1);
    assert_int_equal(stats_now().active[PH_MEMORY_ALL].current, 2);
    t_gate_open(&gate);
    assert_ok(ph_device_synchronize(w.device));
    void *r = allocate(4096, s0);
    assert_ptr_equal(r, p);
    ph_free(q, NULL);
    ph_free(r, NULL);
    assert_int_equal(stats_now().active_bytes[PH_MEMORY_ALL].current, 0);
}

/* On the block's own stream: after other streams that use it, and also once its stream is gone. */
TEST(test_free_of_a_device)
{
    t_gate gate = {0};
    void *p = allocate(4096, s0);
    ph_device_free(w.device, p);
    assert_int_equal(stats_now().allocation[PH_MEMORY_ALL].current, 0);
    assert_ptr_equal(allocate(4096, s0), p);
    assert_ok(ph_record_stream(p, s1));
    assert_ok(t_gate_wait(&gate, s1));
    ph_device_free(w.device, p);
    assert_int_equal(stats_now().deferred, 1);
    void *q = allocate(4096, s0);
    assert_ptr_not_equal(q, p);
    t_gate_open(&gate);
    assert_ok(ph_device_synchronize(w.device));
    ph_device_free(w.device, q);
    ph_stream *stream;
    assert_ok(ph_stream_create(&stream, w.device, NULL));
    p = allocate(4096, stream);
    ph_stream_destroy(stream);
    ph_device_free(w.device, p);
    assert_int_equal(stats_now().active_bytes[PH_MEMORY_ALL].current, 0);
}

/* A stream's blocks go to no other stream, whatever is free. */
TEST(test_blocks_are_of_one_stream)
{
    void *p = allocate(4096, s0);
    ph_free(p, s0);
    void *q = allocate(4096, s1);
    assert_ptr_not_equal(p, q);
    assert_int_equal(stats_now().segments, 2);
    ph_free(q, s1);
}

/* Creating and destroying streams for ever leaves memory as it is. */
TEST(test_destroyed_streams_leave_nothing)
{
    size_t most = 0;
    for (int i = 0; i < 200; i++) {
        ph_stream *stream;
        assert_ok(ph_stream_create(&stream, w.device, NULL));
        int32_t *p = allocate(64, stream);
        assert_ok(ph_memset_u32(p, 1, 16, stream));
        if (i % 2)
            assert_ok(ph_record_stream(p, s0));
        if (i % 3) {
            ph_free(p, stream);
            ph_stream_destroy(stream);
        } else {
            ph_stream_destroy(stream);
            ph_free(p, NULL);
        }
        assert_ok(ph_device_synchronize(w.device));
        ph_memory_stats stats = stats_now();
        most = stats.segments > most ? stats.segments : most;
    }
    assert_true(most <= 3);
    assert_ok(ph_memory_trim(w.device));
    assert_int_equal(stats_now().reserved, 0);
}

/* What a dead pool or stream leaves behind during a capture goes back after it, without another
 * call. */
TEST(test_release_in_capture_waits)
{
    ph_pool *pool;
    ph_graph *graph;
    assert_ok(ph_pool_create(&pool, w.device, NULL));
    assert_ok(ph_pool_begin(pool));
    void *p = allocate(4096, s0);
    assert_ok(ph_pool_end(pool));
    void *q = allocate(4096, s0);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, s1, NULL));
    int32_t *inside = allocate(64, s1);
    assert_ok(ph_memset_u32(inside, 1, 16, s1));
    ph_free(p, s0);
    ph_free(q, s0);
    ph_pool_release(pool);
    assert_ok(ph_memory_trim(w.device));
    assert_int_equal(stats_now().segments, 3);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_int_equal(stats_now().segments, 1);
    ph_free(inside, s1);
    ph_graph_destroy(graph);
    assert_int_equal(stats_now().segments, 0);
}

TEST(misuse_is_refused)
{
    void *p = allocate(100, s0);
    t_log_start();
    ph_free(p, s0);
    ph_free(p, s0);
    ph_free((char *)p + 512, s0);
    assert_int_equal(t_log_count("no live allocation"), 1);
    t_log_stop();
    assert_error(ph_record_stream(p, s1), PH_ERROR_NOT_FOUND, "no live allocation");
    ph_allocation found;
    assert_error(ph_memory_lookup(&found, w.device, p), PH_ERROR_NOT_FOUND, "no live allocation");
    assert_error(ph_malloc(&p, SIZE_MAX / 2, 4, s0), PH_ERROR_SIZE, "overflow");
    assert_null(p);
    assert_error(ph_malloc(&p, 1, SIZE_MAX - 600, s0), PH_ERROR_SIZE, "");
    assert_error(ph_malloc(&p, 1, 1, NULL), PH_ERROR_ARGUMENT, "stream");
    assert_ok(ph_malloc(&p, 0, 4, s0));
    assert_null(p);
}

/* Eager work and replays on another stream, which use the same memory of a pool one after the
 * other. */
TEST(test_eager_work_then_replays)
{
    static t_gate gate;
    ph_pool *pool;
    ph_graph *graph;
    int32_t *eager, *captured;
    atomic_store(&gate.open, 0);
    assert_ok(ph_pool_create(&pool, w.device, NULL));
    assert_ok(ph_pool_begin(pool));
    eager = allocate(400, s1);
    assert_ok(ph_pool_end(pool));
    assert_ok(t_gate_wait_guarded(&gate, s1));
    assert_ok(t_fill(&w, s1, eager, 100, 7));
    ph_free(eager, s1);
    const ph_capture_options options = {.pool = pool};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, s0, &options));
    assert_ok(ph_stream_wait_stream(s1, s0)); /* its memory comes along */
    captured = allocate(400, s1);
    assert_ptr_equal(captured, eager);
    assert_ok(t_fill(&w, s1, captured, 100, 3));
    assert_ok(ph_stream_wait_stream(s0, s1));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    bool done = true;
    ph_event *event;
    assert_ok(ph_event_create(&event, w.device, NULL));
    assert_ok(ph_graph_replay(graph, s2));
    assert_ok(ph_event_record(event, s2));
    assert_ok(ph_event_query(&done, event));
    if (t_gate_held(&gate))
        assert_false(done);
    t_gate_open(&gate);
    assert_ok(ph_device_synchronize(w.device));
    t_all(captured, 100, 3, s2);
    ph_event_destroy(event);
    ph_free(captured, s1);
    ph_graph_destroy(graph);
    ph_pool_release(pool);
}

static ph_status fill_behind_gate(ph_stream *stream, void *user)
{
    int32_t *y = allocate(400, stream);
    PH_TRY(t_gate_wait(user, stream));
    PH_TRY(t_fill(&w, stream, y, 100, 7));
    ph_free(y, stream);
    return PH_OK;
}

TEST(test_replays_then_eager_work)
{
    static t_gate gate = {.behind = true};
    ph_pool *pool;
    ph_graph *graph;
    bool done = true;
    ph_event *event;
    assert_ok(ph_pool_create(&pool, w.device, NULL));
    const ph_capture_options options = {.pool = pool};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, s0, &options, fill_behind_gate, &gate));
    t_gate_shut(&gate);
    assert_ok(ph_graph_replay(graph, s2));
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_pool_begin(pool));
    int32_t *y = allocate(400, s0);
    assert_ok(ph_pool_end(pool));
    assert_ok(t_fill(&w, s0, y, 100, 3));
    assert_ok(ph_event_create(&event, w.device, NULL));
    assert_ok(ph_event_record(event, s0));
    assert_ok(ph_event_query(&done, event));
    if (t_gate_held(&gate))
        assert_false(done);
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(s2));
    t_all(y, 100, 3, s0);
    ph_event_destroy(event);
    ph_free(y, s0);
    ph_graph_destroy(graph);
    ph_pool_release(pool);
}

static void capture_often(int cycles, ph_graph *graph, void *p)
{
    for (int i = 0; i < cycles; i++) {
        assert_ok(ph_graph_capture_begin(graph, s0, NULL));
        assert_ok(ph_stream_wait_stream(s1, s0));
        assert_ok(ph_memset(p, 0, 512, s1));
        assert_ok(ph_record_stream(p, s1));
        assert_ok(ph_stream_wait_stream(s0, s1));
        assert_ok(ph_graph_capture_end(graph, PH_OK));
        assert_ok(ph_graph_reset(graph));
    }
}

/* What captures recorded for a block that outlives them is not remembered. */
TEST(test_block_recorded_in_many_captures)
{
    ph_graph *graph;
    void *p = allocate(512, s0);
    assert_ok(ph_graph_create(&graph, NULL));
    capture_often(3, graph, p);
    int references = atomic_load(&s1->references);
    capture_often(20, graph, p);
    assert_int_equal(atomic_load(&s1->references), references);
    ph_free(p, s0);
    ph_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_graph_record_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cuda_graph_allocator_propagates_stream, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_graph_capture_reclaim_2_streams, setup, teardown),
        cmocka_unit_test_setup_teardown(test_no_reuse_in_capture, setup_no_reuse,
                                        teardown_no_reuse),
        cmocka_unit_test_setup_teardown(test_graph_capture_reclaim_shared_pool, setup, teardown),
        cmocka_unit_test_setup_teardown(test_free_on_another_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(test_free_of_a_device, setup, teardown),
        cmocka_unit_test_setup_teardown(test_blocks_are_of_one_stream, setup, teardown),
        cmocka_unit_test_setup_teardown(test_destroyed_streams_leave_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(test_release_in_capture_waits, setup, teardown),
        cmocka_unit_test_setup_teardown(misuse_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_eager_work_then_replays, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replays_then_eager_work, setup, teardown),
        cmocka_unit_test_setup_teardown(test_block_recorded_in_many_captures, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
