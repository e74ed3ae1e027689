/* SPDX-License-Identifier: MIT */
/* tests/graph/torch_basics.c: capture, replay and their errors; each test holds the behaviour of
 * PyTorch's test of the same name. Others of PyTorch's are held by the tests that
 * docs/notes/torch-tests.md names. */
#include "support/fixture.h"

#include <string.h>

enum {
    N = 1000
};
static t_world world;

WORLD(world);

TEST(test_graph_is_current_stream_capturing)
{
    ph_stream *other, *first = ph_device_default_stream(world.device);
    ph_graph *graph;
    ph_capture_info info;
    assert_ok(ph_stream_create(&other, world.device, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_false(ph_stream_is_capturing(first) || ph_stream_is_capturing(world.stream));
    t_log_start();
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_true(ph_stream_is_capturing(world.stream)); /* with nothing captured yet */
    assert_false(ph_stream_is_capturing(first) || ph_stream_is_capturing(other));
    assert_ok(ph_stream_get_capture_info(&info, world.stream));
    assert_true(info.status == PH_CAPTURE_ACTIVE && info.id != 0);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    t_log_stop();
    assert_false(ph_stream_is_capturing(world.stream));
    ph_graph_destroy(graph);
    ph_stream_destroy(other);
}

/* b = a, then ten times b = b + value, each into memory of its own, the old one freed: all in
 * the capture. */
static ph_status ten_additions(ph_stream *stream, int32_t **b, const int32_t *a, int32_t value)
{
    *b = NULL;
    for (int i = 0; i < 10; i++) {
        int32_t *next;
        PH_TRY(PH_NEW(&next, N, stream));
        PH_TRY(t_add(&world, stream, *b ? *b : a, next, N, value));
        ph_free(*b, stream);
        *b = next;
    }
    return PH_OK;
}

static ph_graph *capture_simple(int32_t **b, const int32_t *a)
{
    ph_graph *graph;
    assert_ok(ph_memory_trim(world.device));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ten_additions(world.stream, b, a, 1));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    return graph;
}

TEST(test_accelerator_graph_simple)
{
    ph_stream *origin = ph_device_default_stream(world.device);
    int32_t *a, *b;
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_false(ph_stream_is_capturing(world.stream));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_true(ph_stream_is_capturing(world.stream));
    assert_ok(PH_NEW(&a, N, world.stream)); /* the source is made inside, too */
    assert_ok(t_fill(&world, world.stream, a, N, 1));
    assert_ok(ten_additions(world.stream, &b, a, 1));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_false(ph_stream_is_capturing(world.stream));
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_graph_replay(graph, world.stream));
        assert_int_equal(t_sum(b, N, world.stream), 11000);
    }
    assert_ok(ph_stream_wait_stream(origin, world.stream));
    assert_ok(ph_graph_replay(graph, origin)); /* on the stream that did not capture */
    assert_int_equal(t_sum(b, N, origin), 11000);
    ph_graph_destroy(graph);
    ph_free(b, world.stream);
    ph_free(a, world.stream);
}

TEST(test_graph_capture_reset_recapture)
{
    int32_t *a, *b, *c;
    assert_ok(PH_NEW(&a, N, world.stream));
    assert_ok(t_fill(&world, world.stream, a, N, 1));
    ph_graph *graph = capture_simple(&b, a);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(t_sum(b, N, world.stream), 11000);
    assert_ok(ph_graph_reset(graph));
    /* live memory of the pool outlives the graph */
    assert_int_equal(t_sum(b, N, world.stream), 11000);
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(t_fill(&world, world.stream, b, N, 2));
    assert_ok(ten_additions(world.stream, &c, b, 2));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(t_sum(c, N, world.stream), 22000);
    assert_ok(ph_graph_reset(graph));
    ph_graph_destroy(graph);
    ph_free(c, world.stream);
    ph_free(b, world.stream);
    ph_free(a, world.stream);
}

/* ---- errors and warnings ---- */
static void unpinned(bool to_host)
{
    ph_graph *graph;
    int32_t *a, host[8] = {0};
    assert_ok(PH_NEW(&a, 8, world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(t_fill(&world, world.stream, a, 8, 1));
    assert_error(to_host ? ph_memcpy(host, a, sizeof host, world.stream)
                         : ph_memcpy(a, host, sizeof host, world.stream),
                 PH_ERROR_UNPINNED, "pageable host memory");
    /* Waiting, as reading a value back does, is refused by number, too. */
    assert_status(ph_stream_synchronize(world.stream), PH_ERROR_CAPTURE);
    assert_native(900);
    assert_ok(ph_graph_capture_end(graph, PH_OK)); /* the capture went on */
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(a, 8, 1, world.stream);
    ph_graph_destroy(graph);
    ph_free(a, world.stream);
}

TEST(test_unpinned_memory_use)
{
    unpinned(false);
}

TEST(test_unpinned_memory_use_device_to_host)
{
    unpinned(true);
}

/* After a failed capture and a reset nothing of its memory is held. */
static ph_status allocate_and_fail(ph_stream *stream, void *user)
{
    PH_TRY(ph_malloc(user, 1 << 20, 4, stream));
    return ph_fail(PH_ERROR_CALLER, "enough");
}

TEST(test_failed_capture_releases_pool_on_reset)
{
    ph_memory_stats before, after;
    ph_graph *graph;
    void *block = NULL;
    assert_ok(ph_memory_trim(world.device));
    assert_ok(ph_memory_get_stats(&before, world.device));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_status(ph_graph_capture(graph, world.stream, NULL, allocate_and_fail, &block),
                  PH_ERROR_CALLER);
    assert_ok(ph_memset(block, 1, 4 << 20, world.stream)); /* what was handed out stays valid */
    ph_free(block, world.stream);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_memory_trim(world.device));
    assert_ok(ph_memory_get_stats(&after, world.device));
    assert_int_equal(after.reserved, before.reserved);
    ph_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_graph_is_current_stream_capturing),
        IN_WORLD(test_accelerator_graph_simple),
        IN_WORLD(test_graph_capture_reset_recapture),
        IN_WORLD(test_unpinned_memory_use),
        IN_WORLD(test_unpinned_memory_use_device_to_host),
        IN_WORLD(test_failed_capture_releases_pool_on_reset),
    };
    return cmocka_run_group_tests_name("graph.torch_basics", tests, NULL, NULL);
}
