/* SPDX-License-Identifier: MIT */
/* tests/graph/inputs.h: a graph that is captured with the check of its inputs, and what is told
 * of them. */
#ifndef PH_TESTS_GRAPH_INPUTS_H
#define PH_TESTS_GRAPH_INPUTS_H
#include "support/support.h"

#include "base/alloc.h"
#include "device/handles/device.h"
#include "device/handles/kernel.h"

enum {
    N = 256,
    BYTES = N * sizeof(int32_t)
};
static t_world world;
static ph_graph *graph;
static int32_t *x, *y;
static const ph_capture_options checked = {.check_input_liveness = true, .check_foreign_every = 1};

/* x is 1, y is 0. */
static inline int open_world(void **state)
{
    (void)state;
    t_open(&world, NULL);
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(PH_NEW(&y, N, world.stream));
    assert_ok(t_fill(&world, world.stream, x, N, 1));
    assert_ok(t_fill(&world, world.stream, y, N, 0));
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    return 0;
}

static inline int close_world(void **state)
{
    (void)state;
    ph_graph_destroy(graph);
    ph_free(x, world.stream);
    ph_free(y, world.stream);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

/* ---- of the graph ---- */
static inline size_t count(void)
{
    size_t inputs = SIZE_MAX;
    assert_ok(ph_graph_input_count(&inputs, graph));
    return inputs;
}

static inline ph_input_info input(size_t index)
{
    ph_input_info info;
    assert_ok(ph_graph_input(&info, graph, index));
    return info;
}

static inline void begin(const ph_capture_options *options)
{
    assert_ok(ph_graph_capture_begin(graph, world.stream, options));
}

static inline void end(void)
{
    assert_ok(ph_graph_capture_end(graph, PH_OK));
}

/* ---- memory of other code's: straight from the driver ---- */
static inline int32_t *other_new(void)
{
    void *at = NULL;
    assert_int_equal(world.device->driver->plain_alloc(&at, world.device->handle, BYTES), 0);
    return at;
}

static inline void other_free(int32_t *at)
{
    assert_int_equal(world.device->driver->plain_free(world.device->handle, at), 0);
}
#endif
