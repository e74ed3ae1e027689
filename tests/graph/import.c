/* SPDX-License-Identifier: MIT */
/* tests/graph/import.c: graphs that were built elsewhere. The host device has none: there a
 * table in front of its driver's takes its own graphs for such. */
#include "imported.h"
#include "support/fault.h"

#include "base/alloc.h"
#include "device/handles/device.h"
#include "device/handles/kernel.h"
#include <phonograph/cuda.h>
#include <string.h>

TEST(test_as_after_a_capture)
{
    const ph_record *record;
    ph_node_info node;
    assert_ok(ph_graph_import_cuda(graph, world.device, make_native(), NULL));
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_READY);
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), 2);
    assert_ok(ph_record_node(&node, record, 1));
    assert_string_equal(node.name, "add_i32");
    assert_int_equal(node.dependency_count, 1);
    for (int i = 0; i < 3; i++)
        assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 6, world.stream);
    assert_int_equal(ph_graph_epoch(graph), 3);
    struct t_add_i32 args = {N, x, x, 10};
    ph_launch_config config = t_config(N);
    assert_ok(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
    assert_ok(ph_graph_node_set_enabled(graph, 1, false));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 16, world.stream);
    assert_ok(ph_graph_reset(graph));
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
}

/* Memory that was freed before the import is anybody's by the time of a replay. */
TEST(test_says_what_was_freed_before_the_import)
{
    const ph_capture_options strict = {.strict = true};
    int32_t *kept = x;
    assert_ok(PH_NEW(&x, 5 * N, world.stream)); /* a block that is not the fixture's */
    struct CUgraph_st *native = make_native();
    ph_free(x, world.stream);
    x = kept;
    t_log_start();
    assert_ok(ph_graph_import_cuda(graph, world.device, native, NULL));
    assert_int_equal(t_log_count("was freed before the import (4 such words in all)"), 1);
    assert_int_equal(t_log_count("node 0 (add_i32)"), 1);
    assert_ok(ph_graph_reset(graph));
    native = make_native();
    assert_ok(ph_graph_import_cuda(graph, world.device, native, &strict));
    assert_int_equal(t_log_count("freed before"), 1);
    assert_ok(ph_graph_reset(graph));
    /* typed parameters: refused */
    assert_ok(PH_NEW(&x, 5 * N, world.stream));
    native = make_native();
    ph_free(x, world.stream);
    x = kept;
    assert_error(ph_graph_import_cuda(graph, world.device, native, &strict), PH_ERROR_STATE,
                 "was freed before the import");
    destroy_native(native);
    t_log_stop();
}

/* An address right behind a live block is its end, where the node has the block too. */
TEST(test_an_end_pointer_is_no_freed_memory)
{
    const ph_capture_options strict = {.strict = true};
    enum {
        WHOLE = 1024 /* no byte of the block is left over */
    };
    int32_t *block, *behind;
    assert_ok(PH_NEW(&block, WHOLE, world.stream));
    assert_ok(PH_NEW(&behind, WHOLE, world.stream));
    assert_ptr_equal(behind, block + WHOLE);
    ph_free(behind, world.stream);
    t_log_start();
    assert_ok(
        ph_graph_import_cuda(graph, world.device, make_native_of(block, block + WHOLE), &strict));
    assert_int_equal(t_log_count("freed before"), 0);
    assert_ok(ph_graph_reset(graph));
    /* alone it is an address */
    struct CUgraph_st *native = make_native_of(block + WHOLE, block + WHOLE);
    assert_error(ph_graph_import_cuda(graph, world.device, native, &strict), PH_ERROR_STATE,
                 "was freed before the import");
    destroy_native(native);
    t_log_stop();
    ph_free(block, world.stream);
}

TEST(test_keep_graph)
{
    ph_graph *kept;
    void *raw;
    ph_graph_options keep = {.keep_graph = true};
    assert_ok(ph_graph_create(&kept, &keep));
    assert_ok(ph_graph_import_cuda(kept, world.device, make_native(), NULL));
    assert_int_equal(ph_graph_get_state(kept), PH_GRAPH_ENDED);
    assert_ok(t_raw(&raw, kept));
    assert_non_null(raw);
    assert_ok(ph_graph_replay(kept, world.stream)); /* instantiates */
    t_all(x, N, 2, world.stream);
    assert_status(ph_graph_import_cuda(kept, world.device, raw, NULL), PH_ERROR_STATE);
    ph_graph_destroy(kept);
}

TEST(an_import_has_the_pool_and_liveness_check_asked_for)
{
    ph_pool *pool, *held;
    int32_t *inside;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(ph_pool_begin(pool));
    assert_ok(PH_NEW(&inside, N, world.stream));
    assert_ok(ph_pool_end(pool));
    ph_capture_options options = {.pool = pool, .check_input_liveness = true};
    size_t before = ph_pool_use_count(pool);
    assert_ok(ph_graph_import_cuda(graph, world.device, make_native(), &options));
    assert_ok(ph_graph_pool(&held, graph));
    assert_ptr_equal(held, pool);
    assert_int_equal(ph_pool_use_count(pool), before + 1);
    assert_ok(ph_graph_replay(graph, world.stream));
    uint64_t epoch = ph_graph_epoch(graph);
    assert_ok(ph_graph_check_output(graph, inside, epoch));
    assert_ok(ph_graph_replay(graph, world.stream)); /* what it writes of the pool nobody knows */
    assert_status(ph_graph_check_output(graph, inside, epoch), PH_ERROR_OVERWRITTEN);
    ph_free(x, world.stream);
    assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT);
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(ph_graph_reset(graph));
    assert_int_equal(ph_pool_use_count(pool), before);
    ph_free(inside, world.stream);
    ph_pool_release(pool);
}

/* Nodes on memory of the pool that eager work allocated, and on what a capture was given there. */
TEST(test_inputs_in_the_pool)
{
    ph_pool *pool;
    ph_graph *captured;
    int32_t *mine = x;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    const ph_capture_options options = {.pool = pool, .check_input_liveness = true};
    assert_ok(ph_pool_begin(pool));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(ph_pool_end(pool));
    assert_ok(ph_graph_import_cuda(graph, world.device, make_native(), &options));
    assert_ok(ph_graph_replay(graph, world.stream));
    ph_free(x, world.stream);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                 "node 0 (add_i32) x = 0x");
    assert_ok(ph_graph_reset(graph));

    assert_ok(ph_graph_create(&captured, NULL));
    assert_ok(ph_graph_capture_begin(captured, world.stream, &options));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(t_fill(&world, world.stream, x, N, 1));
    assert_ok(ph_graph_capture_end(captured, PH_OK));
    assert_ok(ph_graph_import_cuda(graph, world.device, make_native(), &options));
    ph_free(x, world.stream);
    x = mine;
    assert_ok(ph_graph_replay(captured, world.stream));
    assert_ok(ph_graph_replay(graph, world.stream));
    ph_graph_destroy(captured);
    ph_pool_release(pool);
}

TEST(test_into_a_capture)
{
    ph_graph *outer;
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_import_cuda(graph, world.device, make_native(), NULL));
    assert_ok(ph_graph_capture_begin(outer, world.stream, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_replay(outer, world.stream));
    t_all(x, N, 2, world.stream);
    ph_graph_destroy(outer);
}

/* ---- failures ---- */
static ph_status note(const ph_graph_hook_info *info, void *user)
{
    *(int *)user = *(int *)user * 10 + (int)info->point;
    return PH_OK;
}

static ph_status refuse(const ph_graph_hook_info *info, void *user)
{
    (void)info;
    (void)user;
    return ph_fail(PH_ERROR_CALLER, "not this one");
}

/* The graph is as it was, and the native one is still there. */
TEST(test_failing_hooks)
{
    ph_hook *seen[3], *bad;
    struct CUgraph_st *native = make_native();
    static const ph_graph_hook_point points[3] = {PH_HOOK_CAPTURE_END, PH_HOOK_INSTANTIATE,
                                                  PH_HOOK_DESTROY};
    static const int traces[2] = {2, 236};
    for (int bad_point = 0; bad_point < 2; bad_point++) {
        int trace = 0;
        for (int i = 0; i < 3; i++)
            assert_ok(ph_graph_hook_add(&seen[i], graph, points[i], note, &trace));
        assert_ok(ph_graph_hook_add(&bad, graph, points[bad_point], refuse, NULL));
        assert_error(ph_graph_import_cuda(graph, world.device, native, NULL), PH_ERROR_CALLER,
                     "not this one");
        assert_int_equal(trace, traces[bad_point]);
        assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
        for (int i = 0; i < 3; i++)
            ph_graph_hook_remove(seen[i]);
        ph_graph_hook_remove(bad);
    }
    assert_ok(ph_graph_import_cuda(graph, world.device, native, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 2, world.stream);
}

static ph_status destroy_it(const ph_graph_hook_info *info, void *user)
{
    (void)user;
    ph_graph_destroy(info->graph);
    return PH_OK;
}

TEST(test_destroyed_by_a_hook)
{
    ph_hook *hook;
    struct CUgraph_st *native = make_native();
    assert_ok(ph_graph_hook_add(&hook, graph, PH_HOOK_INSTANTIATE, destroy_it, NULL));
    ph_status status = ph_graph_import_cuda(graph, world.device, native, NULL);
    graph = NULL;
    assert_int_equal(status, PH_ERROR_STATE);
    ph_graph_hook_remove(hook);
    destroy_native(native); /* it stayed the caller's */
}

TEST(test_failing_driver)
{
    struct CUgraph_st *native = make_native();
    bool failed = true;
    for (int64_t n = 0; failed; n++) {
        ph__driver_fail_after(n, 999);
        ph_status status = ph_graph_import_cuda(graph, world.device, native, NULL);
        ph__driver_fail_after(-1, 0);
        failed = status != PH_OK;
        assert_int_equal(ph_graph_get_state(graph), failed ? PH_GRAPH_NEW : PH_GRAPH_READY);
        assert_true(n < 100);
    }
}

TEST(test_failing_host_memory)
{
    struct CUgraph_st *native = make_native();
    ph_status status = PH_ERROR_HOST_MEMORY;
    for (int64_t n = 0; status != PH_OK; n++) {
        ph__alloc_fail_after(n);
        status = ph_graph_import_cuda(graph, world.device, native, NULL);
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status == PH_OK)
            break;
        assert_int_equal(status, PH_ERROR_HOST_MEMORY);
        assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
        assert_true(n < 500);
    }
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 2, world.stream);
}

/* A graph with one copy of pinned memory to x. */
static struct CUgraph_st *make_copy(const void *src)
{
    const ph__driver *driver = world.device->driver;
    const ph__drv_memcpy copy = {.dst = x, .src = src, .bytes = N * sizeof *x};
    ph__drv_graph *template = NULL;
    ph__drv_stream *stream = world.stream->handle;
    assert_int_equal(driver->capture_begin(stream, PH_CAPTURE_RELAXED), 0);
    assert_int_equal(driver->copy(stream, &copy, NULL), 0);
    assert_int_equal(driver->capture_end(&template, stream), 0);
    void *native = driver->graph_native(template);
    driver->graph_disown(template);
    return t_on_host() ? (void *)template : native;
}

/* Pinned memory is the library's as well: freed, it is anybody's. */
TEST(test_says_what_pinned_memory_was_freed)
{
    int32_t *pinned;
    const ph_capture_options strict = {.strict = true};
    assert_ok(ph_malloc_pinned(&pinned, N, sizeof *pinned, world.stream));
    struct CUgraph_st *native = make_copy(pinned);
    assert_ok(ph_graph_import_cuda(graph, world.device, native, &strict));
    assert_ok(ph_graph_reset(graph));
    native = make_copy(pinned);
    ph_free_pinned(pinned, world.stream);
    t_log_start();
    assert_ok(ph_graph_import_cuda(graph, world.device, native, NULL));
    assert_int_equal(t_log_count("was freed before the import (1 such word in all)"), 1);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_malloc_pinned(&pinned, N, sizeof *pinned, world.stream));
    native = make_copy(pinned);
    ph_free_pinned(pinned, world.stream);
    assert_error(ph_graph_import_cuda(graph, world.device, native, &strict), PH_ERROR_STATE,
                 "was freed before the import");
    destroy_native(native);
}

TEST(misuse_is_refused)
{
    t_world other;
    ph_pool *pool;
    struct CUgraph_st *native = make_native();
    ph_capture_options bad = {.mode = (ph_capture_mode)7}, annotated = {.enable_annotations = true};
    assert_error(ph_graph_import_cuda(NULL, world.device, native, NULL), PH_ERROR_ARGUMENT,
                 "graph is NULL");
    assert_error(ph_graph_import_cuda(graph, NULL, native, NULL), PH_ERROR_ARGUMENT,
                 "device is NULL");
    assert_error(ph_graph_import_cuda(graph, world.device, NULL, NULL), PH_ERROR_ARGUMENT,
                 "cuda_graph is NULL");
    assert_status(ph_graph_import_cuda(graph, world.device, native, &bad), PH_ERROR_ARGUMENT);
    assert_status(ph_graph_import_cuda(graph, world.device, native, &annotated),
                  PH_ERROR_UNSUPPORTED);
    t_open(&other, NULL);
    assert_ok(ph_pool_create(&pool, other.device, NULL));
    ph_capture_options elsewhere = {.pool = pool};
    assert_status(ph_graph_import_cuda(graph, world.device, native, &elsewhere),
                  PH_ERROR_WRONG_DEVICE);
    ph_pool_release(pool);
    t_close(&other);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    destroy_native(native);
}

/* The host device itself knows no such graphs. */
TEST(test_on_the_host)
{
    int something;
    ph_device *host;
    assert_ok(ph_device_open(&host, "host:threads=2", NULL));
    assert_status(ph_graph_import_cuda(graph, host, (struct CUgraph_st *)(void *)&something, NULL),
                  PH_ERROR_UNSUPPORTED);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    ph_device_release(host);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_as_after_a_capture),
        IN_WORLD(test_says_what_was_freed_before_the_import),
        IN_WORLD(test_says_what_pinned_memory_was_freed),
        IN_WORLD(test_an_end_pointer_is_no_freed_memory),
        IN_WORLD(test_keep_graph),
        IN_WORLD(an_import_has_the_pool_and_liveness_check_asked_for),
        IN_WORLD(test_as_after_a_capture),
        IN_WORLD(test_keep_graph),
        IN_WORLD(test_inputs_in_the_pool),
        IN_WORLD(test_into_a_capture),
        IN_WORLD(test_failing_hooks),
        IN_WORLD(test_destroyed_by_a_hook),
        IN_WORLD(test_failing_driver),
        IN_WORLD(test_failing_host_memory),
        IN_WORLD(misuse_is_refused),
        IN_WORLD(test_on_the_host),
    };
    return cmocka_run_group_tests_name("graph.import", tests, NULL, NULL);
}
