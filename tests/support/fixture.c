/* SPDX-License-Identifier: MIT */
/* tests/support/fixture.c: opens and closes what a test has around it. */
#include "support/fixture.h"
#include "base/alloc.h"
#include <string.h>

enum {
    STREAMS = sizeof(((t_fixture *)0)->streams) / sizeof(ph_stream **),
    GRAPHS = sizeof(((t_fixture *)0)->graphs) / sizeof(ph_graph **),
    ARRAYS = sizeof(((t_fixture *)0)->arrays) / sizeof(t_array)
};

static void open_array(const t_world *world, const t_array *array)
{
    void *p = NULL;
    assert_ok(ph_malloc(&p, array->count, sizeof(int32_t), world->stream));
    memcpy(array->at, &p, sizeof p);
    if (array->fill == T_INTS)
        assert_ok(t_fill(world, world->stream, p, array->count, (int32_t)array->value));
    if (array->fill == T_FLOATS)
        assert_ok(t_fill_f(world, world->stream, p, array->count, (float)array->value));
}

void t_fixture_open(const t_fixture *fixture)
{
    const ph_graph_options options = {.keep_graph = fixture->keep_graph};
    t_open(fixture->world, NULL);
    ph_device *device = fixture->world->device;
    for (int i = 0; i < STREAMS && fixture->streams[i]; i++)
        assert_ok(ph_stream_create(fixture->streams[i], device, NULL));
    if (fixture->pool)
        assert_ok(ph_pool_create(fixture->pool, device, NULL));
    for (int i = 0; i < GRAPHS && fixture->graphs[i]; i++)
        assert_ok(ph_graph_create(fixture->graphs[i], &options));
    for (int i = 0; i < ARRAYS && fixture->arrays[i].at; i++)
        open_array(fixture->world, &fixture->arrays[i]);
    assert_ok(ph_device_synchronize(device));
    if (fixture->log)
        t_log_start();
}

static void close_array(const t_array *array)
{
    void *p, *none = NULL;
    memcpy(&p, array->at, sizeof p);
    ph_free(p, NULL);
    memcpy(array->at, &none, sizeof none);
}

void t_fixture_close(const t_fixture *fixture)
{
    if (fixture->log)
        t_log_stop();
    for (int i = 0; i < GRAPHS && fixture->graphs[i]; i++) {
        ph_graph_destroy(*fixture->graphs[i]);
        *fixture->graphs[i] = NULL;
    }
    for (int i = 0; i < ARRAYS && fixture->arrays[i].at; i++)
        close_array(&fixture->arrays[i]);
    if (fixture->pool) {
        ph_pool_release(*fixture->pool);
        *fixture->pool = NULL;
    }
    if (fixture->leaves_nothing)
        t_nothing_is_left(fixture->world->device);
    for (int i = 0; i < STREAMS && fixture->streams[i]; i++) {
        ph_stream_destroy(*fixture->streams[i]);
        *fixture->streams[i] = NULL;
    }
    t_close(fixture->world);
    assert_int_equal(ph__alloc_live(), 0);
}

void t_nothing_is_left(ph_device *device)
{
    ph_memory_stats stats;
    assert_ok(ph_device_synchronize(device));
    assert_ok(ph_memory_trim(device));
    assert_ok(ph_memory_get_stats(&stats, device));
    assert_int_equal(stats.allocated, 0);
    assert_int_equal(stats.deferred, 0);
    assert_int_equal(stats.reserved, 0);
    assert_int_equal(stats.pinned, 0);
    assert_int_equal(stats.pinned_reserved, 0);
}

int t_device_open(void **state)
{
    ph_device *device;
    assert_ok(ph_device_open(&device, t_device_name(), NULL));
    *state = device;
    return 0;
}

int t_device_close(void **state)
{
    ph_device_release(*state);
    return 0;
}
