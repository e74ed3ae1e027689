/* SPDX-License-Identifier: MIT */
/* tests/support/uploads.h: a graph that fills x with ones and may be made without being
 * uploaded, its executable's size, and what a replay gives. */
#ifndef PH_TESTS_UPLOADS_H
#define PH_TESTS_UPLOADS_H
#include "support/support.h"

#include "base/alloc.h"

enum {
    N = 256
};
static t_world world;
static ph_stream *other;
static int32_t *x;
static const ph_graph_options defer = {.defer_upload = true};

static inline int open_world(void **state)
{
    (void)state;
    t_open(&world, NULL);
    assert_ok(ph_stream_create(&other, world.device, NULL));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    return 0;
}

static inline int close_world(void **state)
{
    (void)state;
    ph_free(x, world.stream);
    ph_stream_destroy(other);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

static inline ph_status ones(ph_stream *stream, void *user)
{
    (void)user;
    return t_fill(&world, stream, x, N, 1);
}

static inline ph_graph *captured(const ph_graph_options *options)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, options));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, ones, NULL));
    return graph;
}

static inline size_t executable_of(ph_graph *graph)
{
    ph_graph_memory memory;
    assert_ok(ph_graph_get_memory(&memory, graph));
    return memory.executable;
}

static inline void assert_replays(ph_graph *graph, ph_stream *stream, int32_t value)
{
    assert_ok(t_fill(&world, stream, x, N, -1));
    assert_ok(ph_graph_replay(graph, stream));
    t_all(x, N, value, stream);
}
#endif
