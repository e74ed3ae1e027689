/* SPDX-License-Identifier: MIT */
/* tests/graph/memory_plans_forked.c: a plan of several captures in a child of fork(): it is the
 * parent's there. */
#include "support/fixture.h"
#include "support/fork.h"
#include "support/test.h"

enum {
    N = 64
};
static t_world world;

WORLD(world);

static ph_status use_scratch(ph_stream *stream, void *user)
{
    int32_t *scratch;
    (void)user;
    PH_TRY(PH_NEW(&scratch, N, stream));
    PH_TRY(t_fill(&world, stream, scratch, N, 1));
    ph_free(scratch, stream);
    return PH_OK;
}

static int wait_for(pid_t child)
{
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void use_in_child(ph_memory_plan *plan, ph_graph *graph)
{
    ph_memory_plan_info info;
    (void)alarm(HANGS_AFTER);
    WANT_OK(ph_memory_plan_get_info(&info, plan));
    WANT_STATE(ph_memory_plan_place(plan));
    WANT_STATE(ph_memory_plan_capture(plan, 1, graph, NULL, use_scratch, NULL));
    WANT_STATE(ph_memory_plan_finish(plan));
    ph_memory_plan_destroy(plan);
    _exit(0);
}

TEST(a_child_of_fork_has_the_parents_plan)
{
    ph_memory_plan *plan;
    ph_memory_plan_info info;
    ph_graph *graph;
    ph_pool *pool;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_memory_plan_create(&plan, pool, world.stream, 2));
    assert_ok(ph_memory_plan_capture(plan, 0, graph, NULL, use_scratch, NULL));
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        use_in_child(plan, graph);
    assert_int_equal(wait_for(child), 0);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_memory_plan_place(plan));
    assert_ok(ph_memory_plan_capture(plan, 0, graph, NULL, use_scratch, NULL));
    assert_ok(ph_memory_plan_get_info(&info, plan));
    assert_null(info.ended);
    ph_memory_plan_destroy(plan);
    ph_graph_destroy(graph);
    ph_pool_release(pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {IN_WORLD(a_child_of_fork_has_the_parents_plan)};
    return cmocka_run_group_tests_name("graph.memory_plans_forked", tests, NULL, NULL);
}
