/* SPDX-License-Identifier: MIT */
/* tests/device/contexts.c: making a device's context current for the program's own calls. */
#include "support/support.h"

#include "base/alloc.h"
#include "fake/fake_cuda.h"
#include "support/test.h"
#include <phonograph/cuda.h>

/* The calling thread's stack of contexts, where the tests' own libcuda tells. */
static size_t depth(void **current)
{
    void *at[FAKE_CUDA_STACK];
    size_t count = fake_cuda() ? fake_cuda()->context_stack(at) : 0;
    *current = count ? at[count - 1] : NULL;
    return count;
}

TEST(pushed_contexts_nest_and_are_popped_in_order)
{
    t_world world;
    void *outer, *mine, *inner;
    t_open(&world, NULL);
    if (t_on_host()) {
        assert_error(ph_context_push_cuda(world.device), PH_ERROR_UNSUPPORTED,
                     "no device of CUDA's");
        ph_context_pop_cuda(world.device);
        t_close(&world);
        return;
    }
    size_t before = depth(&outer);
    assert_ok(ph_context_push_cuda(world.device));
    size_t one = depth(&mine);
    assert_ok(ph_context_push_cuda(world.device));
    size_t two = depth(&inner);
    if (fake_cuda()) {
        assert_int_equal(one, before + 1);
        assert_int_equal(two, before + 2);
        assert_ptr_equal(mine, inner);
    }
    ph_context_pop_cuda(world.device);
    ph_context_pop_cuda(world.device);
    assert_int_equal(depth(&inner), before);
    assert_ptr_equal(inner, outer);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
}

static ph_status body(ph_stream *stream, void *user)
{
    const t_world *world = user;
    int32_t *memory;
    PH_TRY(ph_context_push_cuda(world->device));
    ph_status status = PH_NEW(&memory, 256, stream);
    if (status == PH_OK)
        status = t_fill(world, stream, memory, 256, 3);
    ph_free(memory, stream);
    ph_context_pop_cuda(world->device);
    return status;
}

TEST(test_in_a_capture)
{
    t_world world;
    ph_graph *graph;
    t_not_on_host("the host device has no contexts");
    t_open(&world, NULL);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, &world));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    ph_graph_destroy(graph);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
}

TEST(wrong_arguments_are_refused)
{
    assert_error(ph_context_push_cuda(NULL), PH_ERROR_ARGUMENT, "device is NULL");
    ph_context_pop_cuda(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pushed_contexts_nest_and_are_popped_in_order),
        cmocka_unit_test(test_in_a_capture),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("device.contexts", tests, NULL, NULL);
}
