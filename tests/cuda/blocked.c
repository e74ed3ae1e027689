/* SPDX-License-Identifier: MIT */
/* tests/cuda/blocked.c: a launch that blocks, as it does when the device's queue is full: it
 * holds up nobody but who made it. */
#include "base/sync.h"
#include "fake.h"
#include "support/test.h"

enum {
    N = 64
};

typedef struct launcher {
    t_world *world;
    int32_t *memory;
    atomic_bool begun;
    ph_status status;
} launcher;

/* Behind a gate that is opened when the main thread is through. */
static void *launch(void *argument)
{
    launcher *l = argument;
    atomic_store(&l->begun, true);
    l->status = t_fill(l->world, ph_device_default_stream(l->world->device), l->memory, N, 7);
    return NULL;
}

static ph_status fill(ph_stream *stream, void *user)
{
    launcher *l = user;
    return t_fill(l->world, stream, l->memory + N, N, 3);
}

/* Until the launcher has come as far as its launch: the fake counts the call before it blocks. */
static void wait_for_launch(const launcher *l, int64_t before)
{
    while (!atomic_load(&l->begun) || fake_cuda()->calls_of("cuLaunchKernel") == before)
        ph__pause();
}

/* On the default stream, whose work is kept away from captures with blocking streams in them. */
TEST(captures_go_on_beside_it)
{
    NEED_FAKE();
    t_world world;
    t_gate gate = {0};
    pthread_t thread;
    ph_graph *graph;
    t_open(&world, NULL);
    launcher l = {.world = &world};
    assert_ok(PH_NEW(&l.memory, 2 * N, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(t_gate_wait(&gate, ph_device_default_stream(world.device)));
    fake_cuda()->launches_wait(true);
    int64_t before = fake_cuda()->calls_of("cuLaunchKernel");
    assert_true(ph__thread_start(&thread, "launcher", launch, &l));
    wait_for_launch(&l, before);
    for (int i = 0; i < 100; i++) {
        assert_ok(ph_graph_capture(graph, world.stream, NULL, fill, &l));
        assert_ok(ph_graph_reset(graph));
    }
    t_gate_open(&gate);
    pthread_join(thread, NULL);
    fake_cuda()->launches_wait(false);
    assert_int_equal(l.status, PH_OK);
    t_all(l.memory, N, 7, world.stream);
    ph_graph_destroy(graph);
    ph_free(l.memory, NULL);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
}

static void *open_gate(void *gate)
{
    t_gate_open(gate);
    return NULL;
}

/* A capture on a stream that is ordered against the default stream begins when the launch is
 * through. */
TEST(a_blocking_capture_waits_for_it)
{
    NEED_FAKE();
    t_world world;
    t_gate gate = {0};
    pthread_t thread, opener;
    ph_graph *graph;
    ph_stream *blocking;
    t_open(&world, NULL);
    launcher l = {.world = &world};
    assert_ok(PH_NEW(&l.memory, 2 * N, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_stream_create(&blocking, world.device, &(ph_stream_options){.blocking = true}));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(t_gate_wait(&gate, ph_device_default_stream(world.device)));
    fake_cuda()->launches_wait(true);
    int64_t before = fake_cuda()->calls_of("cuLaunchKernel");
    assert_true(ph__thread_start(&thread, "launcher", launch, &l));
    wait_for_launch(&l, before);
    assert_true(ph__thread_start(&opener, "opener", open_gate, &gate));
    assert_ok(ph_graph_capture(graph, blocking, NULL, fill, &l));
    assert_true(gate.open);
    pthread_join(opener, NULL);
    pthread_join(thread, NULL);
    fake_cuda()->launches_wait(false);
    assert_int_equal(l.status, PH_OK);
    assert_ok(ph_graph_replay(graph, blocking));
    t_all(l.memory + N, N, 3, blocking);
    t_all(l.memory, N, 7, world.stream);
    ph_graph_destroy(graph);
    ph_stream_destroy(blocking);
    ph_free(l.memory, NULL);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captures_go_on_beside_it),
        cmocka_unit_test(a_blocking_capture_waits_for_it),
    };
    return cmocka_run_group_tests_name("cuda.blocked", tests, NULL, NULL);
}
