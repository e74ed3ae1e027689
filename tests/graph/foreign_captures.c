/* SPDX-License-Identifier: MIT */
/* tests/graph/foreign_captures.c: captures that other code began, and whose memory comes from a
 * pool. They are begun, ended and launched straight at the driver. */
#include "support/fault.h"
#include "support/fixture.h"

#include "device/handles/device.h"
#include <phonograph/foreign.h>
#include <pthread.h>

enum {
    N = 1000
};
static t_world world;
static ph_stream *side;
static ph_pool *pool;
static ph_graph *graph;
static int32_t *x;

WORLD(world, .streams = {&side}, .pool = &pool, .graphs = {&graph}, .arrays = {{&x, N, T_INTS, 1}});

static const ph__driver *driver(void)
{
    return world.device->driver;
}

static void begin(ph_stream *stream)
{
    assert_int_equal(driver()->capture_begin(stream->handle, PH_CAPTURE_GLOBAL), 0);
}

static ph__drv_graph *end(ph_stream *stream)
{
    ph__drv_graph *template = NULL;
    assert_int_equal(driver()->capture_end(&template, stream->handle), 0);
    assert_non_null(template);
    return template;
}

static void run(ph__drv_graph *template, int times)
{
    ph__drv_exec *exec = NULL;
    ph__drv_node *failed;
    assert_int_equal(driver()->instantiate(&exec, template, 0, &failed), 0);
    for (int i = 0; i < times; i++)
        assert_int_equal(driver()->exec_launch(exec, world.stream->handle), 0);
    assert_ok(ph_stream_synchronize(world.stream));
    driver()->exec_destroy(exec);
    driver()->graph_destroy(template);
}

static int32_t *allocate(ph_stream *stream)
{
    int32_t *p;
    assert_ok(ph_malloc(&p, N, sizeof *p, stream));
    assert_non_null(p);
    return p;
}

static ph_pool *pool_of(const void *address)
{
    ph_allocation found;
    assert_ok(ph_memory_lookup(&found, world.device, address));
    return found.pool;
}

static size_t reserved(void)
{
    ph_memory_stats stats;
    assert_ok(ph_pool_stats(&stats, pool));
    return stats.reserved;
}

/* y = x + 1, z = y + 1, by two blocks of the capture; the second takes the first one's place when
 * that is free. */
TEST(test_memory_of_the_capture_comes_from_the_pool)
{
    int32_t *outside = allocate(world.stream);
    begin(world.stream);
    int32_t *p;
    ph_capture_info info;
    assert_ok(ph_stream_get_capture_info(&info, world.stream)); /* now the library knows of it */
    assert_error(ph_malloc(&p, 1, 4096, world.stream), PH_ERROR_CAPTURE, "ph_pool_capture_begin");
    assert_ok(ph_pool_capture_begin(pool, world.stream));
    int32_t *y = allocate(world.stream);
    assert_ptr_equal(pool_of(y), pool);
    assert_ok(t_add(&world, world.stream, x, y, N, 1));
    int32_t *z = allocate(world.stream);
    assert_ptr_equal(pool_of(z), pool);
    assert_ok(t_add(&world, world.stream, y, z, N, 1));
    ph_free(y, world.stream);
    int32_t *again = allocate(world.stream);
    assert_ptr_equal(again, y); /* in the order of the graph */
    assert_ok(t_add(&world, world.stream, z, again, N, 1));
    ph_free(again, world.stream);
    int32_t *beside = allocate(side); /* another stream is in no capture */
    assert_null(pool_of(beside));
    ph_free(beside, side);
    ph__drv_graph *template = end(world.stream);
    assert_ok(ph_pool_capture_end(pool));
    assert_null(pool_of(outside));
    int32_t *after = allocate(world.stream);
    assert_null(pool_of(after));
    ph_free(after, world.stream);
    run(template, 2);
    t_all(z, N, 3, world.stream);
    ph_free(z, world.stream);
    ph_free(outside, world.stream);
    assert_ok(ph_pool_capture_release(pool));
}

/* A stream that joined, pinned memory, another thread. */
static void *allocate_on_a_thread(void *user)
{
    int32_t **out = user;
    *out = allocate(world.stream);
    return NULL;
}

TEST(test_all_of_the_capture_is_routed)
{
    ph_event *fork, *join;
    pthread_t thread;
    int32_t *pinned, *by_thread = NULL;
    assert_ok(ph_event_create(&fork, world.device, NULL));
    assert_ok(ph_event_create(&join, world.device, NULL));
    begin(world.stream);
    assert_ok(ph_pool_capture_begin(pool, world.stream));
    assert_ok(ph_event_record(fork, world.stream));
    assert_ok(ph_stream_wait_event(side, fork));
    int32_t *on_side = allocate(side);
    assert_ptr_equal(pool_of(on_side), pool);
    assert_ok(t_add(&world, side, x, on_side, N, 4));
    assert_ok(ph_event_record(join, side));
    assert_ok(ph_stream_wait_event(world.stream, join));
    assert_int_equal(pthread_create(&thread, NULL, allocate_on_a_thread, &by_thread), 0);
    pthread_join(thread, NULL);
    assert_ptr_equal(pool_of(by_thread), pool);
    assert_ok(ph_malloc_pinned(&pinned, N, sizeof *pinned, world.stream));
    assert_ptr_equal(pool_of(pinned), pool);
    assert_ok(ph_memcpy(pinned, on_side, N * sizeof *pinned, world.stream));
    ph__drv_graph *template = end(world.stream);
    assert_ok(ph_pool_capture_end(pool));
    run(template, 1);
    assert_int_equal(pinned[N - 1], 5);
    ph_free_pinned(pinned, world.stream);
    ph_free(by_thread, world.stream);
    ph_free(on_side, side);
    assert_ok(ph_pool_capture_release(pool));
    ph_event_destroy(fork);
    ph_event_destroy(join);
}

/* What the capture freed is not lent while its graph may replay. */
TEST(test_the_pool_is_held_until_the_release)
{
    int32_t *y;
    size_t uses = ph_pool_use_count(pool);
    begin(world.stream);
    assert_ok(ph_pool_capture_begin(pool, world.stream));
    y = allocate(world.stream);
    assert_ok(t_add(&world, world.stream, x, y, N, 1));
    ph_free(y, world.stream);
    ph__drv_graph *template = end(world.stream);
    assert_ok(ph_pool_capture_end(pool));
    assert_int_equal(ph_pool_use_count(pool), uses + 1);
    size_t before = reserved();
    assert_true(before > 0);
    assert_ok(ph_pool_trim(pool));
    assert_ok(ph_memory_trim(world.device));
    assert_int_equal(reserved(), before);
    /* A later capture in the pool is given what is free there. */
    begin(world.stream);
    assert_ok(ph_pool_capture_begin(pool, world.stream));
    int32_t *second = allocate(world.stream);
    assert_ptr_equal(second, y);
    assert_ok(t_add(&world, world.stream, x, second, N, 2));
    ph__drv_graph *other = end(world.stream);
    assert_ok(ph_pool_capture_end(pool));
    run(template, 1);
    t_all(second, N, 2, world.stream);
    run(other, 1);
    t_all(second, N, 3, world.stream);
    ph_free(second, world.stream);
    assert_ok(ph_pool_capture_release(pool));
    assert_int_equal(reserved(), before);
    assert_ok(ph_pool_capture_release(pool));
    assert_int_equal(ph_pool_use_count(pool), uses);
    assert_ok(ph_pool_trim(pool));
    assert_int_equal(reserved(), 0);
}

/* Eager memory that is freed during the capture waits for its end, as the capture may use it. */
TEST(test_memory_of_elsewhere_waits_for_the_end)
{
    begin(world.stream);
    assert_ok(ph_pool_capture_begin(pool, world.stream));
    int32_t *eager = allocate(side);
    assert_ok(t_add(&world, world.stream, x, eager, N, 1));
    ph_free(eager, side);
    int32_t *next = allocate(side);
    assert_ptr_not_equal(next, eager);
    assert_ok(ph_memory_trim(world.device)); /* put off */
    ph_free(next, side);
    driver()->graph_destroy(end(world.stream));
    assert_ok(ph_pool_capture_end(pool));
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, world.device));
    assert_int_equal(stats.deferred, 0);
    assert_ok(ph_pool_capture_release(pool));
}

/* The recording is ended all the same, and the pool is as before. */
TEST(test_a_capture_that_broke)
{
    begin(world.stream);
    assert_ok(ph_pool_capture_begin(pool, world.stream));
    int32_t *y = allocate(world.stream);
    driver()->capture_drop(world.stream->handle);
    assert_ok(ph_pool_capture_end(pool));
    assert_ok(ph_pool_capture_release(pool));
    assert_ok(t_add(&world, world.stream, x, y, N, 1));
    assert_ok(ph_stream_synchronize(world.stream));
    ph_free(y, world.stream);
    assert_ok(ph_pool_trim(pool));
    assert_int_equal(reserved(), 0);
}

static ph_status add_one(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, x, x, N, 1);
}

/* Also where the one before was on the same stream, with nothing between them. */
TEST(test_replays_within_the_capture_become_child_graphs)
{
    ph_capture_info info;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    for (int i = 0; i < 2; i++)
        assert_ok(ph_graph_replay(graph, world.stream));
    begin(world.stream);
    assert_ok(ph_stream_get_capture_info(&info, world.stream)); /* now the library knows of it */
    driver()->graph_destroy(end(world.stream));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 4, world.stream);
    begin(world.stream);
    for (int i = 0; i < 2; i++)
        assert_ok(ph_graph_replay(graph, world.stream));
    ph__drv_graph *template = end(world.stream);
    t_all(x, N, 4, world.stream);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 5, world.stream);
    run(template, 2);
    t_all(x, N, 9, world.stream);
}

static void begin_there(void *stream)
{
    begin(stream);
}

TEST(test_a_replay_sees_a_capture_that_begins_within_it)
{
    ph_capture_info info;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    begin(world.stream);
    assert_ok(ph_stream_get_capture_info(&info, world.stream));
    driver()->graph_destroy(end(world.stream));
    ph__driver_before("exec_relaunch", begin_there, world.stream);
    assert_ok(ph_graph_replay(graph, world.stream));
    ph__drv_graph *template = end(world.stream);
    t_all(x, N, 2, world.stream);
    run(template, 1);
    t_all(x, N, 3, world.stream);
}

TEST(test_misuse_is_refused)
{
    ph_pool *second;
    assert_status(ph_pool_capture_begin(NULL, world.stream), PH_ERROR_ARGUMENT);
    assert_status(ph_pool_capture_begin(pool, NULL), PH_ERROR_ARGUMENT);
    assert_error(ph_pool_capture_begin(pool, world.stream), PH_ERROR_STATE, "in no capture");
    assert_status(ph_pool_capture_end(NULL), PH_ERROR_ARGUMENT);
    assert_error(ph_pool_capture_end(pool), PH_ERROR_STATE, "no capture of other code");
    assert_status(ph_pool_capture_release(NULL), PH_ERROR_ARGUMENT);
    assert_status(ph_pool_capture_release(pool), PH_ERROR_STATE);
    const ph_capture_options options = {.pool = pool};
    assert_ok(ph_graph_capture_begin(graph, world.stream, &options));
    assert_error(ph_pool_capture_begin(pool, world.stream), PH_ERROR_STATE,
                 "this library began the capture");
    assert_status(ph_pool_capture_end(pool), PH_ERROR_STATE);
    assert_ok(add_one(world.stream, NULL));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_pool_create(&second, world.device, NULL));
    begin(world.stream);
    assert_ok(ph_pool_begin(second));
    assert_status(ph_pool_capture_begin(second, world.stream), PH_ERROR_POOL_BUSY);
    assert_ok(ph_pool_end(second));
    assert_ok(ph_pool_capture_begin(pool, world.stream));
    assert_status(ph_pool_capture_begin(pool, world.stream), PH_ERROR_STATE);
    assert_error(ph_pool_capture_begin(second, world.stream), PH_ERROR_STATE, "has a pool");
    assert_status(ph_pool_begin(pool), PH_ERROR_POOL_BUSY);
    assert_status(ph_pool_capture_release(pool), PH_ERROR_STATE); /* open */
    begin(side);
    assert_status(ph_pool_capture_begin(pool, side), PH_ERROR_POOL_BUSY);
    driver()->graph_destroy(end(side));
    driver()->graph_destroy(end(world.stream));
    assert_ok(ph_pool_capture_end(pool));
    assert_status(ph_pool_capture_end(pool), PH_ERROR_STATE);
    assert_ok(ph_pool_capture_release(pool));
    assert_status(ph_pool_capture_release(pool), PH_ERROR_STATE);
    ph_pool_release(second);
    ph_device *other;
    ph_pool *far;
    assert_ok(ph_device_open(&other, t_device_name(), NULL));
    assert_ok(ph_pool_create(&far, other, NULL));
    begin(world.stream);
    assert_status(ph_pool_capture_begin(far, world.stream), PH_ERROR_WRONG_DEVICE);
    driver()->graph_destroy(end(world.stream));
    ph_pool_release(far);
    ph_device_release(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_memory_of_the_capture_comes_from_the_pool),
        IN_WORLD(test_all_of_the_capture_is_routed),
        IN_WORLD(test_the_pool_is_held_until_the_release),
        IN_WORLD(test_memory_of_elsewhere_waits_for_the_end),
        IN_WORLD(test_a_capture_that_broke),
        IN_WORLD(test_replays_within_the_capture_become_child_graphs),
        IN_WORLD(test_a_replay_sees_a_capture_that_begins_within_it),
        IN_WORLD(test_misuse_is_refused),
    };
    return cmocka_run_group_tests_name("graph.foreign_captures", tests, NULL, NULL);
}
