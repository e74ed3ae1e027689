/* SPDX-License-Identifier: MIT */
/* tests/graph/child_pools.c: replays in a capture of graphs that share a pool, with the capture and
 * with each other: no replay of the whole gives what the same calls without the capture do not. */
#include "support/support.h"
#include "support/test.h"
#include <phonograph/graph_cache.h>
#include <phonograph/inspect/races.h>
#include <phonograph/inspect/record.h>

enum {
    N = 256
};
static t_world world;
static ph_stream *other;
static ph_pool *pool;
static ph_graph *first, *second, *outer;
static int32_t *x;

FIXTURE(open_world)
{
    t_open(&world, NULL);
    assert_ok(ph_stream_create(&other, world.device, NULL));
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(PH_NEW(&x, 4 * N, world.stream));
    assert_ok(t_fill(&world, world.stream, x, 4 * N, 0));
    assert_ok(ph_graph_create(&first, NULL));
    assert_ok(ph_graph_create(&second, NULL));
    assert_ok(ph_graph_create(&outer, NULL));
    return 0;
}

FIXTURE(close_world)
{
    ph_graph_destroy(first);
    ph_graph_destroy(second);
    ph_graph_destroy(outer);
    ph_free(x, world.stream);
    ph_pool_release(pool);
    ph_stream_destroy(other);
    t_close(&world);
    return 0;
}

/* Fills memory of its own with a value, and adds nothing to it into a part of x. */
typedef struct work {
    int32_t value;
    int part;
} work;
static const work ones = {1, 0}, twos = {2, 1};

static ph_status fill_by_way(ph_stream *stream, void *user)
{
    const work *a = user;
    int32_t *own;
    PH_TRY(PH_NEW(&own, N, stream));
    PH_TRY(t_fill(&world, stream, own, N, a->value));
    PH_TRY(t_add(&world, stream, own, x + (ptrdiff_t)a->part * N, N, 0));
    ph_free(own, stream);
    return PH_OK;
}

static void capture_into(ph_graph *graph, ph_pool *into, const work *a)
{
    assert_ok(ph_graph_capture(graph, world.stream, &(ph_capture_options){.pool = into},
                               fill_by_way, (void *)(uintptr_t)a));
}

static void expect_part(int part, int32_t value)
{
    t_all(x + (ptrdiff_t)part * N, N, value, world.stream);
}

static void expect_no_race(void)
{
    ph_races *races;
    size_t certain;
    assert_ok(ph_graph_find_races(&races, outer));
    assert_int_equal(ph_races_count(races, &certain), 0);
    ph_races_destroy(races);
}

/* ---- memory that the capture has ---- */
typedef enum when {
    HELD,  /* its own memory is in use around the replay */
    FREED, /* it is freed before */
    ALLOCATED_LATER
} when;

static ph_status around(ph_stream *stream, void *user)
{
    const when how = *(const when *)user;
    int32_t *own = NULL;
    if (how != ALLOCATED_LATER) {
        PH_TRY(PH_NEW(&own, N, stream));
        PH_TRY(t_fill(&world, stream, own, N, 50));
    }
    if (how == FREED)
        ph_free(own, stream);
    PH_TRY(ph_graph_replay(first, stream));
    if (how != HELD) {
        PH_TRY(PH_NEW(&own, N, stream));
        PH_TRY(t_fill(&world, stream, own, N, 50));
    }
    PH_TRY(t_add(&world, stream, own, x + (ptrdiff_t)3 * N, N, 0));
    ph_free(own, stream);
    return PH_OK;
}

TEST(memory_that_the_capture_has_is_not_written_over)
{
    capture_into(first, pool, &ones);
    for (when how = HELD; how <= ALLOCATED_LATER; how++) {
        const ph_capture_options options = {.pool = pool};
        if (how == HELD) {
            assert_error(ph_graph_capture(outer, world.stream, &options, around, &how),
                         PH_ERROR_STATE, "which it was given by the pool that both share");
            assert_ok(ph_graph_reset(outer));
            continue;
        }
        assert_ok(t_fill(&world, world.stream, x, 4 * N, 0));
        assert_ok(ph_graph_capture(outer, world.stream, &options, around, &how));
        assert_ok(ph_graph_replay(outer, world.stream));
        expect_part(0, 1);
        expect_part(3, 50);
        assert_ok(ph_graph_reset(outer));
    }
}

TEST(memory_that_is_planned_is_not_written_over)
{
    when how = HELD;
    capture_into(first, pool, &ones);
    assert_error(ph_graph_capture(outer, world.stream,
                                  &(ph_capture_options){.pool = pool, .plan = true}, around, &how),
                 PH_ERROR_STATE, "which it was given by the pool that both share");
}

/* Another stream of the capture reads its memory, and frees it; nothing else orders the two. */
static ph_status beside(ph_stream *stream, void *user)
{
    int32_t *own;
    (void)user;
    PH_TRY(ph_stream_wait_stream(other, stream));
    PH_TRY(PH_NEW(&own, N, stream));
    PH_TRY(t_fill(&world, stream, own, N, 50));
    PH_TRY(t_add(&world, stream, own, x + (ptrdiff_t)3 * N, N, 0));
    ph_free(own, stream);
    PH_TRY(ph_graph_replay(first, other));
    return ph_stream_wait_stream(stream, other);
}

/* Another stream reads memory of the one that frees it, and replays the graph. */
static ph_status read_beside(ph_stream *stream, void *user)
{
    int32_t *own;
    (void)user;
    PH_TRY(PH_NEW(&own, N, stream));
    PH_TRY(t_fill(&world, stream, own, N, 50));
    PH_TRY(ph_stream_wait_stream(other, stream));
    PH_TRY(ph_record_stream(own, other));
    PH_TRY(t_add(&world, other, own, x + (ptrdiff_t)3 * N, N, 0));
    ph_free(own, stream);
    PH_TRY(ph_graph_replay(first, stream));
    return ph_stream_wait_stream(stream, other);
}

TEST(freed_memory_is_written_behind_the_work_of_other_streams)
{
    static const ph_capture_fn bodies[] = {beside, read_beside};
    capture_into(first, pool, &ones);
    for (int which = 0; which < 2; which++) {
        assert_ok(ph_graph_capture(outer, world.stream, &(ph_capture_options){.pool = pool},
                                   bodies[which], NULL));
        expect_no_race();
        for (int i = 0; i < 20; i++) {
            assert_ok(t_fill(&world, world.stream, x, 4 * N, 0));
            assert_ok(ph_graph_replay(outer, world.stream));
            expect_part(0, 1);
            expect_part(3, 50);
        }
        assert_ok(ph_graph_reset(outer));
    }
}

TEST(pools_of_their_own_are_nobody_elses)
{
    when how = HELD;
    capture_into(first, NULL, &ones);
    assert_ok(
        ph_graph_capture(outer, world.stream, &(ph_capture_options){.pool = pool}, around, &how));
    assert_ok(ph_graph_replay(outer, world.stream));
    expect_part(0, 1);
    expect_part(3, 50);
}

/* The call is refused, and the capture around it goes on. */
TEST(a_refused_replay_leaves_the_capture_alone)
{
    int32_t *own;
    capture_into(first, pool, &ones);
    assert_ok(ph_graph_capture_begin(outer, world.stream, &(ph_capture_options){.pool = pool}));
    assert_ok(PH_NEW(&own, N, world.stream));
    assert_ok(t_fill(&world, world.stream, own, N, 50));
    assert_error(ph_graph_replay(first, world.stream), PH_ERROR_STATE, "has not freed");
    assert_ok(t_add(&world, world.stream, own, x, N, 0));
    ph_free(own, world.stream);
    assert_ok(ph_graph_replay(first, world.stream));
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_ok(ph_graph_replay(outer, world.stream));
    expect_part(0, 1);
}

/* ---- order ---- */
static bool depends_on(const ph_record *record, size_t node, size_t on)
{
    ph_node_info info;
    assert_ok(ph_record_node(&info, record, node));
    for (size_t i = 0; i < info.dependency_count; i++)
        if (ph_record_dependencies(record, node)[i] == on)
            return true;
    return false;
}

/* Three replays on two streams that nothing else orders. */
static ph_status on_both(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_stream_wait_stream(other, stream));
    PH_TRY(ph_graph_replay(first, stream));
    PH_TRY(ph_graph_replay(second, other));
    PH_TRY(ph_graph_replay(first, stream));
    return ph_stream_wait_stream(stream, other);
}

TEST(nodes_of_graphs_that_share_a_pool_are_ordered)
{
    const ph_record *record;
    capture_into(first, pool, &ones);
    capture_into(second, pool, &twos);
    assert_ok(ph_graph_capture(outer, world.stream, NULL, on_both, NULL));
    assert_ok(ph_graph_record(&record, outer));
    assert_int_equal(ph_record_node_count(record), 3);
    assert_true(depends_on(record, 1, 0) && depends_on(record, 2, 1));
    expect_no_race();
    for (int i = 0; i < 20; i++) {
        assert_ok(t_fill(&world, world.stream, x, 4 * N, 0));
        assert_ok(ph_graph_replay(outer, world.stream));
        expect_part(0, 1);
        expect_part(1, 2);
    }
}

TEST(nodes_of_graphs_with_pools_of_their_own_are_not)
{
    const ph_record *record;
    capture_into(first, NULL, &ones);
    capture_into(second, NULL, &twos);
    assert_ok(ph_graph_capture(outer, world.stream, NULL, on_both, NULL));
    assert_ok(ph_graph_record(&record, outer));
    assert_int_equal(ph_record_node_count(record), 3);
    assert_int_equal(ph_record_edge_count(record), 1); /* the two of one stream */
}

/* ---- a cache ---- */
static ph_graph_cache *cache;
static ph_graph_cache_path inner_path;

static ph_status run_key(ph_stream *stream, const char *key, ph_capture_fn body, void *user,
                         ph_graph_cache_path *path)
{
    const void *pointers[] = {x};
    ph_graph_cache_result result;
    ph_status status = ph_graph_cache_run(cache, stream,
                                          &(ph_graph_cache_call){.key = key,
                                                                 .key_bytes = 1,
                                                                 .body = body,
                                                                 .user = user,
                                                                 .pointers = pointers,
                                                                 .pointer_count = 1},
                                          &result);
    *path = result.path;
    return status;
}

static ph_status layer_in_model(ph_stream *stream, void *user)
{
    int32_t *own;
    PH_TRY(PH_NEW(&own, N, stream));
    PH_TRY(t_fill(&world, stream, own, N, 50));
    PH_TRY(run_key(stream, "l", fill_by_way, user, &inner_path));
    PH_TRY(t_add(&world, stream, own, x + (ptrdiff_t)3 * N, N, 0));
    ph_free(own, stream);
    return PH_OK;
}

TEST(the_body_of_a_key_calls_another_key)
{
    ph_graph_cache_path path;
    void *layer = (void *)(uintptr_t)&ones;
    assert_ok(ph_graph_cache_create(&cache, world.device, &(ph_graph_cache_options){.after = 1}));
    for (int i = 0; i < 3; i++)
        assert_ok(run_key(world.stream, "l", fill_by_way, layer, &path));
    assert_int_equal(path, PH_CACHE_REPLAYED);
    for (int i = 0; i < 4; i++) {
        assert_ok(t_fill(&world, world.stream, x, 4 * N, 0));
        assert_ok(run_key(world.stream, "m", layer_in_model, layer, &path));
        if (i == 1)
            assert_int_equal(inner_path, PH_CACHE_RECORDED);
        expect_part(0, 1);
        expect_part(3, 50);
    }
    assert_int_equal(path, PH_CACHE_REPLAYED);
    ph_graph_cache_destroy(cache);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(memory_that_the_capture_has_is_not_written_over, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(memory_that_is_planned_is_not_written_over, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(freed_memory_is_written_behind_the_work_of_other_streams,
                                        open_world, close_world),
        cmocka_unit_test_setup_teardown(pools_of_their_own_are_nobody_elses, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(a_refused_replay_leaves_the_capture_alone, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(nodes_of_graphs_that_share_a_pool_are_ordered, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(nodes_of_graphs_with_pools_of_their_own_are_not, open_world,
                                        close_world),
        cmocka_unit_test_setup_teardown(the_body_of_a_key_calls_another_key, open_world,
                                        close_world),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
