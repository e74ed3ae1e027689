/* SPDX-License-Identifier: MIT */
/* tests/graph/imported.h: what the tests of imports share: a graph that nobody here owns. The host
 * device has none: there a table in front of its driver's takes its own graphs for such. */
#ifndef PH_TESTS_GRAPH_IMPORTED_H
#define PH_TESTS_GRAPH_IMPORTED_H
#include "support/fixture.h"
#include "support/support.h"

#include "device/handles/device.h"
#include "device/handles/kernel.h"
#include <phonograph/cuda.h>

enum {
    N = 1000
};
static t_world world;
static ph_graph *graph;
static int32_t *x;
static ph__driver table;
static const ph__driver *real;

static int take_own(ph__drv_graph **out, ph__drv_device *device, void *native)
{
    (void)device;
    *out = native;
    return 0;
}

static void leave_own(ph__drv_graph *template)
{
    (void)template;
}

static const t_fixture fixture = {
    .world = &world, .graphs = {&graph}, .arrays = {{&x, N, T_INTS, 0}}};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    real = world.device->driver;
    if (t_on_host()) {
        table = *real;
        table.graph_import = take_own;
        table.graph_disown = leave_own;
        world.device->driver = &table;
    }
    return 0;
}

FIXTURE(close_world)
{
    world.device->driver = real;
    t_fixture_close(&fixture);
    return 0;
}

/* x += 1 twice, as a graph that nobody here owns. */
static struct CUgraph_st *make_native_of(int32_t *from, int32_t *to)
{
    const ph__driver *driver = world.device->driver;
    const struct t_add_i32 args = {N, from, to, 1};
    const ph__drv_launch launch = {{4, 1, 1}, {256, 1, 1}, 0, &args, false, false, NULL};
    ph__drv_graph *template = NULL;
    ph__drv_stream *stream = world.stream->handle;
    assert_int_equal(driver->capture_begin(stream, PH_CAPTURE_RELAXED), 0);
    for (int i = 0; i < 2; i++)
        assert_int_equal(driver->launch(stream, world.add_i32->handle, &launch), 0);
    assert_int_equal(driver->capture_end(&template, stream), 0);
    void *native = driver->graph_native(template);
    driver->graph_disown(template);
    return t_on_host() ? (void *)template : native;
}

static struct CUgraph_st *make_native(void)
{
    return make_native_of(x, x);
}

static void destroy_native(struct CUgraph_st *native)
{
    ph__drv_graph *template = NULL;
    assert_int_equal(world.device->driver->graph_import(&template, world.device->handle, native),
                     0);
    world.device->driver->graph_destroy(template);
}
#endif
