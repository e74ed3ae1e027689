/* SPDX-License-Identifier: MIT */
/* tests/cuda/lifetimes.c: what must outlive what: names of released kernels in captures, code
 * behind nodes of other programs' graphs, events of waits. */
#include "device/handles/device.h"
#include "device/handles/kernel.h"
#include "fake.h"
#include "support/test.h"
#include <phonograph/cuda.h>
#include <sched.h>
#include <string.h>

enum {
    N = 600
};

static t_world world;
static ph_stream *side;
static ph__cu_function function;
static ph_kernel *kernel;

static void nothing(const ph_block_range *range, const void *args)
{
    (void)range;
    (void)args;
}

/* Reusing the block inside the capture reads the raw launch back; then its wrapper is let go of. */
static ph_status release_in_capture(ph_stream *stream, void *user)
{
    (void)user;
    int32_t *b, *c;
    struct CUstream_st *raw;
    PH_TRY(PH_NEW(&b, N, stream));
    PH_TRY(t_fill(&world, stream, b, N, 0));
    PH_TRY(ph_stream_cuda(&raw, stream));
    assert_int_equal(ph__cu.LaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, raw, NULL, NULL), 0);
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(t_add(&world, side, b, b, N, 1));
    PH_TRY(ph_record_stream(b, side));
    PH_TRY(ph_stream_wait_stream(stream, side));
    ph_free(b, stream);
    PH_TRY(PH_NEW(&c, N, stream));
    PH_TRY(t_fill(&world, stream, c, N, 0));
    ph_free(c, stream);
    ph_kernel_release(kernel);
    return PH_OK;
}

TEST(a_wrapper_released_in_a_capture)
{
    static const char ptx[] =
        ".version 7.0\n.target sm_60\n.address_size 64\n.visible .entry t_none()\n{\n    ret;\n}\n";
    ph__cu_module module;
    ph_graph *graph;
    const ph_record *record;
    bool named = false;
    NEED_FAKE();
    fake_cuda()->register_kernel("t_none", nothing);
    t_open(&world, NULL);
    ph__cu_context own = primary(0);
    cu(CtxPushCurrent(own));
    cu(ModuleLoadDataEx(&module, ptx, 0, NULL, NULL));
    cu(ModuleGetFunction(&function, module, "t_none"));
    pop(own);
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(ph_kernel_wrap_cuda(&kernel, world.device, function, NULL, 0));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, release_in_capture, NULL));
    assert_ok(ph_graph_record(&record, graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        ph_node_info info;
        assert_ok(ph_record_node(&info, record, i));
        named = named || strcmp(info.name, "t_none") == 0;
    }
    assert_true(named);
    ph_graph_destroy(graph);
    ph_stream_destroy(side);
    cu(CtxPushCurrent(own));
    cu(ModuleUnload(module));
    pop(own);
    t_close(&world);
    cu(DevicePrimaryCtxRelease(0));
}

/* The device that the wrapper opened goes with it; the other program's graph stays. */
TEST(a_fill_in_another_programs_graph)
{
    ph_stream *stream;
    ph__cu_graph graph;
    ph__cu_exec exec;
    ph__cu_pointer address;
    ph__cu_instantiate_params params = {0};
    NEED_FAKE();
    ph__cu_context own = primary(0);
    ph__cu_stream theirs = stream_in(own);
    cu(CtxPushCurrent(own));
    cu(MemAlloc(&address, 256));
    assert_ok(ph_stream_wrap_cuda(&stream, theirs));
    cu(StreamBeginCapture(theirs, 0));
    assert_ok(ph_memset((void *)(uintptr_t)address, 0, 256, stream));
    cu(StreamEndCapture(theirs, &graph));
    cu(GraphInstantiateWithParams(&exec, graph, &params));
    ph_stream_destroy(stream);
    cu(GraphLaunch(exec, theirs));
    cu(StreamSynchronize(theirs));
    assert_int_equal(fake_cuda()->misuses(), 0);
    cu(GraphExecDestroy(exec));
    cu(GraphDestroy(graph));
    cu(MemFree(address));
    cu(StreamDestroy(theirs));
    pop(own);
    cu(DevicePrimaryCtxRelease(0));
}

/* ---- events of waits ---- */
static t_gate gate;
static atomic_bool waited;

/* Opens the gate when the wait behind it has begun. */
static void *open_behind_wait(void *before)
{
    while (fake_cuda()->calls_of("cuEventSynchronize") == *(int64_t *)before &&
           !atomic_load(&waited))
        sched_yield();
    t_gate_open(&gate);
    return NULL;
}

static ph_status wait_for_gate(ph_stream *stream)
{
    pthread_t opener;
    int64_t before = fake_cuda()->calls_of("cuEventSynchronize");
    gate = (t_gate){0};
    atomic_store(&waited, false);
    assert_ok(t_gate_wait(&gate, stream));
    assert_int_equal(pthread_create(&opener, NULL, open_behind_wait, &before), 0);
    ph_status status = ph_stream_synchronize(stream);
    atomic_store(&waited, true);
    assert_int_equal(pthread_join(opener, NULL), 0);
    assert_int_equal(fake_cuda()->calls_of("cuEventSynchronize"), before + 1);
    return status;
}

TEST(waits_of_a_device_share_an_event_while_it_is_sound)
{
    NEED_FAKE();
    t_open(&world, NULL);
    assert_ok(ph_stream_create(&side, world.device, NULL));
    int64_t made = fake_cuda()->calls_of("cuEventCreate");
    for (int i = 0; i < 4; i++)
        assert_ok(wait_for_gate(i % 2 ? side : world.stream));
    assert_int_equal(fake_cuda()->calls_of("cuEventCreate"), made + 1);
    fake_cuda()->fail_call("cuEventSynchronize", 719, 1);
    assert_error(wait_for_gate(side), PH_ERROR_DEVICE, "719");
    assert_ok(wait_for_gate(side));
    assert_ok(wait_for_gate(world.stream));
    assert_int_equal(fake_cuda()->calls_of("cuEventCreate"), made + 2);
    ph_stream_destroy(side);
    t_close(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_wrapper_released_in_a_capture),
        cmocka_unit_test(a_fill_in_another_programs_graph),
        cmocka_unit_test(waits_of_a_device_share_an_event_while_it_is_sound),
    };
    return cmocka_run_group_tests_name("cuda.lifetimes", tests, NULL, NULL);
}
