/* SPDX-License-Identifier: MIT */
/* tests/graph/held_devices_beside.c: memory of a second device handle that a graph of the first one
 * holds: captures and threads beside, the second handle that is closed, a fork. */
#include "held_devices.h"

#include "base/alloc.h"

#include <sys/wait.h>
#include <unistd.h>

/* ---- captures and threads beside ---- */
TEST(test_captures_on_both)
{
    int32_t *p, *next[OTHERS];
    ph_graph *first, *beside;
    assert_ok(ph_graph_create(&first, NULL));
    assert_ok(ph_graph_create(&beside, NULL));
    assert_ok(ph_graph_capture_begin(first, world.stream, &relaxed));
    assert_ok(ph_graph_capture_begin(beside, there, &relaxed));
    assert_ok(PH_NEW(&p, N, ph_device_default_stream(second)));
    assert_ok(use(world.stream, p));
    assert_ok(ph_memset(p, 0, 4, there));
    ph_free(p, NULL);
    assert_ok(ph_graph_capture_end(beside, PH_OK));
    ph_graph_destroy(beside);
    assert_ok(ph_graph_capture_end(first, PH_OK));
    for (int i = 0; i < OTHERS; i++) {
        assert_ok(PH_NEW(&next[i], N, ph_device_default_stream(second)));
        assert_ptr_not_equal(next[i], p);
    }
    replay_gives_6(first);
    ph_graph_destroy(first);
    for (int i = 0; i < OTHERS; i++)
        ph_free(next[i], NULL);
}

/* What the other one was given from its own pool, and freed, it may use again. */
TEST(test_memory_of_another_capture)
{
    ph_graph *first, *beside;
    int32_t *p;
    assert_ok(ph_graph_create(&first, NULL));
    assert_ok(ph_graph_create(&beside, NULL));
    assert_ok(ph_graph_capture_begin(first, world.stream, &relaxed));
    assert_ok(ph_graph_capture_begin(beside, there, &relaxed));
    assert_ok(PH_NEW(&p, N, there));
    assert_ok(ph_memset(p, 0, 4, there));
    assert_ok(use(world.stream, p));
    ph_free(p, there);
    assert_ok(ph_graph_capture_end(beside, PH_OK));
    assert_error(ph_graph_capture_end(first, PH_OK), PH_ERROR_CAPTURE, "given to somebody else");
    ph_graph_destroy(beside);
    ph_graph_destroy(first);
}

typedef struct eager {
    int32_t *p, *again;
    ph_status status;
} eager;

static void *work_beside(void *user)
{
    eager *e = user;
    e->status = from_stream(&e->p);
    if (e->status == PH_OK)
        e->status = use(world.stream, e->p);
    ph_free(e->p, there);
    if (e->status == PH_OK)
        e->status = from_stream(&e->again);
    return NULL;
}

/* Another thread has been given it already, before the capture's end. */
TEST(test_memory_given_again_is_refused)
{
    eager e;
    pthread_t thread;
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, &relaxed));
    assert_int_equal(pthread_create(&thread, NULL, work_beside, &e), 0);
    pthread_join(thread, NULL);
    assert_int_equal(e.status, PH_OK);
    assert_ptr_equal(e.again, e.p);
    assert_error(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE, "given to somebody else");
    ph_graph_destroy(graph);
    ph_free(e.again, there);
}

/* ---- the second device is closed ---- */
static void close_second(void)
{
    ph_pool_release(pool);
    ph_stream_destroy(there);
    ph_device_release(second);
    pool = NULL;
    there = NULL;
    second = NULL;
}

/* Its memory is not given back to the system, from where anybody would have it. */
TEST(memory_of_a_closed_device_goes_with_the_graph)
{
    for (int how = 0; how < 4; how++) {
        ph_graph *graph;
        int32_t *p;
        ph_allocation found;
        if (!second) {
            assert_ok(ph_device_open(&second, t_device_name(), NULL));
            assert_ok(ph_stream_create(&there, second, NULL));
        }
        ph_device *device = second;
        assert_ok(ph_graph_create(&graph, NULL));
        assert_ok(ph_graph_capture_begin(graph, world.stream, &relaxed));
        assert_ok(from_stream(&p));
        assert_ok(use(world.stream, p));
        if (how % 2 == 0)
            ph_free(p, there);
        if (how < 2)
            close_second();
        assert_ok(ph_graph_capture_end(graph, PH_OK));
        if (how >= 2)
            close_second();
        /* The graph keeps the device, which is therefore there to be asked. */
        if (how % 2 == 1)
            assert_ok(ph_memory_lookup(&found, device, p));
        replay_gives_6(graph);
        int64_t before = ph__alloc_live();
        ph_graph_destroy(graph);
        assert_ok(ph_device_synchronize(world.device));
        assert_ok(ph_memory_trim(world.device));
        assert_true(ph__alloc_live() < before);
    }
}

/* ---- fork ---- */
/* Captures of the parent are not the child's: its memory waits for none. */
TEST(test_in_a_child)
{
    ph_graph *graph;
    int status;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, &relaxed));
    assert_ok(t_fill(&world, world.stream, out, N, 6));
    pid_t child = fork();
    if (child == 0) {
        ph_device *device;
        int32_t *p, *again;
        ph_memory_stats stats = {.deferred = 1};
        bool ok = ph_device_open(&device, "host:threads=1", NULL) == PH_OK &&
                  PH_NEW(&p, N, ph_device_default_stream(device)) == PH_OK;
        if (ok) {
            ph_free(p, NULL);
            ok = ph_memory_get_stats(&stats, device) == PH_OK && stats.deferred == 0 &&
                 PH_NEW(&again, N, ph_device_default_stream(device)) == PH_OK && again == p;
        }
        _exit(ok ? 0 : 1);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    replay_gives_6(graph);
    ph_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_captures_on_both),
        IN_WORLD(test_memory_of_another_capture),
        IN_WORLD(test_memory_given_again_is_refused),
        IN_WORLD(memory_of_a_closed_device_goes_with_the_graph),
        IN_WORLD(test_in_a_child),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
