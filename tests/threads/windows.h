/* SPDX-License-Identifier: MIT */
/* tests/threads/windows.h: what the tests of captures beside submissions share: a graph, memory and
 * one kernel for each test. */
#ifndef PH_TESTS_THREADS_WINDOWS_H
#define PH_TESTS_THREADS_WINDOWS_H
#include "base/sync.h"
#include "support/fault.h"
#include "support/support.h"
#include "support/test.h"
#include <sched.h>
#include <string.h>

enum {
    N = 1024,
    BYTES = N * sizeof(int32_t)
};

static t_world world;
static ph_graph *graph;
static int32_t *x;

FIXTURE(open_world)
{
    t_open(&world, NULL);
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(t_fill(&world, world.stream, x, N, 1));
    assert_ok(ph_stream_synchronize(world.stream));
    t_log_start();
    return 0;
}

FIXTURE(close_world)
{
    t_log_stop();
    ph_graph_destroy(graph);
    ph_free(x, NULL);
    t_close(&world);
    return 0;
}

static inline ph_status add_one(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, x, x, N, 1);
}

static inline ph_graph *make_one(void)
{
    ph_graph *one;
    assert_ok(ph_graph_create(&one, NULL));
    assert_ok(ph_graph_capture(one, world.stream, NULL, add_one, NULL));
    return one;
}

static inline size_t pinned_kept(void)
{
    ph_graph_memory memory;
    assert_ok(ph_graph_get_memory(&memory, graph));
    return memory.pinned;
}

#endif
