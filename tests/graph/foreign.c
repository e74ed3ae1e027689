/* SPDX-License-Identifier: MIT */
/* tests/graph/foreign.c: captures that this library did not begin: what is recorded, what is
 * refused, and that they survive whatever is called here. They are begun straight at the driver. */
#include "support/fixture.h"

#include "device/handles/device.h"
#include "device/handles/event.h"
#include <string.h>

enum {
    N = 1000
};
static t_world world;
static ph_stream *side;
static ph_graph *graph;
static int32_t *x;

WORLD(world, .streams = {&side}, .graphs = {&graph}, .arrays = {{&x, N, T_INTS, 1}});

static const ph__driver *driver(void)
{
    return world.device->driver;
}

/* Asking for a stream's capture is how the library comes to know that there are such captures
 * here. */
static void begin(ph_stream *stream)
{
    ph_capture_info info;
    assert_int_equal(driver()->capture_begin(stream->handle, PH_CAPTURE_GLOBAL), 0);
    assert_ok(ph_stream_get_capture_info(&info, stream));
    assert_int_equal(info.status, PH_CAPTURE_ACTIVE);
    assert_true(ph_stream_is_capturing(stream));
}

static ph__drv_graph *end(ph_stream *stream)
{
    ph__drv_graph *template = NULL;
    assert_int_equal(driver()->capture_end(&template, stream->handle), 0);
    assert_non_null(template);
    assert_false(ph_stream_is_capturing(stream));
    return template;
}

static size_t node_count(ph__drv_graph *template)
{
    ph__drv_node *const *nodes;
    size_t count;
    assert_int_equal(driver()->graph_nodes(&nodes, &count, template), 0);
    return count;
}

/* What the graph's owner does with it. */
static void run(ph__drv_graph *template, int times)
{
    ph__drv_exec *exec = NULL;
    ph__drv_node *failed;
    assert_int_equal(driver()->instantiate(&exec, template, 0, &failed), 0);
    for (int i = 0; i < times; i++)
        assert_int_equal(driver()->exec_launch(exec, world.stream->handle), 0);
    assert_ok(ph_stream_synchronize(world.stream));
    driver()->exec_destroy(exec);
}

static void finish(ph_stream *stream, size_t nodes)
{
    ph__drv_graph *template = end(stream);
    assert_int_equal(node_count(template), nodes);
    driver()->graph_destroy(template);
}

static ph_status add_one(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, x, x, N, 1);
}

static size_t waiting(void)
{
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, world.device));
    return stats.deferred;
}

/* ---- work ---- */
TEST(test_work_is_recorded)
{
    int32_t *pinned, pageable = 0;
    assert_ok(ph_malloc_pinned(&pinned, N, sizeof *pinned, side));
    begin(world.stream);
    assert_ok(add_one(world.stream, NULL));
    assert_ok(ph_memcpy(pinned, x, N * sizeof *x, world.stream));
    assert_ok(ph_memset_u32(x, 5, N, world.stream));
    assert_error(ph_memcpy(&pageable, x, sizeof pageable, world.stream), PH_ERROR_UNPINNED,
                 "refused before it could harm the capture");
    ph__drv_graph *template = end(world.stream);
    assert_int_equal(node_count(template), 3);
    run(template, 1);
    assert_int_equal(pinned[N - 1], 2);
    t_all(x, N, 5, world.stream);
    driver()->graph_destroy(template);
    ph_free_pinned(pinned, side);
}

/* No graph of ours retains the kernel. */
TEST(test_kernels_stay_loaded)
{
    begin(world.stream);
    assert_ok(add_one(world.stream, NULL));
    ph__drv_graph *template = end(world.stream);
    ph_kernel_release(world.add_i32);
    world.add_i32 = NULL;
    run(template, 3);
    t_all(x, N, 4, world.stream);
    driver()->graph_destroy(template);
}

TEST(test_replay_becomes_a_node)
{
    ph_graph *other;
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    assert_ok(ph_graph_capture(other, side, NULL, add_one, NULL));
    begin(world.stream);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_replay(other, side)); /* an ordinary one beside it */
    assert_int_equal(ph_graph_epoch(graph), 0);
    ph__drv_graph *template = end(world.stream);
    assert_ok(ph_stream_synchronize(side));
    assert_int_equal(node_count(template), 2);
    ph_kernel_release(world.add_i32);
    world.add_i32 = NULL;
    run(template, 2);
    t_all(x, N, 6, world.stream);
    driver()->graph_destroy(template);
    ph_graph_destroy(other);
}

TEST(test_forks_and_joins)
{
    void *p;
    begin(world.stream);
    assert_ok(add_one(world.stream, NULL));
    assert_ok(ph_stream_wait_stream(side, world.stream));
    assert_true(ph_stream_is_capturing(side));
    assert_ok(add_one(side, NULL));
    assert_status(ph_malloc(&p, 1, 512, side), PH_ERROR_CAPTURE);
    assert_status(ph_stream_synchronize(side), PH_ERROR_CAPTURE);
    assert_ok(ph_stream_wait_stream(world.stream, side));
    assert_status(ph_stream_wait_stream(ph_device_default_stream(world.device), world.stream),
                  PH_ERROR_CAPTURE);
    assert_native(906);
    ph__drv_graph *template = end(world.stream);
    assert_int_equal(node_count(template), 2);
    run(template, 1);
    t_all(x, N, 3, world.stream);
    driver()->graph_destroy(template);
    assert_false(ph_stream_is_capturing(side));
    assert_ok(ph_malloc(&p, 1, 512, side));
    ph_free(p, side);
}

TEST(an_event_of_a_foreign_capture_is_refused)
{
    bool done;
    ph_event *inside, *before;
    assert_ok(ph_event_create(&inside, world.device, NULL));
    assert_ok(ph_event_create(&before, world.device, NULL));
    assert_ok(ph_event_record(before, side));
    begin(world.stream);
    assert_ok(ph_event_record(inside, world.stream));
    assert_error(ph_event_query(&done, inside), PH_ERROR_CAPTURE, "did not begin");
    assert_native(907);
    assert_status(ph_event_synchronize(inside), PH_ERROR_CAPTURE);
    assert_ok(ph_event_synchronize(before)); /* the thread's mode is exchanged */
    assert_error(ph_stream_wait_event(world.stream, before), PH_ERROR_CAPTURE, "did not begin");
    assert_native(905);
    finish(world.stream, 0);
    ph_event_destroy(inside);
    ph_event_destroy(before);
}

/* ---- refusals ---- */
TEST(test_allocations_are_refused)
{
    void *p = x, *cached;
    assert_ok(ph_malloc(&cached, 1, 4096, world.stream));
    ph_free(cached, world.stream); /* one that would fit is cached */
    begin(world.stream);
    assert_error(ph_malloc(&p, 1, 4096, world.stream), PH_ERROR_CAPTURE,
                 "ph_graph_capture, or allocate before");
    assert_native(900);
    assert_null(p);
    assert_status(ph_malloc_at(&p, cached, 4096, world.stream), PH_ERROR_CAPTURE);
    assert_status(ph_malloc_pinned(&p, 1, 4096, world.stream), PH_ERROR_CAPTURE);
    assert_ok(ph_malloc(&p, 1, 4096, side)); /* other streams go on */
    ph_free(p, side);
    assert_ok(add_one(world.stream, NULL));
    finish(world.stream, 1);
    assert_ok(ph_malloc(&p, 1, 4096, world.stream));
    assert_ptr_equal(p, cached);
    ph_free(p, world.stream);
}

TEST(test_waiting_is_refused)
{
    bool done;
    begin(world.stream);
    assert_error(ph_stream_synchronize(world.stream), PH_ERROR_CAPTURE,
                 "this library did not begin");
    assert_native(900);
    assert_error(ph_stream_query(&done, world.stream), PH_ERROR_CAPTURE,
                 "refused before it could harm the capture");
    assert_native(900);
    assert_ok(ph_stream_synchronize(side));
    assert_ok(ph_stream_query(&done, side));
    assert_ok(ph_memory_trim(world.device));
    finish(world.stream, 0);
}

TEST(test_no_capture_of_ours)
{
    ph_capture_options prepare = {.prepare = true};
    begin(world.stream);
    assert_error(ph_graph_capture_begin(graph, world.stream, NULL), PH_ERROR_CAPTURE,
                 "did not begin");
    assert_native(401);
    assert_status(ph_graph_capture_begin(graph, world.stream, &prepare), PH_ERROR_CAPTURE);
    assert_native(401);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    ph_capture_options relaxed = {.mode = PH_CAPTURE_RELAXED};
    assert_ok(ph_graph_capture(graph, side, &relaxed, add_one, NULL)); /* elsewhere it can */
    finish(world.stream, 0);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 2, world.stream);
}

/* ---- frees ---- */
TEST(test_free_of_an_own_block)
{
    int32_t *p;
    assert_ok(PH_NEW(&p, N, world.stream));
    begin(world.stream);
    assert_ok(t_add(&world, world.stream, x, p, N, 1));
    ph_free(p, world.stream);
    assert_int_equal(waiting(), 0);
    finish(world.stream, 1);
}

/* Freed on the capturing stream, as one that it uses: no event can say when that is over, so it
 * waits for the end. */
TEST(test_free_of_another_streams_block)
{
    int32_t *p, *q;
    assert_ok(PH_NEW(&p, N, side));
    begin(world.stream);
    assert_ok(t_add(&world, world.stream, x, p, N, 1));
    ph_free(p, world.stream);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(waiting(), 1);
        assert_ok(PH_NEW(&q, N, side));
        assert_ptr_not_equal(q, p);
        ph_free(q, side);
    }
    assert_ok(ph_memory_trim(world.device));
    assert_int_equal(waiting(), 1);
    finish(world.stream, 1);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_int_equal(waiting(), 0);
}

/* Ordinary work from before the capture cannot be marked while the stream captures. */
TEST(test_recorded_use_from_before)
{
    int32_t *p;
    t_gate gate = {0};
    assert_ok(PH_NEW(&p, N, side));
    assert_ok(t_gate_wait_guarded(&gate, world.stream));
    assert_ok(t_add(&world, world.stream, x, p, N, 1));
    assert_ok(ph_record_stream(p, world.stream));
    begin(world.stream);
    ph_free(p, side);
    assert_int_equal(waiting(), 1);
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(side));
    assert_int_equal(waiting(), 1);
    finish(world.stream, 0);
    (void)waiting(); /* records the event */
    assert_ok(ph_stream_synchronize(world.stream));
    assert_int_equal(waiting(), 0);
}

TEST(test_free_of_pinned_memory)
{
    int32_t *p, *q;
    assert_ok(ph_malloc_pinned(&p, N, sizeof *p, world.stream));
    assert_ok(ph_malloc_pinned(&q, N, sizeof *q, side));
    begin(world.stream);
    ph_free_pinned(p, world.stream);
    ph_free_pinned(q, world.stream);
    assert_ok(ph_memory_trim(world.device));
    finish(world.stream, 0);
}

TEST(test_poison_stays_out)
{
    t_world poisoned;
    ph_device_options options = {.debug_poison = true};
    int32_t *p;
    t_open_with(&poisoned, &options);
    assert_ok(PH_NEW(&p, N, poisoned.stream));
    const ph__driver *below = poisoned.device->driver;
    ph__drv_graph *template = NULL;
    ph_capture_info info;
    assert_int_equal(below->capture_begin(poisoned.stream->handle, PH_CAPTURE_GLOBAL), 0);
    assert_ok(ph_stream_get_capture_info(&info, poisoned.stream));
    ph_free(p, poisoned.stream);
    assert_int_equal(below->capture_end(&template, poisoned.stream->handle), 0);
    assert_int_equal(node_count(template), 0);
    below->graph_destroy(template);
    t_close(&poisoned);
}

/* ---- replays ---- the last one from the pool ran on a stream that is captured now: nothing can
 * be put behind it. */
static ph_status with_memory(ph_stream *stream, void *user)
{
    (void)user;
    int32_t *p;
    PH_TRY(PH_NEW(&p, N, stream));
    PH_TRY(t_add(&world, stream, x, p, N, 1));
    PH_TRY(t_add(&world, stream, p, x, N, 0));
    ph_free(p, stream);
    return PH_OK;
}

TEST(test_order_behind_a_captured_stream)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, with_memory, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    begin(world.stream);
    assert_error(ph_graph_replay(graph, side), PH_ERROR_CAPTURE,
                 "the last replay from the same pool");
    assert_native(900);
    finish(world.stream, 0);
    assert_ok(ph_graph_replay(graph, side));
    t_all(x, N, 3, side);
}

static void release(void *object)
{
    ++*(int *)object;
}

TEST(test_reset_beside_it)
{
    int released = 0;
    assert_ok(ph_graph_retain(graph, release, &released, true));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, with_memory, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    begin(world.stream);
    assert_ok(ph_graph_reset(graph));
    assert_int_equal(released, 1);
    finish(world.stream, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_work_is_recorded),
        IN_WORLD(test_kernels_stay_loaded),
        IN_WORLD(test_replay_becomes_a_node),
        IN_WORLD(test_forks_and_joins),
        IN_WORLD(an_event_of_a_foreign_capture_is_refused),
        IN_WORLD(test_allocations_are_refused),
        IN_WORLD(test_waiting_is_refused),
        IN_WORLD(test_no_capture_of_ours),
        IN_WORLD(test_free_of_an_own_block),
        IN_WORLD(test_free_of_another_streams_block),
        IN_WORLD(test_recorded_use_from_before),
        IN_WORLD(test_free_of_pinned_memory),
        IN_WORLD(test_poison_stays_out),
        IN_WORLD(test_order_behind_a_captured_stream),
        IN_WORLD(test_reset_beside_it),
    };
    return cmocka_run_group_tests_name("graph.foreign", tests, NULL, NULL);
}
