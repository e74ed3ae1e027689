/* SPDX-License-Identifier: MIT */
/* tests/memory/pinned_left.c: pinned memory of a pool that goes: no call waits for work on other
 * streams, and later requests get the memory. */
#include "support/fixture.h"
#include "support/support.h"

#include <stdatomic.h>
#include <unistd.h>

enum {
    N = 100,
    BYTES = 4096,
    PATIENCE = 5000 /* milliseconds until work goes on that its caller has not let go on */
};
static t_world world;
static ph_graph *graph, *other;
static ph_stream *side;
static int32_t *x;

static const t_fixture fixture = {.world = &world,
                                  .streams = {&side},
                                  .graphs = {&graph, &other},
                                  .arrays = {{&x, N, T_INTS, 0}},
                                  .leaves_nothing = true};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    return 0;
}

FIXTURE(close_world)
{
    t_fixture_close(&fixture);
    return 0;
}

/* ---- work of a stream that goes on when its caller says so ---- */
static atomic_bool goes_on, is_late;

static void hold_stream(void *unused)
{
    (void)unused;
    for (int i = 0; i < PATIENCE && !atomic_load(&goes_on); i++)
        (void)usleep(1000);
    atomic_store(&is_late, !atomic_load(&goes_on));
}

static void hold_side(void)
{
    assert_ok(ph_device_synchronize(world.device));
    atomic_store(&goes_on, false);
    atomic_store(&is_late, false);
    assert_ok(ph_launch_host(side, hold_stream, NULL));
}

static void let_side_go_on(void)
{
    bool late = atomic_load(&is_late);
    atomic_store(&goes_on, true);
    assert_ok(ph_device_synchronize(world.device));
    if (!t_launches_wait())
        assert_false(late);
}

/* ---- */
static ph_status body(ph_stream *stream, void *user)
{
    void *pinned;
    (void)user;
    PH_TRY(ph_malloc_pinned(&pinned, BYTES, 1, stream));
    PH_TRY(t_fill(&world, stream, x, N, 1));
    ph_free_pinned(pinned, stream);
    return PH_OK;
}

static ph_status copy(ph_stream *stream, void *user)
{
    int32_t *pinned;
    (void)user;
    PH_TRY(ph_malloc_pinned(&pinned, N, sizeof *pinned, stream));
    PH_TRY(ph_memcpy(pinned, x, N * sizeof *pinned, stream));
    ph_free_pinned(pinned, stream);
    return PH_OK;
}

static size_t reserved(void)
{
    ph_memory_stats stats;
    assert_ok(ph_memory_get_stats(&stats, world.device));
    return stats.pinned_reserved;
}

TEST(test_a_graph_that_goes_waits_for_no_other_stream)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    assert_ok(ph_graph_capture(other, world.stream, NULL, body, NULL));
    hold_side();
    assert_ok(ph_graph_reset(graph));
    ph_graph_destroy(other);
    other = NULL;
    let_side_go_on();
}

TEST(test_a_capture_that_is_given_up_waits_for_no_other_stream)
{
    hold_side();
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(body(world.stream, NULL));
    ph_graph_capture_abort(graph);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(body(world.stream, NULL));
    assert_status(ph_graph_capture_end(graph, PH_ERROR_CALLER), PH_ERROR_CALLER);
    let_side_go_on();
}

TEST(test_a_pool_that_goes_waits_for_no_other_stream)
{
    ph_pool *pool;
    void *pinned;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(ph_pool_begin(pool));
    assert_ok(ph_malloc_pinned(&pinned, BYTES, 1, world.stream));
    ph_free_pinned(pinned, world.stream);
    assert_ok(ph_pool_end(pool));
    hold_side();
    ph_pool_release(pool);
    let_side_go_on();
}

TEST(test_an_update_waits_for_no_other_stream)
{
    ph_graph *target;
    assert_ok(ph_graph_create(&target, NULL));
    assert_ok(ph_graph_capture(target, world.stream, NULL, body, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    assert_ok(ph_graph_capture(other, world.stream, NULL, body, NULL));
    assert_ok(ph_graph_update(target, graph, NULL));
    assert_ok(ph_graph_reset(graph));
    hold_side();
    assert_ok(ph_graph_update(target, other, NULL));
    let_side_go_on();
    ph_graph_destroy(target);
}

/* What a graph left while a capture was open goes with a later call. */
TEST(test_later_calls_wait_for_no_other_stream)
{
    void *device_memory;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    hold_side();
    assert_ok(ph_graph_capture_begin(other, world.stream, NULL));
    assert_ok(ph_graph_reset(graph));
    assert_ok(t_fill(&world, world.stream, x, N, 1));
    assert_ok(ph_graph_capture_end(other, PH_OK));
    assert_ok(ph_malloc(&device_memory, BYTES, 1, world.stream));
    ph_free(device_memory, world.stream);
    let_side_go_on();
}

TEST(test_later_captures_and_requests_get_the_memory)
{
    ph_memory_stats stats;
    ph_pool *pool;
    size_t first = 0;
    for (int i = 0; i < 20; i++) {
        assert_ok(ph_graph_capture(graph, world.stream, NULL, i % 2 ? body : copy, NULL));
        assert_ok(ph_graph_replay(graph, world.stream));
        assert_ok(ph_stream_synchronize(world.stream));
        assert_ok(ph_graph_pool(&pool, graph));
        assert_ok(ph_pool_stats(&stats, pool));
        assert_int_equal(stats.pinned_reserved, i % 2 ? BYTES : 512);
        assert_ok(ph_graph_reset(graph));
        first = i == 1 ? reserved() : first;
    }
    assert_int_equal(reserved(), first);
    assert_ok(body(world.stream, NULL)); /* of the default pool */
    assert_int_equal(reserved(), first);
    assert_ok(ph_memory_trim(world.device));
    assert_int_equal(reserved(), 0);
}

/* A replay in flight may write it. A driver may wait for that where its executable goes. */
TEST(test_memory_is_for_others_when_the_replays_are_done)
{
    int32_t *own, *before, *after;
    assert_ok(ph_graph_capture_begin(graph, world.stream, NULL));
    assert_ok(ph_malloc_pinned(&own, N, sizeof *own, world.stream));
    assert_ok(ph_memcpy(own, x, N * sizeof *own, world.stream));
    ph_free_pinned(own, world.stream);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    hold_side();
    assert_ok(ph_graph_replay(graph, side));
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_malloc_pinned(&before, N, sizeof *before, world.stream));
    if (!atomic_load(&is_late)) /* neither launch nor reset has waited */
        assert_ptr_not_equal(before, own);
    atomic_store(&goes_on, true);
    assert_ok(ph_device_synchronize(world.device));
    assert_ok(ph_malloc_pinned(&after, N, sizeof *after, world.stream));
    assert_true(before == own || after == own);
    ph_free_pinned(before, world.stream);
    ph_free_pinned(after, world.stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_a_graph_that_goes_waits_for_no_other_stream),
        IN_WORLD(test_a_capture_that_is_given_up_waits_for_no_other_stream),
        IN_WORLD(test_a_pool_that_goes_waits_for_no_other_stream),
        IN_WORLD(test_an_update_waits_for_no_other_stream),
        IN_WORLD(test_later_calls_wait_for_no_other_stream),
        IN_WORLD(test_later_captures_and_requests_get_the_memory),
        IN_WORLD(test_memory_is_for_others_when_the_replays_are_done),
    };
    return cmocka_run_group_tests_name("memory.pinned_left", tests, NULL, NULL);
}
