/* SPDX-License-Identifier: MIT */
/* tests/unit/host_inline_replay.c: which replays of the host device run on the calling thread:
 * those whose kernels are all declared inline, and no others, however quick they were before. */
#include "support/support.h"

#include "base/alloc.h"
#include "base/sync.h"
#include "support/test.h"

/* Enough that whatever is quick has shown it. */
enum {
    QUICK_REPLAYS = 200,
    MOST_REPLAYS = 100000
};

static t_world world;
static ph_kernel *inline_kernel, *waiting; /* one function, two declarations */
static t_gate closed;
static atomic_bool waits;
static _Atomic uint64_t ran_on;

/* Waits for the thread that replays, once that is asked for. */
static void note(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
    atomic_store(&ran_on, ph__thread_id());
    if (atomic_load(&waits))
        t_gate_body(&closed);
}

static void note_host(void *user)
{
    note(NULL, user);
}

static ph_kernel *make(bool is_inline)
{
    ph_kernel *kernel;
    const ph_kernel_source source = {.name = "note", .host = note, .host_inline = is_inline};
    assert_ok(ph_kernel_create(&kernel, world.device, &source));
    return kernel;
}

FIXTURE(open_world)
{
    t_open(&world, "host:threads=2");
    inline_kernel = make(true);
    waiting = make(false);
    closed = (t_gate){0};
    atomic_store(&waits, false);
    return 0;
}

FIXTURE(close_world)
{
    ph_kernel_release(inline_kernel);
    ph_kernel_release(waiting);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

static ph_graph *capture(ph_capture_fn body, void *user)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, &(ph_graph_options){.keep_graph = true}));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, user));
    return graph;
}

static ph_status launch_one(ph_stream *stream, void *kernel)
{
    return ph_launch(stream, kernel, NULL, NULL, 0);
}

static ph_status launch_both(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(launch_one(stream, waiting));
    return launch_one(stream, inline_kernel);
}

static ph_status call_host(ph_stream *stream, void *user)
{
    return ph_launch_host(stream, note_host, user);
}

static ph_status replay_inner(ph_stream *stream, void *inner)
{
    return ph_graph_replay(inner, stream);
}

static bool replay_here(ph_graph *graph)
{
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    return atomic_load(&ran_on) == ph__thread_id();
}

/* Whether a replay is quick enough is for the clock to say; a machine that is busy asks for some
 * more of them. */
static void expect_here_at_last(ph_graph *graph)
{
    bool here = false;
    for (int i = 0; i < MOST_REPLAYS && !here; i++)
        here = replay_here(graph);
    assert_true(here);
}

/* The last replay waits for its own caller, which goes on only if the call comes back. */
static void expect_never_here(ph_graph *graph)
{
    for (int i = 0; i < QUICK_REPLAYS; i++)
        assert_false(replay_here(graph));
    atomic_store(&waits, true);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_gate_open(&closed);
    assert_ok(ph_stream_synchronize(world.stream));
    atomic_store(&waits, false);
    closed = (t_gate){0};
}

TEST(test_inline_kernels)
{
    ph_graph *graph = capture(launch_one, inline_kernel);
    expect_here_at_last(graph);
    ph_graph_destroy(graph);
}

TEST(test_kernels_that_may_wait)
{
    ph_graph *graph = capture(launch_one, waiting);
    expect_never_here(graph);
    ph_graph_destroy(graph);
}

TEST(test_one_of_two_may_wait)
{
    ph_graph *graph = capture(launch_both, NULL);
    expect_never_here(graph);
    ph_graph_destroy(graph);
}

TEST(test_host_functions)
{
    ph_graph *graph = capture(call_host, NULL);
    expect_never_here(graph);
    ph_graph_destroy(graph);
}

TEST(test_inside_a_child_graph)
{
    ph_graph *kernels[2] = {capture(launch_one, inline_kernel), capture(launch_one, waiting)};
    ph_graph *outer = capture(replay_inner, kernels[0]);
    expect_here_at_last(outer);
    ph_graph_destroy(outer);
    outer = capture(replay_inner, kernels[1]);
    expect_never_here(outer);
    ph_graph_destroy(outer);
    ph_graph_destroy(kernels[0]);
    ph_graph_destroy(kernels[1]);
}

/* A node that is switched off runs nothing, so it is not in the way; switched on again it is. */
TEST(test_switched_off)
{
    ph_graph *graph = capture(launch_both, NULL);
    expect_never_here(graph);
    assert_ok(ph_graph_node_set_enabled(graph, 0, false));
    expect_here_at_last(graph);
    assert_ok(ph_graph_node_set_enabled(graph, 0, true));
    expect_never_here(graph);
    ph_graph_destroy(graph);
}

/* Both kernels are one function over equal grids: the declaration is all that an update changes. */
TEST(an_update_decides_whether_a_replay_is_inline)
{
    ph_graph *graph = capture(launch_one, inline_kernel), *other = capture(launch_one, waiting),
             *third = capture(launch_one, inline_kernel);
    expect_here_at_last(graph);
    assert_ok(ph_graph_update(graph, other, NULL));
    expect_never_here(graph);
    assert_ok(ph_graph_update(graph, third, NULL));
    expect_here_at_last(graph);
    ph_graph_destroy(third);
    ph_graph_destroy(other);
    ph_graph_destroy(graph);
}

/* An update while a replay is in flight reaches the plan on the stream's own thread. */
TEST(test_updated_in_flight)
{
    t_gate gate = {0};
    ph_graph *graph = capture(launch_one, inline_kernel), *other = capture(launch_one, waiting);
    expect_here_at_last(graph);
    assert_ok(t_gate_wait(&gate, world.stream));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_update(graph, other, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(world.stream));
    expect_never_here(graph);
    ph_graph_destroy(other);
    ph_graph_destroy(graph);
}

/* A launch of its own: the same declaration. */
TEST(test_single_launches)
{
    for (int i = 0; i < QUICK_REPLAYS; i++) {
        assert_ok(launch_one(world.stream, waiting));
        assert_ok(ph_stream_synchronize(world.stream));
        assert_int_not_equal(atomic_load(&ran_on), ph__thread_id());
    }
    atomic_store(&waits, true);
    assert_ok(launch_one(world.stream, waiting));
    assert_ok(call_host(world.stream, NULL));
    t_gate_open(&closed);
    assert_ok(ph_stream_synchronize(world.stream));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_inline_kernels),
        IN_WORLD(test_kernels_that_may_wait),
        IN_WORLD(test_one_of_two_may_wait),
        IN_WORLD(test_host_functions),
        IN_WORLD(test_inside_a_child_graph),
        IN_WORLD(test_switched_off),
        IN_WORLD(an_update_decides_whether_a_replay_is_inline),
        IN_WORLD(test_updated_in_flight),
        IN_WORLD(test_single_launches),
    };
    return cmocka_run_group_tests_name("host_inline_replay", tests, NULL, NULL);
}
