/* SPDX-License-Identifier: MIT */
/* tests/graph/slots_turns.c: inputs that take turns in a slot, by replays with one value: memory
 * that the slot has seen before and that was freed meanwhile is refused, whoever watched it. */
#include "support/support.h"

#include "support/fixture.h"
#include "support/test.h"
#include <phonograph/memory_plan.h>

enum {
    N = 512,
    FEWER = N - 8,
    BYTES = N * sizeof(int32_t),
    ROUNDS = 6
};
static t_world world;
static ph_graph *graph, *watching;
static int32_t *x, *y, *z;

WORLD(world, .graphs = {&graph, &watching},
      .arrays = {{&x, N, T_INTS, 1}, {&y, N, T_INTS, 0}, {&z, N, T_INTS, 0}});

/* y = from + 1 */
static ph_status body(ph_stream *stream, void *from)
{
    return t_add(&world, stream, from, y, N, 1);
}

static int32_t *filled(int32_t value, size_t count)
{
    int32_t *made;
    assert_ok(ph_malloc(&made, count, sizeof *made, world.stream));
    assert_ok(t_fill(&world, world.stream, made, count, value));
    return made;
}

static size_t capture(void)
{
    size_t slot;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, x));
    assert_ok(ph_graph_slot_find(&slot, graph, "x", x, BYTES, NULL));
    return slot;
}

static ph_status replay(size_t slot, const void *value)
{
    return ph_graph_replay_with(graph, world.stream, &(ph_slot_value){slot, value}, 1);
}

static void take_turns(size_t slot, int32_t *const *from, int count)
{
    for (int i = 0; i < ROUNDS * count; i++) {
        assert_ok(replay(slot, from[i % count]));
        t_all(y, N, 10 * (i % count + 1) + 1, world.stream);
    }
}

static void free_now(int32_t *memory)
{
    ph_free(memory, world.stream);
    assert_ok(ph_stream_synchronize(world.stream));
}

static void refuse(size_t slot, const void *freed)
{
    assert_error(replay(slot, freed), PH_ERROR_ARGUMENT, "slot 0 (x)");
    const ph_slot_value value = {slot, freed};
    assert_error(ph_graph_slots_set(graph, &value, 1), PH_ERROR_ARGUMENT, "slot 0 (x)");
}

TEST(memory_that_was_freed_between_its_turns_is_refused)
{
    int32_t *from[2] = {filled(10, N), filled(20, N)};
    size_t slot = capture();
    take_turns(slot, from, 2);
    free_now(from[0]);
    refuse(slot, from[0]);
    assert_ok(replay(slot, from[1]));
    t_all(y, N, 21, world.stream);
    free_now(from[1]);
    refuse(slot, from[1]);
}

TEST(other_memory_at_an_address_of_before_is_looked_up)
{
    int32_t *from[2] = {filled(10, N), filled(20, N)};
    size_t slot = capture();
    take_turns(slot, from, 2);
    free_now(from[0]);
    int32_t *shorter = filled(30, FEWER);
    assert_ptr_equal(shorter, from[0]);
    assert_error(replay(slot, shorter), PH_ERROR_ARGUMENT,
                 "the allocation there ends after 2016 bytes");
    free_now(shorter);
    int32_t *again = filled(10, N);
    assert_ptr_equal(again, from[0]);
    take_turns(slot, from, 2);
    free_now(again);
    refuse(slot, again);
    free_now(from[1]);
}

/* Three go beyond what a slot keeps in mind. */
TEST(any_number_takes_turns)
{
    int32_t *from[3] = {filled(10, N), filled(20, N), filled(30, N)};
    size_t slot = capture();
    for (int count = 1; count <= 3; count++)
        take_turns(slot, from, count);
    for (int i = 0; i < 3; i++) {
        free_now(from[i]);
        refuse(slot, from[i]);
    }
}

TEST(frees_of_other_memory_between_turns_change_nothing)
{
    int32_t *from[2] = {filled(10, N), filled(20, N)};
    size_t slot = capture();
    for (int i = 0; i < ROUNDS; i++) {
        int32_t *between = filled(7, N);
        take_turns(slot, from, 2);
        assert_ok(replay(slot, between));
        t_all(y, N, 8, world.stream);
        assert_ok(replay(slot, between));
        free_now(between);
        refuse(slot, between);
    }
    free_now(from[0]);
    free_now(from[1]);
}

/* A graph that watched the memory, and lets go of it, leaves the slot's count as it is. */
TEST(memory_that_others_watched_is_refused_all_the_same)
{
    int32_t *from[2] = {filled(10, N), filled(20, N)};
    size_t slot = capture();
    const ph_capture_options options = {.check_input_liveness = true};
    take_turns(slot, from, 2);
    for (int i = 0; i < 20; i++) {
        ph_graph *other;
        assert_ok(ph_graph_create(&other, NULL));
        assert_ok(ph_graph_capture(other, world.stream, &options, body, from[0]));
        assert_ok(ph_graph_replay(other, world.stream));
        ph_graph_destroy(other);
    }
    take_turns(slot, from, 2);
    free_now(from[0]);
    refuse(slot, from[0]);
    free_now(from[1]);
}

static ph_status planned(ph_stream *stream, void *user)
{
    char *blocks[2];
    (void)user;
    for (int i = 0; i < 2; i++) {
        PH_TRY(ph_malloc(&blocks[i], 1, 4 * BYTES, stream));
        PH_TRY(ph_memset(blocks[i], 1, 4 * BYTES, stream));
    }
    for (int i = 0; i < 2; i++)
        ph_free(blocks[i], stream);
    return PH_OK;
}

/* Its block lives on, and is nobody's once captures get their memory from it. */
TEST(memory_that_a_plan_takes_over_is_refused)
{
    ph_pool *pool;
    ph_stream *stream;
    ph_memory_plan *plan;
    ph_allocation arena;
    ph_graph *noted, *served;
    size_t slot = capture();
    assert_ok(ph_stream_create(&stream, world.device, NULL));
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(ph_memory_plan_create(&plan, pool, stream, 1));
    assert_ok(ph_graph_create(&noted, NULL));
    assert_ok(ph_memory_plan_capture(plan, 0, noted, NULL, planned, NULL));
    const ph_record *record;
    ph_node_info info;
    assert_ok(ph_graph_record(&record, noted));
    assert_ok(ph_record_node(&info, record, 0));
    const void *was = info.dst;
    ph_graph_destroy(noted);
    assert_ok(ph_memory_plan_place(plan));
    assert_ok(ph_memory_lookup(&arena, world.device, was));
    for (int i = 0; i < ROUNDS; i++) {
        assert_ok(replay(slot, arena.base));
        assert_ok(replay(slot, x));
    }
    assert_ok(ph_graph_create(&served, NULL));
    assert_ok(ph_memory_plan_capture(plan, 0, served, NULL, planned, NULL));
    refuse(slot, arena.base);
    assert_ok(replay(slot, x));
    t_all(y, N, 2, world.stream);
    assert_ok(ph_memory_plan_finish(plan));
    refuse(slot, arena.base);
    ph_memory_plan_destroy(plan);
    ph_graph_destroy(served);
    ph_pool_release(pool);
    ph_stream_destroy(stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(memory_that_was_freed_between_its_turns_is_refused),
        IN_WORLD(other_memory_at_an_address_of_before_is_looked_up),
        IN_WORLD(any_number_takes_turns),
        IN_WORLD(frees_of_other_memory_between_turns_change_nothing),
        IN_WORLD(memory_that_others_watched_is_refused_all_the_same),
        IN_WORLD(memory_that_a_plan_takes_over_is_refused),
    };
    return cmocka_run_group_tests_name("graph.slots_turns", tests, NULL, NULL);
}
