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
        IN_WORLD(test_graph_timing),
    };
    return cmocka_run_group_tests_name("graph.torch_streams", tests, NULL, NULL);
}
