/* SPDX-License-Identifier: MIT */
/* tests/unit/replay_allocator.c: a capture's blocks given again to another run, in whatever order
 * that asks, and how many are looked at for it. */
#include "support/support.h"

#include "base/alloc.h"
#include "graph/object/graph.h"
#include "inspect/verify/verify.h"
#include "support/test.h"
#include <stdlib.h>

enum {
    BLOCKS = 3000,
    SIZES = 7
};
static t_world world;
static ph_graph *graph;
static ph_pool *pool;
static ph__replay_allocator *allocator;
static int32_t *at[BLOCKS]; /* what the capture was given */

static size_t bytes_of(size_t i)
{
    return 512 * (1 + i % SIZES);
}

/* A block that later runs do not ask for, then the others, which are freed as they come. */
static ph_status body(ph_stream *stream, void *user)
{
    void *first;
    (void)user;
    PH_TRY(ph_malloc(&first, 1, 64, stream));
    for (size_t i = 0; i < BLOCKS; i++) {
        PH_TRY(ph_malloc(&at[i], 1, bytes_of(i), stream));
        if (i % 3 == 0)
            ph_free(at[i], stream);
    }
    for (size_t i = 0; i < BLOCKS; i++)
        if (i % 3 != 0)
            ph_free(at[i], stream);
    ph_free(first, stream);
    return PH_OK;
}

FIXTURE(open_test)
{
    t_open(&world, "host:threads=1");
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(ph__replay_allocator_begin(&allocator, pool, graph->own->pool,
                                         ph__verify_layout(graph), graph->capture_stream,
                                         world.stream->id, "test"));
    return 0;
}

FIXTURE(close_test)
{
    assert_true(ph__replay_allocator_end(allocator));
    ph_pool_release(pool);
    ph_graph_destroy(graph);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

/* As the capture, or all of one size and then all of the next: of each size the blocks come in
 * the capture's order. */
static void run(bool by_size)
{
    size_t bytes, asked = 0;
    ph__replay_allocator_rewind(allocator, false);
    assert_ok(ph_pool_begin(pool));
    for (size_t size = 0; size < (by_size ? SIZES : 1); size++)
        for (size_t i = 0; i < BLOCKS; i++) {
            void *given;
            if (by_size && i % SIZES != size)
                continue;
            assert_ok(ph_malloc(&given, 1, bytes_of(i), world.stream));
            assert_ptr_equal(given, at[i]);
            ph_free(given, world.stream);
            asked++;
        }
    assert_ok(ph_pool_end(pool));
    assert_int_equal(asked, BLOCKS);
    assert_int_equal(ph__replay_allocator_missed(&bytes, allocator), 0);
    assert_int_equal(ph__replay_allocator_unused(allocator), 1);
    assert_int_equal(ph__replay_allocator_steps(allocator), BLOCKS);
}

TEST(test_each_request_looks_at_one_block)
{
    for (int i = 0; i < 2; i++) {
        run(false);
        run(true);
    }
}

/* What was never given is not looked for among what was. */
TEST(test_other_sizes)
{
    size_t bytes;
    void *given;
    ph__replay_allocator_rewind(allocator, false);
    assert_ok(ph_pool_begin(pool));
    assert_ok(ph_malloc(&given, 1, 100000, world.stream));
    ph_free(given, world.stream);
    assert_ok(ph_pool_end(pool));
    assert_int_equal(ph__replay_allocator_missed(&bytes, allocator), 1);
    assert_int_equal(bytes, 100000);
    assert_int_equal(ph__replay_allocator_steps(allocator), 0);
}

/* A run that frees later than the capture did is never given memory twice. */
TEST(test_frees_that_come_later)
{
    static void *given[BLOCKS];
    size_t bytes;
    ph__replay_allocator_rewind(allocator, false);
    assert_ok(ph_pool_begin(pool));
    for (size_t i = 0; i < BLOCKS; i++)
        assert_ok(ph_malloc(&given[i], 1, bytes_of(i), world.stream));
    for (size_t i = 0; i < BLOCKS; i++) {
        *(volatile size_t *)given[i] = i;
        ((volatile size_t *)given[i])[bytes_of(i) / sizeof i - 1] = i;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(*(volatile size_t *)given[i], i);
        assert_int_equal(((volatile size_t *)given[i])[bytes_of(i) / sizeof i - 1], i);
        ph_free(given[i], world.stream);
    }
    assert_ok(ph_pool_end(pool));
    assert_true(ph__replay_allocator_missed(&bytes, allocator) > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_request_looks_at_one_block, open_test,
                                        close_test),
        cmocka_unit_test_setup_teardown(test_other_sizes, open_test, close_test),
        cmocka_unit_test_setup_teardown(test_frees_that_come_later, open_test, close_test),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
