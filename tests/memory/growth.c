/* SPDX-License-Identifier: MIT */
/* tests/memory/growth.c: what the allocator looks at one by one grows as what it is asked for,
 * not with the square of it: counted, not timed. */
#include "memory/state/memory_state.h"
#include "support/fixture.h"
#include <stdlib.h>

enum {
    FEW = 200,
    MANY = 1600
};

static t_world w;
static ph_stream *other;

static const t_fixture fixture = {.world = &w, .streams = {&other}};

FIXTURE(open_world)
{
    void *first;
    t_fixture_open(&fixture);
    assert_ok(ph_malloc(&first, 1, 1, w.stream));
    ph_free(first, w.stream);
    return 0;
}

FIXTURE(close_world)
{
    t_fixture_close(&fixture);
    return 0;
}

static uint64_t steps(void)
{
    return atomic_load(&ph__memory_of(w.device)->steps);
}

/* For each of `count` things that were done since `before` at most so many steps. */
static void check_each(uint64_t before, size_t count, size_t most)
{
    uint64_t made = steps() - before;
    if (made > count * most)
        print_error("%llu steps for %zu\n", (unsigned long long)made, count);
    assert_true(made <= count * most);
}

/* Blocks that wait for a busy stream. */
static void check_waiting(size_t count)
{
    t_gate gate = {0};
    void *block;
    assert_ok(t_gate_wait_guarded(&gate, other));
    uint64_t before = steps();
    for (size_t i = 0; i < count; i++) {
        assert_ok(ph_malloc(&block, 1, 512, w.stream));
        assert_ok(ph_record_stream(block, other));
        ph_free(block, w.stream);
    }
    check_each(before, count, 6);
    t_gate_open(&gate);
    assert_ok(ph_device_synchronize(w.device));
    before = steps();
    assert_ok(ph_memory_trim(w.device));
    check_each(before, count, 4);
}

TEST(test_blocks_that_wait)
{
    check_waiting(FEW);
    check_waiting(MANY);
}

static void check_pools(size_t count)
{
    ph_pool **pools = calloc(count, sizeof *pools);
    void *block;
    assert_non_null(pools);
    uint64_t before = steps();
    for (size_t i = 0; i < count; i++) {
        assert_ok(ph_pool_create(&pools[i], w.device, NULL));
        if (i % 8 != 0)
            continue;
        assert_ok(ph_pool_begin(pools[i]));
        assert_ok(ph_malloc(&block, 1, 512, w.stream));
        ph_free(block, w.stream);
        assert_ok(ph_pool_end(pools[i]));
    }
    t_gate gate = {0};
    assert_ok(t_gate_wait_guarded(&gate, w.stream));
    for (size_t i = 0; i < count; i++)
        ph_pool_release(pools[i]);
    check_each(before, count, 8);
    t_gate_open(&gate);
    assert_ok(ph_device_synchronize(w.device));
    assert_ok(ph_memory_trim(w.device));
    check_each(before, count, 12);
    free(pools);
}

TEST(test_pools_that_go)
{
    check_pools(FEW);
    check_pools(MANY);
}

typedef struct deferring {
    size_t count;
    int32_t *last;
} deferring;

/* Blocks that a forked stream uses, which is joined at the end alone. */
static ph_status defer_body(ph_stream *stream, void *user)
{
    const deferring *d = user;
    for (size_t i = 0; i < d->count; i++) {
        int32_t *block;
        PH_TRY(PH_NEW(&block, 16, stream));
        PH_TRY(t_fill(&w, stream, block, 16, 1));
        PH_TRY(ph_stream_wait_stream(other, stream));
        PH_TRY(t_fill(&w, other, block, 16, 2));
        PH_TRY(ph_record_stream(block, other));
        ph_free(block, stream);
    }
    PH_TRY(ph_stream_wait_stream(stream, other));
    int32_t *again;
    PH_TRY(PH_NEW(&again, 16, stream));
    return t_fill(&w, stream, again, 16, 3);
}

static void check_deferred(size_t count)
{
    deferring d = {.count = count};
    ph_graph *graph;
    uint64_t before = steps();
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, w.stream, NULL, defer_body, &d));
    check_each(before, count, 16);
    ph_graph_destroy(graph);
}

TEST(test_blocks_deferred_in_a_capture)
{
    check_deferred(FEW);
    check_deferred(MANY);
}

static ph_status fill_body(ph_stream *stream, void *user)
{
    int32_t *block;
    (void)user;
    PH_TRY(PH_NEW(&block, 16, stream));
    PH_TRY(t_fill(&w, stream, block, 16, 1));
    ph_free(block, stream);
    return PH_OK;
}

static void check_graphs(size_t count, ph_pool *pool)
{
    ph_graph **graphs = calloc(count, sizeof *graphs);
    const ph_capture_options options = {.pool = pool};
    assert_non_null(graphs);
    uint64_t before = steps();
    for (size_t i = 0; i < count; i++) {
        assert_ok(ph_graph_create(&graphs[i], NULL));
        assert_ok(ph_graph_capture(graphs[i], w.stream, &options, fill_body, NULL));
        assert_ok(ph_graph_replay(graphs[i], w.stream));
    }
    assert_ok(ph_stream_synchronize(w.stream));
    for (size_t i = 0; i < count; i++)
        ph_graph_destroy(graphs[i]);
    check_each(before, count, 16);
    assert_ok(ph_memory_trim(w.device));
    check_each(before, count, 20);
    free(graphs);
}

TEST(test_graphs_alive)
{
    ph_pool *pool;
    check_graphs(FEW / 4, NULL);
    check_graphs(MANY / 4, NULL);
    assert_ok(ph_pool_create(&pool, w.device, NULL));
    check_graphs(FEW / 4, pool);
    check_graphs(MANY / 4, pool);
    ph_pool_release(pool);
}

typedef struct copying {
    float *pinned, *device;
} copying;

static ph_status copy_body(ph_stream *stream, void *user)
{
    const copying *c = user;
    return ph_memcpy(c->device, c->pinned, sizeof(float), stream);
}

/* Pinned memory that graphs hold after it was freed. */
static void check_pinned(size_t count)
{
    ph_graph **graphs = calloc(count, sizeof *graphs);
    copying c;
    assert_non_null(graphs);
    assert_ok(PH_NEW(&c.device, 1, w.stream));
    uint64_t before = steps();
    for (size_t i = 0; i < count; i++) {
        assert_ok(ph_malloc_pinned(&c.pinned, 1, sizeof(float), w.stream));
        assert_ok(ph_graph_create(&graphs[i], NULL));
        assert_ok(ph_graph_capture(graphs[i], w.stream, NULL, copy_body, &c));
        ph_free_pinned(c.pinned, w.stream);
    }
    for (size_t i = 0; i < count; i++)
        ph_graph_destroy(graphs[i]);
    check_each(before, count, 20);
    ph_free(c.device, w.stream);
    assert_ok(ph_memory_trim(w.device));
    free(graphs);
}

TEST(test_pinned_blocks_that_graphs_hold)
{
    check_pinned(FEW / 4);
    check_pinned(MANY / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_blocks_that_wait),
        IN_WORLD(test_pools_that_go),
        IN_WORLD(test_blocks_deferred_in_a_capture),
        IN_WORLD(test_graphs_alive),
        IN_WORLD(test_pinned_blocks_that_graphs_hold),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
