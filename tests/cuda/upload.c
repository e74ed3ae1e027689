/* SPDX-License-Identifier: MIT */
/* tests/cuda/upload.c: an executable that is not uploaded yet, and a GPU that has no memory for
 * it: whoever uploads it says so, and it can be tried again. */
#include "fake.h"
#include "support/test.h"
#include "support/uploads.h"

static int close_and_count(void **state)
{
    int result = close_world(state);
    if (fake_cuda()) {
        assert_int_equal(fake_cuda()->misuses(), 0);
        assert_string_equal(left_behind(), "");
    }
    return result;
}

TEST(no_memory_for_the_upload)
{
    NEED_FAKE();
    ph_graph *graph = captured(&defer);
    fake_cuda()->fail_call("cuGraphUpload", PH__R_OUT_OF_MEMORY, 1);
    assert_error(ph_graph_upload(graph, other), PH_ERROR_DEVICE_MEMORY, "ph_graph_upload");
    assert_int_equal(executable_of(graph), 0);
    assert_ok(ph_graph_upload(graph, other));
    assert_true(executable_of(graph) > 0);
    assert_replays(graph, world.stream, 1);
    ph_graph_destroy(graph);
}

TEST(no_memory_for_the_first_replay)
{
    NEED_FAKE();
    for (int again = 0; again < 2; again++) {
        ph_graph *graph = captured(&defer);
        fake_cuda()->fail_call("cuGraphLaunch", PH__R_OUT_OF_MEMORY, 1);
        ph_stream *stream = again ? ph_device_default_stream(world.device) : world.stream;
        assert_error(ph_graph_replay(graph, stream), PH_ERROR_DEVICE_MEMORY, "ph_graph_replay");
        if (again)
            assert_ok(ph_graph_upload(graph, other));
        assert_replays(graph, world.stream, 1);
        ph_graph_destroy(graph);
    }
}

/* Each call that an upload makes; the executable stays usable. */
TEST(calls_that_fail)
{
    NEED_FAKE();
    static const char *const calls[] = {"cuEventCreate", "cuMemGetInfo", "cuGraphUpload",
                                        "cuEventRecordWithFlags"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        ph_graph *graph = captured(&defer);
        fake_cuda()->fail_call(calls[i], 999, 1);
        assert_error(ph_graph_upload(graph, other), PH_ERROR_DEVICE, "999");
        fake_cuda()->fail_call(calls[i], 0, 0);
        assert_replays(graph, world.stream, 1);
        assert_ok(ph_graph_upload(graph, other));
        assert_replays(graph, world.stream, 1);
        ph_graph_destroy(graph);
    }
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, open_world, close_and_count)
int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(no_memory_for_the_upload),
        CASE(no_memory_for_the_first_replay),
        CASE(calls_that_fail),
    };
    return cmocka_run_group_tests_name("cuda.upload", tests, NULL, NULL);
}
