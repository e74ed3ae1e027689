/* SPDX-License-Identifier: MIT */
/* tests/graph/hold_memory.c: memory that a graph is told to hold: it stays what it was for
 * replays, whoever frees it, and goes with the graph. */
#include "support/support.h"

#include "base/alloc.h"
#include "support/test.h"
#include <phonograph/inspect/inputs.h>

enum {
    N = 1000,
    OTHERS = 8
};
static t_world world;
static ph_graph *graph;
static int32_t *x, *out;

static ph_status body(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, x + 4, out, N - 4, 1);
}

static void open_with(bool pinned, const ph_capture_options *options)
{
    t_open(&world, NULL);
    if (pinned)
        assert_ok(ph_malloc_pinned(&x, N, sizeof *x, world.stream));
    else
        assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(PH_NEW(&out, N, world.stream));
    assert_ok(t_fill(&world, world.stream, x, N, 7));
    assert_ok(t_fill(&world, world.stream, out, N, 0));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, options, body, NULL));
}

static void close_world(void)
{
    ph_memory_stats stats;
    ph_free(out, world.stream);
    assert_ok(ph_device_synchronize(world.device));
    assert_ok(ph_memory_trim(world.device));
    assert_ok(ph_memory_get_stats(&stats, world.device));
    assert_int_equal(stats.allocated, 0);
    assert_int_equal(stats.deferred, 0);
    assert_int_equal(stats.reserved, 0);
    assert_int_equal(stats.pinned_reserved, 0);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
}

static void give(int32_t *p, bool pinned)
{
    if (pinned)
        ph_free_pinned(p, world.stream);
    else
        ph_free(p, world.stream);
}

/* Freed, asked for by others, and still what it was. */
static void try_held(bool pinned, const ph_capture_options *options)
{
    int32_t *others[OTHERS];
    open_with(pinned, options);
    assert_ok(ph_graph_hold_memory(graph, x + N / 2));
    assert_ok(ph_graph_hold_memory(graph, x)); /* again */
    give(x, pinned);
    for (int i = 0; i < OTHERS; i++) {
        if (pinned)
            assert_ok(ph_malloc_pinned(&others[i], N, sizeof *others[i], world.stream));
        else
            assert_ok(PH_NEW(&others[i], N, world.stream));
        assert_ptr_not_equal(others[i], x);
        assert_ok(t_fill(&world, world.stream, others[i], N, 100));
    }
    for (int replay = 0; replay < 2; replay++) {
        assert_ok(ph_graph_replay(graph, world.stream));
        t_all(out, N - 4, 8, world.stream);
    }
    assert_ok(ph_graph_check_inputs(graph));
    for (int i = 0; i < OTHERS; i++)
        give(others[i], pinned);
    ph_graph_destroy(graph);
    close_world();
}

TEST(held_memory_is_not_given_to_others_after_its_free)
{
    const ph_capture_options checked = {.check_input_liveness = true};
    for (int pinned = 0; pinned < 2; pinned++) {
        try_held(pinned, NULL);
        try_held(pinned, &checked);
    }
}

/* It is given back with the graph, before and after it is freed. */
TEST(test_let_go)
{
    for (int freed = 0; freed < 2; freed++) {
        open_with(false, NULL);
        assert_ok(ph_graph_hold_memory(graph, x));
        if (freed)
            ph_free(x, world.stream);
        assert_ok(ph_graph_reset(graph));
        if (!freed)
            ph_free(x, world.stream);
        ph_graph_destroy(graph);
        close_world();
    }
}

TEST(misuse_is_refused)
{
    int32_t here = 0;
    open_with(false, NULL);
    assert_error(ph_graph_hold_memory(NULL, x), PH_ERROR_ARGUMENT, "graph is NULL");
    assert_error(ph_graph_hold_memory(graph, NULL), PH_ERROR_ARGUMENT, "address is NULL");
    assert_error(ph_graph_hold_memory(graph, &here), PH_ERROR_NOT_FOUND, "no live allocation");
    ph_free(x, world.stream);
    assert_error(ph_graph_hold_memory(graph, x), PH_ERROR_NOT_FOUND, "no live allocation");
    ph_graph_destroy(graph);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held_memory_is_not_given_to_others_after_its_free),
        cmocka_unit_test(test_let_go),
        cmocka_unit_test(misuse_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
