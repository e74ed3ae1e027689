/* SPDX-License-Identifier: MIT */
/* tests/device/closed_beside.c: a device that is closed while another device of the same GPU
 * captures: its work is waited for, its memory goes, and the capture lives. */
#include "base/alloc.h"
#include "support/support.h"
#include "support/test.h"

enum {
    N = 1 << 16
};

/* A device of its own with work in flight, memory of all kinds, and a graph that was replayed. */
typedef struct guest {
    ph_device *device;
    ph_graph *graph;
    ph_kernel *kernel;
} guest;

static ph_status fill_new(ph_stream *stream, void *user)
{
    int32_t *memory;
    (void)user;
    PH_TRY(PH_NEW(&memory, N, stream));
    ph_status status = ph_memset(memory, 3, N * sizeof *memory, stream);
    ph_free(memory, stream);
    return status;
}

static void open_guest(guest *g)
{
    ph_stream *streams[2];
    int32_t *memory, *pinned;
    assert_ok(ph_device_open(&g->device, t_device_name(), NULL));
    for (int i = 0; i < 2; i++)
        assert_ok(ph_stream_create(&streams[i], g->device, NULL));
    assert_ok(ph_kernel_create(&g->kernel, g->device, &t_kernel_sources[T_KERNEL_ADD_ONE]));
    assert_ok(ph_graph_create(&g->graph, NULL));
    assert_ok(ph_graph_capture(g->graph, streams[0], NULL, fill_new, NULL));
    assert_ok(PH_NEW(&memory, N, streams[0]));
    assert_ok(ph_malloc_pinned(&pinned, N, sizeof *pinned, streams[1]));
    for (int i = 0; i < 50; i++) {
        assert_ok(ph_graph_replay(g->graph, streams[1]));
        assert_ok(ph_memcpy(pinned, memory, N * sizeof *memory, streams[0]));
        assert_ok(ph_memset(memory, (uint8_t)i, N * sizeof *memory, streams[0]));
    }
    assert_ok(ph_stream_wait_stream(streams[1], streams[0]));
    ph_free_pinned(pinned, streams[1]);
    ph_free(memory, streams[0]);
    ph_stream_destroy(streams[0]);
    ph_stream_destroy(streams[1]);
}

static void close_guest(guest *g)
{
    ph_graph_destroy(g->graph);
    ph_kernel_release(g->kernel);
    ph_device_release(g->device);
}

static ph_status close_and_fill(ph_stream *stream, void *user)
{
    close_guest(user);
    return fill_new(stream, NULL);
}

TEST(a_capture_lives_when_another_device_of_its_gpu_closes)
{
    for (int mode = PH_CAPTURE_GLOBAL; mode <= PH_CAPTURE_RELAXED; mode++) {
        const ph_capture_options options = {.mode = (ph_capture_mode)mode};
        t_world world;
        ph_graph *graph;
        guest g;
        t_open(&world, NULL);
        open_guest(&g);
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(ph_graph_capture(graph, world.stream, &options, close_and_fill, &g));
        assert_ok(ph_graph_replay(graph, world.stream));
        assert_ok(ph_stream_synchronize(world.stream));
        ph_graph_destroy(graph);
        t_close(&world);
    }
    assert_int_equal(ph__alloc_live(), 0);
}

/* Its work may still run when the last that has the device lets go. */
TEST(a_device_with_work_in_flight_closes_behind_it)
{
    for (int i = 0; i < 5; i++) {
        guest g;
        open_guest(&g);
        close_guest(&g);
    }
    assert_int_equal(ph__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_capture_lives_when_another_device_of_its_gpu_closes),
        cmocka_unit_test(a_device_with_work_in_flight_closes_behind_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
