/* SPDX-License-Identifier: MIT */
/* tests/memory/pools_handles.c: handles of memory pools that nobody holds: every call refuses those
 * that are gone; those with live blocks can be held again. */
#include "base/alloc.h"
#include "pools.h"
#include <phonograph/cuda.h>

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
        IN_WORLD(test_handles_of_pools_that_have_gone),
        IN_WORLD(test_many_pools_that_have_gone),
        IN_WORLD(test_pool_held_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
