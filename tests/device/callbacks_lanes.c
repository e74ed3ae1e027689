/* SPDX-License-Identifier: MIT */
/* tests/device/callbacks_lanes.c: calls of the library from a lane of an inline replay, which a
 * worker thread of the host device runs within ph_graph_replay: each is refused. */
#include "support/support.h"
#include "support/test.h"
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

enum {
    WARM_UP = 3000, /* replays, after which the plan has lanes, where they pay */
    REPLAYS = 1000,
    BLOCKS = 8
};

typedef struct work {
    int turns; /* of a loop, for each block: 1 to 3 us in all */
} work;

static ph_device *device;
static ph_stream *own, *other;
static char *memory;
static atomic_bool calls;
static atomic_uint refused, let_through;

static bool is_worker(void)
{
    char name[32] = "";
    return pthread_getname_np(pthread_self(), name, sizeof name) == 0 && strstr(name, "worker");
}

static void spin_and_call(const ph_block_range *range, const void *args)
{
    const work *w = args;
    for (volatile int i = 0; i < (int)(range->end - range->begin) * w->turns; i++)
        ;
    if (!atomic_load(&calls) || !is_worker())
        return;
    if (ph_memset(memory, 1, 4, other) == PH_ERROR_STATE && ph_error_last()->native_code == 800)
        atomic_fetch_add(&refused, 1);
    else
        atomic_fetch_add(&let_through, 1);
}

typedef struct launch {
    ph_kernel *kernel;
    work work;
} launch;

static ph_status body(ph_stream *stream, void *user)
{
    const launch *l = user;
    return ph_launch(stream, l->kernel, &(ph_launch_config){.grid = {BLOCKS}}, &l->work,
                     sizeof l->work);
}

static void replay_often(ph_graph *graph, int count)
{
    for (int i = 0; i < count; i++)
        assert_ok(ph_graph_replay(graph, own));
    assert_ok(ph_stream_synchronize(own));
}

TEST(calls_from_lanes_of_inline_replays_are_refused)
{
    launch l;
    const ph_kernel_source source = {.name = "spin_and_call",
                                     .host = spin_and_call,
                                     .args_size = sizeof(work),
                                     .host_inline = true};
    if (!t_on_host()) {
        print_message("skipped: kernels of a GPU call nothing\n");
        skip();
    }
    assert_ok(ph_device_open(&device, "host:threads=2", NULL));
    assert_ok(ph_stream_create(&own, device, NULL));
    assert_ok(ph_stream_create(&other, device, NULL));
    assert_ok(PH_NEW(&memory, 256, own));
    assert_ok(ph_kernel_create(&l.kernel, device, &source));
    for (int round = 0; round < (t_nightly() ? 200 : 60) && atomic_load(&let_through) == 0;
         round++) {
        ph_graph *graph;
        l.work.turns = 150 + round * 17 % 300;
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(ph_graph_capture(graph, own, NULL, body, &l));
        replay_often(graph, WARM_UP);
        atomic_store(&calls, true);
        replay_often(graph, REPLAYS);
        atomic_store(&calls, false);
        ph_graph_destroy(graph);
    }
    print_message("calls on workers: %u refused\n", atomic_load(&refused));
    assert_int_equal(atomic_load(&let_through), 0);
    ph_free(memory, own);
    ph_kernel_release(l.kernel);
    ph_stream_destroy(other);
    ph_stream_destroy(own);
    ph_device_release(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_from_lanes_of_inline_replays_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
