/* SPDX-License-Identifier: MIT */
/* tests/graph/account.c: what a graph takes, in bytes. */
#include "support/fixture.h"

#include <string.h>

enum {
    N = 1 << 20
};
static t_world world;
static int32_t *x, *inside;
static char *pinned;

static const t_fixture fixture = {.world = &world, .arrays = {{&x, N}}};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    assert_ok(ph_malloc_pinned(&pinned, 1, 5000, world.stream));
    return 0;
}

FIXTURE(close_world)
{
    ph_free_pinned(pinned, world.stream);
    t_fixture_close(&fixture);
    return 0;
}

/* 4 MiB of the graph's own, and a copy from pinned memory. */
static ph_status body(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(PH_NEW(&inside, N, stream));
    PH_TRY(ph_memcpy(inside, pinned, 5000, stream));
    return t_add(&world, stream, inside, x, N, 1);
}

static ph_graph_memory memory_of(ph_graph *graph)
{
    ph_graph_memory memory;
    assert_ok(ph_graph_get_memory(&memory, graph));
    return memory;
}

TEST(test_of_one_graph)
{
    ph_graph *graph;
    ph_graph_options keep = {.keep_graph = true};
    assert_ok(ph_graph_create(&graph, &keep));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    ph_graph_memory memory = memory_of(graph);
    assert_true(memory.pool_reserved >= N * sizeof(int32_t));
    assert_int_equal(memory.pool_allocated, N * sizeof(int32_t));
    assert_int_equal(memory.executable, 0);
    assert_int_equal(memory.executable_host, 0);
    assert_true(memory.template_host > 0);
    assert_int_equal(memory.pinned, 8192);
    assert_ok(ph_graph_instantiate(graph));
    ph_graph_memory ready = memory_of(graph);
    assert_int_equal(ready.pool_reserved, memory.pool_reserved);
    assert_int_equal(ready.template_host, memory.template_host);
    if (t_on_host())
        assert_true(ready.executable_host > 0);
    ph_free(inside, world.stream);
    assert_int_equal(memory_of(graph).pool_allocated, 0); /* its segments stay */
    assert_int_equal(memory_of(graph).pool_reserved, memory.pool_reserved);
    ph_graph_destroy(graph);
}

TEST(test_of_a_shared_pool)
{
    ph_graph *a, *b;
    ph_pool *pool;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    ph_capture_options options = {.pool = pool};
    assert_ok(ph_graph_create(&a, NULL));
    assert_ok(ph_graph_create(&b, NULL));
    assert_ok(ph_graph_capture(a, world.stream, &options, body, NULL));
    ph_free(inside, world.stream);
    assert_ok(ph_graph_capture(b, world.stream, &options, body, NULL));
    assert_int_equal(memory_of(a).pool_reserved, memory_of(b).pool_reserved);
    assert_int_equal(memory_of(a).pinned, 8192); /* one block, that both read */
    assert_int_equal(memory_of(b).pinned, 8192);
    ph_free(inside, world.stream);
    ph_graph_destroy(a);
    ph_graph_destroy(b);
    ph_pool_release(pool);
}

/* Another graph in it is a part of it. */
TEST(test_of_nested_graphs)
{
    ph_graph *a, *b;
    assert_ok(ph_graph_create(&a, NULL));
    assert_ok(ph_graph_create(&b, NULL));
    assert_ok(ph_graph_capture(a, world.stream, NULL, body, NULL));
    ph_free(inside, world.stream);
    assert_ok(ph_graph_capture_begin(b, world.stream, NULL));
    assert_ok(ph_graph_replay(a, world.stream));
    assert_ok(ph_graph_capture_end(b, PH_OK));
    ph_graph_memory outer = memory_of(b), inner = memory_of(a);
    assert_int_equal(outer.pool_reserved, inner.pool_reserved);
    assert_int_equal(outer.pinned, 8192);
    const ph_record *record; /* counted once it is made */
    assert_ok(ph_graph_record(&record, b));
    assert_true(memory_of(b).template_host > outer.template_host);
    assert_true(memory_of(b).template_host > inner.template_host);
    ph_graph_destroy(a);
    assert_int_equal(memory_of(b).pinned, 8192);
    ph_graph_destroy(b);
}

/* Also of blocks that were freed again, and of nothing else. */
static ph_status temporaries(ph_stream *stream, void *user)
{
    void *made;
    for (size_t i = *(const size_t *)user; i > 0; i--) {
        PH_TRY(ph_malloc(&made, 512, 1, stream));
        ph_free(made, stream);
    }
    return ph_memset_u32(pinned, 1, 1, stream);
}

static size_t template_of(ph_graph *graph, size_t count)
{
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, temporaries, &count));
    return memory_of(graph).template_host;
}

TEST(test_the_list_of_blocks)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    size_t few = template_of(graph, 1), many = template_of(graph, 5000);
    assert_true(many >= few + (size_t)4900 * 48);
    assert_int_equal(template_of(graph, 1), few);
    ph_graph_destroy(graph);
}

TEST(wrong_arguments_are_refused)
{
    ph_graph *graph;
    ph_graph_memory memory;
    memset(&memory, 1, sizeof memory);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_get_memory(NULL, graph), PH_ERROR_ARGUMENT, "out is NULL");
    assert_error(ph_graph_get_memory(&memory, NULL), PH_ERROR_ARGUMENT, "graph is NULL");
    assert_status(ph_graph_get_memory(&memory, graph), PH_ERROR_STATE);
    assert_int_equal(memory.pool_reserved, 0);
    ph_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_of_one_graph),           IN_WORLD(test_of_a_shared_pool),
        IN_WORLD(test_of_nested_graphs),       IN_WORLD(test_the_list_of_blocks),
        IN_WORLD(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("graph.account", tests, NULL, NULL);
}
