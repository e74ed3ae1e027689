/* SPDX-License-Identifier: MIT */
/* tests/graph/held_devices.h: what the tests of memory of a second device handle share: that
 * handle with a stream and a pool, and work on the first one that addresses its memory. */
#ifndef PH_TESTS_GRAPH_HELD_DEVICES_H
#define PH_TESTS_GRAPH_HELD_DEVICES_H
#include "support/fixture.h"

enum {
    N = 1000,
    OTHERS = 6
};
static t_world world;
static ph_device *second;
static ph_stream *there; /* of the second */
static ph_pool *pool;    /* likewise */
static int32_t *out;

static const t_fixture fixture = {
    .world = &world, .arrays = {{&out, N, T_INTS, 0}}, .leaves_nothing = true};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    assert_ok(ph_device_open(&second, t_device_name(), NULL));
    assert_ok(ph_stream_create(&there, second, NULL));
    assert_ok(ph_pool_create(&pool, second, NULL));
    return 0;
}

/* A test may have released the second handle, and set it and what is its own to NULL. */
FIXTURE(close_world)
{
    ph_pool_release(pool);
    if (second)
        t_nothing_is_left(second);
    ph_stream_destroy(there);
    ph_device_release(second);
    t_fixture_close(&fixture);
    return 0;
}

static const ph_capture_options relaxed = {.mode = PH_CAPTURE_RELAXED};

static inline ph_status use(ph_stream *stream, int32_t *p)
{
    PH_TRY(t_fill(&world, stream, p, N, 5));
    return t_add(&world, stream, p, out, N, 1);
}

static inline ph_status from_stream(int32_t **p)
{
    return PH_NEW(p, N, there);
}

static inline void replay_gives_6(ph_graph *graph)
{
    assert_ok(t_fill(&world, world.stream, out, N, 0));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(out, N, 6, world.stream);
}
#endif
