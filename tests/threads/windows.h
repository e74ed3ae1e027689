/* SPDX-License-Identifier: MIT */
/* tests/threads/windows.h: what the tests of captures beside submissions share: a graph, memory and
 * one kernel for each test. */
#ifndef PH_TESTS_THREADS_WINDOWS_H
#define PH_TESTS_THREADS_WINDOWS_H
#include "base/sync.h"
#include "support/fault.h"
#include "support/fixture.h"
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

WORLD(world, .graphs = {&graph}, .arrays = {{&x, N, T_INTS, 1}}, .log = true);

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
