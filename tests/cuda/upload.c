/* SPDX-License-Identifier: MIT */
/* tests/cuda/upload.c: an executable that is not uploaded yet, and a GPU that has no memory for it: whoever uploads it says so, and it can be
 * tried again. */
#include "fake.h"

enum {
    N = 256
};
static t_world world;
static ph_stream *other;
static int32_t *x;

static int open_world(void **state)
{
    (void)state;
    t_open(&world, NULL);
    assert_ok(ph_stream_create(&other, world.device, NULL));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    ph_free(x, world.stream);
    ph_stream_destroy(other);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    if (fake_cuda()) {
        assert_int_equal(fake_cuda()->misuses(), 0);
        assert_string_equal(left_behind(), "");
    }
    return 0;
}

static ph_status ones(ph_stream *stream, void *user)
{
    (void)user;
    return t_fill(&world, stream, x, N, 1);
}

static ph_graph *deferred(void)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, &(ph_graph_options){.defer_upload = true}));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, ones, NULL));
    return graph;
}

static size_t executable_of(ph_graph *graph)
{
    ph_graph_memory memory;
    assert_ok(ph_graph_get_memory(&memory, graph));
    return memory.executable;
}

static void assert_replays(ph_graph *graph)
{
    assert_ok(t_fill(&world, world.stream, x, N, -1));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 1, world.stream);
}

static void no_memory_for_the_upload(void **state)
{
    (void)state;
    NEED_FAKE();
    ph_graph *graph = deferred();
    fake_cuda()->fail_call("cuGraphUpload", PH__R_OUT_OF_MEMORY, 1);
    assert_error(ph_graph_upload(graph, other), PH_ERROR_DEVICE_MEMORY, "ph_graph_upload");
    assert_int_equal(executable_of(graph), 0);
    assert_ok(ph_graph_upload(graph, other));
    assert_true(executable_of(graph) > 0);
    assert_replays(graph);
    ph_graph_destroy(graph);
}

static void no_memory_for_the_first_replay(void **state)
{
    (void)state;
    NEED_FAKE();
    for (int again = 0; again < 2; again++) {
        ph_graph *graph = deferred();
        fake_cuda()->fail_call("cuGraphLaunch", PH__R_OUT_OF_MEMORY, 1);
        ph_stream *stream = again ? ph_device_default_stream(world.device) : world.stream;
        assert_error(ph_graph_replay(graph, stream), PH_ERROR_DEVICE_MEMORY, "ph_graph_replay");
        if (again)
            assert_ok(ph_graph_upload(graph, other));
        assert_replays(graph);
        ph_graph_destroy(graph);
    }
}

/* Each call that an upload makes; the executable stays usable. */
static void calls_that_fail(void **state)
{
    (void)state;
    NEED_FAKE();
    static const char *const calls[] = {"cuEventCreate", "cuMemGetInfo", "cuGraphUpload",
                                        "cuEventRecordWithFlags"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        ph_graph *graph = deferred();
        fake_cuda()->fail_call(calls[i], 999, 1);
        assert_error(ph_graph_upload(graph, other), PH_ERROR_DEVICE, "999");
        fake_cuda()->fail_call(calls[i], 0, 0);
        assert_replays(graph);
        assert_ok(ph_graph_upload(graph, other));
        assert_replays(graph);
        ph_graph_destroy(graph);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_world, close_world)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(no_memory_for_the_upload),
        TEST(no_memory_for_the_first_replay),
        TEST(calls_that_fail),
    };
    return cmocka_run_group_tests_name("cuda.upload", tests, NULL, NULL);
}
