/* SPDX-License-Identifier: MIT */
/* tests/unit/host_plan_measure.c: plans that take down when each node ran: in order, in lanes,
 * in random orders. */
#include "base/alloc.h"
#include "base/clock.h"
#include "driver/host/plan/plan_nodes.h"
#include "driver/host/plan/plan_run.h"
#include "support/support.h"
#include "support/test.h"
#include <string.h>

enum {
    NODES = 12,
    SPLIT = 5 /* this one is long, and has many blocks */
};

static void work(const ph_block_range *range, const void *args)
{
    (void)args;
    for (uint64_t block = range->begin; block < range->end; block++) {
        uint64_t end = ph__now_ns() + 3000;
        while (ph__now_ns() < end)
            continue;
    }
}

/* Pairs of nodes beside each other, each behind both of the pair before. */
static ph__plan *make_plan(ph__workers *workers, bool blocking)
{
    static uint32_t dependencies[NODES][2];
    ph__plan_node nodes[NODES];
    memset(nodes, 0, sizeof nodes);
    for (uint32_t n = 0; n < NODES; n++) {
        uint32_t pair = n / 2 * 2;
        nodes[n] = (ph__plan_node){
            .fn = work, .grid = {n == SPLIT ? 16 : 1}, .may_block = blocking && n == 3};
        if (n < 2)
            continue;
        dependencies[n][0] = pair - 2;
        dependencies[n][1] = pair - 1;
        nodes[n].dependencies = dependencies[n];
        nodes[n].dependency_count = 2;
    }
    ph__plan *plan = ph__plan_create(nodes, NODES, workers);
    assert_non_null(plan);
    return plan;
}

static void check_times(const ph__plan *plan)
{
    const ph__plan_time *times = ph__plan_times(plan);
    assert_non_null(times);
    for (uint32_t n = 0; n < NODES; n++) {
        assert_true(times[n].start_ns > 0);
        assert_true(times[n].end_ns >= times[n].start_ns + 3000);
        for (uint32_t before = n / 2 * 2 - 2; n >= 2 && before < n / 2 * 2; before++)
            assert_true(times[before].end_ns <= times[n].start_ns);
    }
}

static void run_measured(ph__plan *plan, ph__rng *chaos)
{
    ph__plan_stats before, after;
    ph__plan_get_stats(&before, plan);
    for (int i = 0; i < 5; i++) {
        assert_true(ph__plan_measure(plan, true));
        ph__plan_run(plan, chaos);
        check_times(plan);
        ph__plan_run(plan, chaos);
        check_times(plan);
    }
    assert_true(ph__plan_measure(plan, false));
    assert_null(ph__plan_times(plan));
    ph__plan_run(plan, chaos);
    ph__plan_get_stats(&after, plan);
    assert_int_equal(after.runs, before.runs + 11);
}

TEST(a_plan_in_order_measures_each_node)
{
    for (int blocking = 0; blocking < 2; blocking++) {
        ph__plan *plan = make_plan(NULL, blocking);
        run_measured(plan, NULL);
        ph__plan_destroy(plan);
    }
    assert_int_equal(ph__alloc_live(), 0);
}

/* Parts of one node on several lanes are one time. */
TEST(parts_of_a_node_in_several_lanes_are_one_time)
{
    ph__workers *workers = ph__workers_create(2);
    ph__plan *plan = make_plan(workers, false);
    ph__plan_stats stats;
    ph__plan_force_lanes(plan, 2);
    run_measured(plan, NULL);
    ph__plan_get_stats(&stats, plan);
    assert_int_equal(stats.parallel_runs, 11);
    assert_true(stats.tasks > NODES);
    ph__plan_force_lanes(plan, 0);
    for (int i = 0; i < 50; i++)
        ph__plan_run(plan, NULL);
    run_measured(plan, NULL);
    ph__plan_destroy(plan);
    ph__workers_destroy(workers);
    assert_int_equal(ph__alloc_live(), 0);
}

/* Bodies change: costs from before would make a node seem as short as it was once. */
TEST(a_doubted_decision_is_made_of_new_costs)
{
    ph__workers *workers = ph__workers_create(2);
    ph__plan *plan = make_plan(workers, false);
    for (int i = 0; i < 100 && !plan->decided; i++)
        ph__plan_run(plan, NULL);
    assert_true(plan->decided);
    ph__choice_rejected(&plan->choice);
    plan->choice.check_after = 1;
    for (uint32_t n = 0; n < NODES; n++)
        plan->cost_ns[n] = 0;
    ph__plan_run(plan, NULL);
    assert_false(plan->decided);
    for (uint32_t n = 0; n < NODES; n++)
        assert_true(plan->cost_ns[n] > 0);
    ph__plan_destroy(plan);
    ph__workers_destroy(workers);
    assert_int_equal(ph__alloc_live(), 0);
}

TEST(in_random_orders)
{
    ph__rng chaos = {0};
    ph__plan *plan = make_plan(NULL, false);
    run_measured(plan, &chaos);
    ph__plan_destroy(plan);
    assert_int_equal(ph__alloc_live(), 0);
}

/* Out of memory it stays off, and the plan runs on. A plan that goes while it measures takes the
 * times along. */
TEST(without_memory_measuring_stays_off_and_the_plan_runs)
{
    ph__workers *workers = ph__workers_create(2);
    ph__plan *plan = make_plan(workers, false);
    for (int n = 0; n < 2; n++) {
        ph__alloc_fail_after(n);
        assert_false(ph__plan_measure(plan, true));
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        assert_null(ph__plan_times(plan));
        ph__plan_run(plan, NULL);
    }
    assert_true(ph__plan_measure(plan, true));
    assert_true(ph__plan_measure(plan, true));
    ph__plan_destroy(plan);
    ph__workers_destroy(workers);
    assert_int_equal(ph__alloc_live(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plan_in_order_measures_each_node),
        cmocka_unit_test(parts_of_a_node_in_several_lanes_are_one_time),
        cmocka_unit_test(a_doubted_decision_is_made_of_new_costs),
        cmocka_unit_test(in_random_orders),
        cmocka_unit_test(without_memory_measuring_stays_off_and_the_plan_runs),
    };
    return cmocka_run_group_tests_name("unit.host_plan_measure", tests, NULL, NULL);
}
