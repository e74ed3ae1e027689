/* SPDX-License-Identifier: MIT */
/* tests/graph/memory_plans_streams.c: blocks that planned captures have left are used by other
 * streams, and freed, before the plan is finished: nobody gets them before that work is done. */
#include "support/fixture.h"
#include "support/test.h"
#include <unistd.h>

enum {
    N = 256,
    TAKEN = 6
};
static t_world world;
static ph_stream *side;
static int32_t *left, *out;

WORLD(world, .streams = {&side}, .arrays = {{&out, N}});

static ph_status leave_block(ph_stream *stream, void *user)
{
    int32_t *scratch;
    (void)user;
    PH_TRY(PH_NEW(&scratch, 4 * N, stream));
    PH_TRY(t_fill(&world, stream, scratch, 4 * N, 1));
    PH_TRY(PH_NEW(&left, N, stream));
    PH_TRY(t_fill(&world, stream, left, N, 7));
    ph_free(scratch, stream);
    return PH_OK;
}

/* The block holds 7 then, and is the plan's. */
static ph_memory_plan *plan_block(ph_pool *pool)
{
    ph_memory_plan *plan;
    ph_graph *graph;
    ph_pool *noted;
    assert_ok(ph_pool_create(&noted, world.device, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_memory_plan_create(&plan, pool, world.stream, 1));
    assert_ok(ph_memory_plan_capture(plan, 0, graph, &(ph_capture_options){.pool = noted},
                                     leave_block, NULL));
    assert_ok(ph_graph_reset(graph));
    ph_free(left, world.stream);
    assert_ok(ph_memory_plan_place(plan));
    assert_ok(ph_memory_plan_capture(plan, 0, graph, NULL, leave_block, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
    ph_graph_destroy(graph);
    ph_pool_release(noted);
    return plan;
}

/* Whoever gets the block writes 9. */
static void take_memory(ph_pool *pool)
{
    int32_t *taken[TAKEN];
    assert_ok(ph_pool_begin(pool));
    for (int i = 0; i < TAKEN; i++) {
        assert_ok(PH_NEW(&taken[i], N, world.stream));
        assert_ok(t_fill(&world, world.stream, taken[i], N, 9));
    }
    assert_ok(ph_pool_end(pool));
    for (int i = 0; i < TAKEN; i++)
        ph_free(taken[i], world.stream);
}

typedef enum ending {
    FREED_ON_IT,            /* on the other stream, before the finish */
    RECORDED_AND_FREED,     /* both before the finish */
    FREED_BEHIND_THE_FINISH /* recorded before it */
} ending;

static void free_while_read(ending how)
{
    t_gate gate = {.behind = true};
    ph_pool *pool;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    ph_memory_plan *plan = plan_block(pool);
    assert_ok(t_gate_wait_guarded(&gate, side));
    assert_ok(ph_memcpy(out, left, N * sizeof *out, side));
    if (how == FREED_ON_IT)
        ph_free(left, side);
    else
        assert_ok(ph_record_stream(left, side));
    if (how == RECORDED_AND_FREED)
        ph_free(left, world.stream);
    assert_ok(ph_memory_plan_finish(plan));
    if (how == FREED_BEHIND_THE_FINISH)
        ph_free(left, world.stream);
    take_memory(pool);
    (void)usleep(50000); /* enough for work that nothing holds back */
    t_gate_open(&gate);
    t_all(out, N, 7, side);
    ph_memory_plan_destroy(plan);
    ph_pool_release(pool);
}

TEST(a_block_is_freed_on_another_stream)
{
    free_while_read(FREED_ON_IT);
}

TEST(a_block_that_another_stream_uses_is_freed)
{
    free_while_read(RECORDED_AND_FREED);
}

TEST(a_use_is_known_behind_the_finish)
{
    free_while_read(FREED_BEHIND_THE_FINISH);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_block_is_freed_on_another_stream),
        IN_WORLD(a_block_that_another_stream_uses_is_freed),
        IN_WORLD(a_use_is_known_behind_the_finish),
    };
    return cmocka_run_group_tests_name("graph.memory_plans_streams", tests, NULL, NULL);
}
