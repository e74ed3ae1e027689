/* SPDX-License-Identifier: MIT */
/* tests/graph/torch_streams.c: graphs over several streams; each test holds the behaviour of
 * PyTorch's test of the same name. */
#include "support/fixture.h"

#include <stdlib.h>
#include <string.h>

static t_world world;
static ph_stream *s1, *s2;

WORLD(world, .streams = {&s1, &s2});

/* ---- concurrent replays ---- */
enum {
    MANY = 100000
};
/* y = x + z, by way of a copy: b = 2 b + 2 value each round, with two temporaries. */
static ph_status helper(ph_stream *stream, float *b, float value)
{
    float *one, *two;
    PH_TRY(PH_NEW(&one, MANY, stream));
    PH_TRY(ph_memcpy(one, b, MANY * sizeof *b, stream));
    PH_TRY(PH_NEW(&two, MANY, stream));
    PH_TRY(t_fill_f(&world, stream, two, MANY, value));
    PH_TRY(t_axpy(&world, stream, 1, one, two, MANY)); /* two = b + value */
    PH_TRY(t_fill_f(&world, stream, one, MANY, value));
    PH_TRY(t_axpy(&world, stream, 1, b, one, MANY)); /* one = b + value */
    PH_TRY(ph_memcpy(b, two, MANY * sizeof *b, stream));
    PH_TRY(t_axpy(&world, stream, 1, one, b, MANY));
    ph_free(one, stream);
    ph_free(two, stream);
    return PH_OK;
}

struct concurrent {
    const float *a;
    float *out;
    float value;
};

static ph_status five_rounds(ph_stream *stream, void *user)
{
    struct concurrent *c = user;
    PH_TRY(PH_NEW(&c->out, MANY, stream));
    PH_TRY(ph_memcpy(c->out, c->a, MANY * sizeof *c->a, stream));
    for (int i = 0; i < 5; i++)
        PH_TRY(helper(stream, c->out, c->value));
    return PH_OK;
}

static double sum_f(const float *y)
{
    float *host = malloc(MANY * sizeof *host);
    double sum = 0;
    assert_non_null(host);
    t_read(host, y, MANY * sizeof *host, world.stream);
    for (size_t i = 0; i < MANY; i++)
        sum += (double)host[i];
    free(host);
    return sum;
}

/* sharing 0: none; 1: the second graph uses the first's pool; 2: both use one pool of the user. */
static void concurrent_replay(int sharing)
{
    float *a;
    ph_graph *g0, *g1;
    ph_pool *pool = NULL;
    t_gate gate = {0};
    assert_ok(PH_NEW(&a, MANY, world.stream));
    assert_ok(t_fill_f(&world, world.stream, a, MANY, 1));
    struct concurrent first = {a, NULL, 1}, second = {a, NULL, 2};
    if (sharing == 2)
        assert_ok(ph_pool_create(&pool, world.device, NULL));
    ph_capture_options options = {.pool = pool};
    assert_ok(ph_graph_create(&g0, NULL));
    assert_ok(ph_graph_create(&g1, NULL));
    assert_ok(ph_graph_capture(g0, world.stream, &options, five_rounds, &first));
    if (sharing == 1)
        assert_ok(ph_graph_pool(&options.pool, g0));
    assert_ok(ph_graph_capture(g1, world.stream, &options, five_rounds, &second));
    assert_ok(ph_device_synchronize(world.device));
    assert_ok(t_gate_wait_guarded(&gate, s1));
    assert_ok(ph_stream_wait_stream(s2, s1));
    assert_ok(ph_graph_replay(g0, s1));
    assert_ok(ph_graph_replay(g1, s2));
    t_gate_open(&gate);
    assert_ok(ph_stream_wait_stream(world.stream, s1));
    assert_ok(ph_stream_wait_stream(world.stream, s2));
    assert_true(sum_f(first.out) == 94.0 * MANY);
    assert_true(sum_f(second.out) == 156.0 * MANY); /* replays that share a pool are ordered */
    ph_graph_destroy(g0);
    ph_graph_destroy(g1);
    ph_free(first.out, world.stream);
    ph_free(second.out, world.stream);
    ph_free(a, world.stream);
    ph_pool_release(pool);
}

TEST(test_graph_concurrent_replay)
{
    for (int round = 0; round < (t_nightly() ? 20 : 2); round++)
        for (int sharing = 0; sharing < 3; sharing++)
            concurrent_replay(sharing);
}

/* ---- memory used by other streams ---- */
TEST(test_graph_record_stream)
{
    int32_t *first, *second, *b, *last;
    ph_graph *graph;
    t_gate gate = {0};
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(PH_NEW(&first, 3, world.stream));
    assert_ok(PH_NEW(&second, 3, world.stream));
    assert_ok(ph_memset(second, 0, 12, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_record_stream(first, s2));
    assert_ok(t_gate_wait_guarded(&gate, s2));
    assert_ok(t_fill(&world, s2, first, 3, 1));
    ph_free(first, world.stream); /* waits for s2 */
    assert_ok(ph_graph_capture_begin(graph, s1, NULL));
    assert_ok(PH_NEW(&b, 3, s1)); /* must not ask whether s2 is done */
    assert_ok(ph_memcpy(b, second, 12, s1));
    ph_stream *side;
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(ph_stream_wait_stream(side, s1));
    assert_ok(t_fill(&world, side, b, 3, 1));
    assert_ok(ph_record_stream(b, side));
    ph_free(b, s1);
    assert_ok(ph_stream_wait_stream(s1, side));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    t_gate_open(&gate);
    assert_ok(ph_device_synchronize(world.device));
    assert_ok(PH_NEW(&last, 3, world.stream));
    assert_ok(ph_graph_replay(graph, s1));
    assert_ok(ph_stream_synchronize(s1));
    ph_graph_destroy(graph);
    ph_free(last, world.stream);
    ph_free(second, world.stream);
    ph_stream_destroy(side);
}

/* An allocation on a stream that joined the capture comes from the capture's pool, though the
 * thread has nothing to do with it. */
TEST(test_cuda_graph_allocator_propagates_stream)
{
    enum {
        LARGE = 10240000
    };
    int32_t *x, *z, *dropped;
    ph_graph *graph;
    ph_pool *pool;
    ph_memory_stats stats;
    ph_allocation found;
    assert_ok(PH_NEW(&x, LARGE, world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, s1, NULL));
    assert_ok(PH_NEW(&z, LARGE, s1));
    assert_ok(t_add(&world, s1, x, z, LARGE, 1));
    assert_ok(ph_stream_wait_stream(s2, s1));
    assert_ok(PH_NEW(&dropped, LARGE, s2));
    assert_ok(t_add(&world, s2, z, dropped, LARGE, 1));
    ph_free(dropped, s2);
    assert_ok(ph_stream_wait_stream(s1, s2));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_pool(&pool, graph));
    assert_ok(ph_pool_stats(&stats, pool));
    assert_int_equal(stats.segments, 2);
    assert_ok(ph_memory_lookup(&found, world.device, z));
    assert_ptr_equal(found.pool, pool);
    ph_graph_destroy(graph);
    ph_free(z, world.stream);
    ph_free(x, world.stream);
}

TEST(test_graph_capture_reclaim_2_streams)
{
    int32_t *sink1, *data1, *buf2, *data2, *data3;
    ph_graph *graph;
    ph_graph_options keep = {.keep_graph = true};
    assert_ok(ph_graph_create(&graph, &keep));
    assert_ok(ph_graph_capture_begin(graph, s1, NULL));
    assert_ok(PH_NEW(&sink1, 8, s1));
    assert_ok(PH_NEW(&data1, 8, s1));
    assert_ok(ph_stream_wait_stream(s2, s1));
    assert_ok(PH_NEW(&buf2, 8, s2));
    assert_ok(t_add(&world, s2, data1, buf2, 8, 2));
    assert_ok(ph_record_stream(data1, s2));
    ph_free(data1, s1);
    assert_ok(PH_NEW(&data2, 8, s1));
    assert_ok(ph_stream_wait_stream(s1, s2));
    assert_ok(t_fill(&world, s1, sink1, 8, 1));
    assert_ok(PH_NEW(&data3, 8, s1));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ptr_not_equal(data2, data1); /* s2 may still read it there */
    assert_ptr_equal(data3, data1);     /* the join orders the reuse behind it */
    ph_graph_destroy(graph);
    ph_free(sink1, world.stream);
    ph_free(buf2, world.stream);
    ph_free(data2, world.stream);
    ph_free(data3, world.stream);
}

TEST(test_graph_capture_reclaim_shared_pool)
{
    enum {
        EIGHT_MIB = 2097152
    };
    int32_t *data, *again;
    ph_graph *g1, *g2;
    ph_pool *pool;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    ph_capture_options options = {.pool = pool};
    assert_ok(ph_graph_create(&g1, NULL));
    assert_ok(ph_graph_create(&g2, NULL));
    assert_ok(ph_graph_capture_begin(g1, s1, &options));
    assert_ok(PH_NEW(&data, EIGHT_MIB, s1));
    assert_ok(t_fill(&world, s1, data, EIGHT_MIB, 0));
    assert_ok(ph_stream_wait_stream(s2, s1));
    assert_ok(t_add(&world, s2, data, data, EIGHT_MIB, 1));
    assert_ok(ph_record_stream(data, s2));
    assert_ok(ph_stream_wait_stream(s1, s2));
    ph_free(data, s1);
    assert_ok(ph_graph_capture_end(g1, PH_OK));
    assert_ok(ph_device_synchronize(world.device));
    assert_ok(ph_graph_capture_begin(g2, s1, &options));
    assert_ok(PH_NEW(&again, EIGHT_MIB, s1));
    assert_ok(t_fill(&world, s1, again, EIGHT_MIB, 42));
    assert_ok(ph_graph_capture_end(g2, PH_OK));
    assert_ptr_equal(again, data);
    assert_ok(ph_graph_replay(g2, s1));
    t_all(again, EIGHT_MIB, 42, s1);
    ph_graph_destroy(g1);
    ph_graph_destroy(g2);
    ph_free(again, world.stream);
    ph_pool_release(pool);
}

/* External timing events are nodes: each replay takes the time again. */
TEST(test_graph_timing)
{
    enum {
        LARGE = 1024000
    };
    ph_event *start, *end;
    ph_event_options timing = {.timing = true, .external = true};
    int32_t *x, *z;
    float milliseconds;
    ph_graph *graph;
    assert_ok(ph_event_create(&start, world.device, &timing));
    assert_ok(ph_event_create(&end, world.device, &timing));
    assert_ok(PH_NEW(&x, LARGE, world.stream));
    assert_ok(PH_NEW(&z, LARGE, world.stream));
    assert_ok(t_fill(&world, world.stream, x, LARGE, 1));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_event_record(start, world.stream));
    assert_ok(t_add(&world, world.stream, x, z, LARGE, 1));
    assert_ok(ph_event_record(end, world.stream));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    /* not replayed yet */
    assert_status(ph_event_elapsed(&milliseconds, start, end), PH_ERROR_STATE);
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_graph_replay(graph, world.stream));
        assert_ok(ph_stream_synchronize(world.stream));
        assert_ok(ph_event_elapsed(&milliseconds, start, end));
        assert_true(milliseconds > 0);
    }
    ph_graph_destroy(graph);
    ph_event_destroy(start);
    ph_event_destroy(end);
    ph_free(x, world.stream);
    ph_free(z, world.stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_graph_concurrent_replay),
        IN_WORLD(test_graph_record_stream),
        IN_WORLD(test_cuda_graph_allocator_propagates_stream),
        IN_WORLD(test_graph_capture_reclaim_2_streams),
        IN_WORLD(test_graph_capture_reclaim_shared_pool),
        IN_WORLD(test_graph_timing),
    };
    return cmocka_run_group_tests_name("graph.torch_streams", tests, NULL, NULL);
}
