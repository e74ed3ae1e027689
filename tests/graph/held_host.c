/* SPDX-License-Identifier: MIT */
/* tests/graph/held_host.c: pinned memory that is allocated and freed during a capture, and that
 * kernels and host functions of the graph address: the host writes such memory at once, so nobody
 * is given it, neither the same capture nor others. */
#include "support/fixture.h"

enum {
    N = 1000,
    OTHERS = 6
};
static t_world world;
static ph_stream *side;

WORLD(world, .streams = {&side}, .leaves_nothing = true);

static int32_t *take(ph_stream *stream, int32_t value)
{
    int32_t *p;
    assert_ok(ph_malloc_pinned(&p, N, sizeof *p, stream));
    for (size_t i = 0; i < N; i++)
        p[i] = value;
    return p;
}

static ph_graph *begin(void)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    return graph;
}

/* ---- the same capture ---- */
TEST(test_a_kernel_reads_what_the_capture_freed)
{
    int32_t *out;
    assert_ok(PH_NEW(&out, N, world.stream));
    ph_graph *graph = begin();
    int32_t *read = take(world.stream, 7);
    assert_ok(t_add(&world, world.stream, read, out, N, 0));
    ph_free_pinned(read, world.stream);
    int32_t *next = take(world.stream, 9);
    assert_ptr_not_equal(next, read);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    for (int i = 0; i < 2; i++) {
        assert_ok(ph_graph_replay(graph, world.stream));
        t_all(out, N, 7, world.stream);
    }
    ph_free_pinned(next, world.stream);
    ph_graph_destroy(graph);
    ph_free(out, world.stream);
}

static void count_up(void *user)
{
    ++*(int32_t *)user;
}

TEST(test_a_host_function_writes_what_the_capture_freed)
{
    ph_graph *graph = begin();
    int32_t *written = take(world.stream, 0);
    assert_ok(ph_launch_host(world.stream, count_up, written));
    ph_free_pinned(written, world.stream);
    int32_t *next = take(world.stream, 9);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    assert_int_equal(next[0], 9);
    ph_free_pinned(next, world.stream);
    ph_graph_destroy(graph);
}

/* ---- others ---- */
static bool others_meet(ph_graph *graph, const int32_t *written)
{
    int32_t *other[OTHERS];
    bool met = false;
    for (int i = 0; i < OTHERS; i++) {
        other[i] = take(side, 100);
        met = met || other[i] == written;
    }
    if (graph) {
        assert_ok(ph_graph_replay(graph, world.stream));
        assert_ok(ph_stream_synchronize(world.stream));
    }
    for (int i = 0; i < OTHERS; i++) {
        assert_int_equal(other[i][0], 100);
        ph_free_pinned(other[i], side);
    }
    return met;
}

TEST(test_the_user_of_a_host_function_is_the_graphs)
{
    ph_graph *graph = begin();
    int32_t *written = take(side, 0);
    assert_ok(ph_launch_host(world.stream, count_up, written + 5));
    ph_free_pinned(written, side);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_false(others_meet(graph, written));
    assert_false(others_meet(graph, written));
    assert_int_equal(written[5], 2); /* nobody has it */
    ph_graph_destroy(graph);
    assert_ok(ph_device_synchronize(world.device));
    assert_true(others_meet(NULL, written));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_a_kernel_reads_what_the_capture_freed),
        IN_WORLD(test_a_host_function_writes_what_the_capture_freed),
        IN_WORLD(test_the_user_of_a_host_function_is_the_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
