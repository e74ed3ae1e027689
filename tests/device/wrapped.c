/* SPDX-License-Identifier: MIT */
/* tests/device/wrapped.c: streams of the user's, and that nothing touches one after its wrapper
 * is gone. The host device has none: there a table in front of its driver's takes its own for
 * such. */
#include "support/fault.h"
#include "support/fixture.h"
#include "support/support.h"

#include "device/wrap_cuda.h"
#include <phonograph/cuda.h>
#include <string.h>

enum {
    N = 1000
};
static t_world world;
static ph__drv_stream *theirs; /* the user's */
static ph_stream *stream;      /* its wrapper */
static int32_t *x;
static ph__driver table;
static const ph__driver *real;

static int wrap_own(ph__drv_stream **out, ph__drv_device *device, void *native, int *priority,
                    int *flags)
{
    (void)device;
    *out = native;
    *priority = 0;
    *flags = PH__STREAM_NON_BLOCKING;
    return 0;
}

static void destroy_others(ph__drv_stream *handle)
{
    if (handle != theirs)
        real->stream_destroy(handle);
}

static const t_fixture fixture = {.world = &world, .arrays = {{&x, N, T_INTS, 0}}};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    real = world.device->driver;
    assert_int_equal(real->stream_create(&theirs, world.device->handle, PH__STREAM_NON_BLOCKING, 0),
                     0);
    if (t_on_host()) {
        table = *real;
        table.stream_wrap = wrap_own;
        table.stream_destroy = destroy_others;
        world.device->driver = &table;
        assert_ok(ph__stream_wrap(&stream, ph_device_retain(world.device), theirs, "wrap"));
    } else {
        assert_ok(ph_stream_wrap_cuda(&stream, real->stream_native(theirs)));
    }
    return 0;
}

/* The wrapper first, then the stream: from here on any use of it is a fault. */
static void drop(void)
{
    ph_stream_destroy(stream);
    stream = NULL;
    if (theirs)
        real->stream_destroy(theirs);
    theirs = NULL;
}

FIXTURE(close_world)
{
    drop();
    t_fixture_close(&fixture);
    return 0;
}

static ph_status add_one(ph_stream *on, void *user)
{
    (void)user;
    return t_add(&world, on, x, x, N, 1);
}

static size_t waiting(void)
{
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, world.device));
    return stats.deferred;
}

TEST(test_is_a_stream_like_any)
{
    int32_t *p;
    struct CUstream_st *native;
    assert_ptr_equal(ph_stream_device(stream), world.device); /* the oldest that is open */
    assert_int_equal(ph_stream_priority(stream), 0);
    assert_false(ph_stream_is_capturing(stream));
    assert_ok(PH_NEW(&p, N, stream));
    assert_ok(t_fill(&world, stream, p, N, 5));
    t_all(p, N, 5, stream);
    ph_free(p, stream);
    if (!t_on_host()) {
        assert_ok(ph_stream_cuda(&native, stream));
        assert_ptr_equal(native, real->stream_native(theirs));
    }
}

TEST(test_captures_on_it)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture(graph, stream, NULL, add_one, NULL));
    assert_ok(ph_graph_replay(graph, stream));
    drop();
    assert_ok(ph_graph_replay(graph, world.stream)); /* behind the one on the stream that is gone */
    t_all(x, N, 2, world.stream);
    ph_graph_destroy(graph);
}

TEST(test_destroyed_under_a_capture)
{
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, stream, NULL));
    assert_ok(add_one(stream, NULL));
    drop();
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_FAILED);
    assert_error(ph_graph_capture_end(graph, PH_OK), PH_ERROR_CAPTURE, "ph_stream_destroy");
    ph_graph_destroy(graph);
}

TEST(test_blocks_outlive_it)
{
    int32_t *p, *q;
    assert_ok(PH_NEW(&p, N, stream));
    assert_ok(t_add(&world, stream, x, p, N, 7));
    drop();
    assert_ok(ph_device_synchronize(world.device));
    t_all(p, N, 7, world.stream);
    ph_free(p, NULL);
    assert_ok(ph_memory_trim(world.device));
    assert_ok(PH_NEW(&q, N, world.stream));
    ph_free(q, world.stream);
}

/* What was submitted to the stream is still waited for, after it is gone. */
TEST(test_uses_outlive_it)
{
    int32_t *p;
    t_gate gate = {0};
    assert_ok(PH_NEW(&p, N, world.stream));
    assert_ok(t_gate_wait(&gate, stream));
    assert_ok(ph_record_stream(p, stream));
    ph_stream_destroy(stream);
    stream = NULL;
    ph_free(p, world.stream);
    assert_int_equal(waiting(), 1);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_int_equal(waiting(), 1);
    t_gate_open(&gate);
    drop();
    assert_ok(ph_device_synchronize(world.device));
    assert_int_equal(waiting(), 0);
}

static void note(void *object)
{
    ++*(int *)object;
}

TEST(test_retained_objects_wait_for_it)
{
    int released = 0;
    ph_graph *graph;
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_retain(graph, note, &released, true));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    assert_ok(ph_graph_replay(graph, stream));
    drop();
    ph_graph_destroy(graph);
    assert_int_equal(released, 1);
    t_all(x, N, 1, world.stream);
}

TEST(test_two_wrappers)
{
    ph_stream *second;
    int32_t *p;
    if (t_on_host())
        assert_ok(ph__stream_wrap(&second, ph_device_retain(world.device), theirs, "wrap"));
    else
        assert_ok(ph_stream_wrap_cuda(&second, real->stream_native(theirs)));
    assert_ok(add_one(stream, NULL));
    assert_ok(PH_NEW(&p, N, second));
    assert_ok(t_add(&world, second, x, p, N, 0));
    t_all(p, N, 1, second);
    ph_stream_destroy(second);
    assert_ok(add_one(stream, NULL));
    ph_free(p, stream);
    t_all(x, N, 2, stream);
}

/* A driver that fails while another stream is put in its place: then its work is waited for. */
TEST(test_failing_replacement)
{
    for (int64_t n = 0; n < 5; n++) {
        int32_t *p;
        assert_ok(PH_NEW(&p, N, stream));
        assert_ok(t_fill(&world, stream, p, N, 3));
        ph__driver_fail_after(n, 999);
        drop();
        ph__driver_fail_after(-1, 0);
        assert_ok(ph_device_synchronize(world.device));
        t_all(p, N, 3, world.stream);
        ph_free(p, NULL);
        assert_ok(ph_memory_trim(world.device));
        assert_int_equal(
            real->stream_create(&theirs, world.device->handle, PH__STREAM_NON_BLOCKING, 0), 0);
        if (t_on_host())
            assert_ok(ph__stream_wrap(&stream, ph_device_retain(world.device), theirs, "wrap"));
        else
            assert_ok(ph_stream_wrap_cuda(&stream, real->stream_native(theirs)));
    }
}

/* Captured by the user's own calls while it is wrapped, and still when the wrapper goes. */
TEST(test_wrapped_while_it_captures)
{
    ph_stream *second;
    ph__drv_graph *template = NULL;
    void *p;
    if (t_on_host())
        assert_ok(ph__stream_wrap(&second, ph_device_retain(world.device), theirs, "wrap"));
    else
        assert_ok(ph_stream_wrap_cuda(&second, real->stream_native(theirs)));
    assert_int_equal(real->capture_begin(theirs, PH_CAPTURE_RELAXED), 0);
    if (!t_on_host()) {
        ph_stream *third;
        assert_error(ph_stream_wrap_cuda(&third, real->stream_native(theirs)), PH_ERROR_CAPTURE,
                     "capturing");
        assert_native(900);
    }
    assert_true(ph_stream_is_capturing(second));
    assert_ok(add_one(second, NULL));
    assert_status(ph_malloc(&p, 1, 512, second), PH_ERROR_CAPTURE);
    assert_status(ph_stream_synchronize(second), PH_ERROR_CAPTURE);
    ph_stream_destroy(second);
    assert_int_equal(real->capture_end(&template, theirs), 0);
    ph__drv_node *const *nodes;
    size_t count;
    assert_int_equal(real->graph_nodes(&nodes, &count, template), 0);
    assert_int_equal(count, 1);
    real->graph_destroy(template);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_is_a_stream_like_any),
        IN_WORLD(test_captures_on_it),
        IN_WORLD(test_destroyed_under_a_capture),
        IN_WORLD(test_blocks_outlive_it),
        IN_WORLD(test_uses_outlive_it),
        IN_WORLD(test_retained_objects_wait_for_it),
        IN_WORLD(test_two_wrappers),
        IN_WORLD(test_failing_replacement),
        IN_WORLD(test_wrapped_while_it_captures),
    };
    return cmocka_run_group_tests_name("device.wrapped", tests, NULL, NULL);
}
