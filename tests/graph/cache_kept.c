/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_kept.c: where no executable can be made anew, a key keeps the slower one, which
 * is told once; every call is done once. */
#include "cache_renewed.h"

#include "base/sync.h"
#include "driver/driver.h"
#include "support/test.h"

static void expect_kept(const char *reason)
{
    for (int i = 0; i < 6 * T_RENEWED_CALM; i++) {
        assert_ok(t_renewed_call(&s, "a", 2, NULL));
        t_all(s.total, 1, ++s.calls, s.world.stream);
        usleep(500);
    }
    assert_int_equal(told.kept, 1);
    if (!strstr(told.reason, reason))
        fail_msg("%s", told.reason);
    assert_non_null(strstr(told.reason, "the slower executable stays"));
    assert_int_equal(t_renewed_count(&s), 0);
}

static ph_graph *graph_in_use(void)
{
    ph_graph_cache_result result;
    assert_ok(t_renewed_call(&s, "a", 2, &result));
    t_all(s.total, 1, ++s.calls, s.world.stream);
    return result.graph;
}

static ph_status do_nothing(const ph_graph_hook_info *info, void *user)
{
    (void)info, (void)user;
    return PH_OK;
}

TEST(a_graph_with_hooks_stays)
{
    ph_hook *hook;
    open_with(&usual);
    t_renewed_demote(&s, "a");
    assert_ok(ph_graph_hook_add(&hook, graph_in_use(), PH_HOOK_REPLAY_END, do_nothing, NULL));
    expect_kept("it has hooks");
    ph_graph_hook_remove(hook);
    close_scene();
}

/* Added while the executable is made. */
TEST(a_graph_that_got_hooks_meanwhile_stays)
{
    ph_hook *hook;
    ph_graph_cache_result result;
    open_with(&usual);
    t_renewed_demote(&s, "a");
    for (int i = 1; i < T_RENEWED_CALM; i++)
        t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
    assert_ok(t_renewed_call(&s, "a", 2, &result));
    t_all(s.total, 1, ++s.calls, s.world.stream);
    assert_ok(ph_graph_hook_add(&hook, result.graph, PH_HOOK_REPLAY_END, do_nothing, NULL));
    expect_kept("it has hooks");
    ph_graph_hook_remove(hook);
    close_scene();
}

TEST(an_executable_with_nodes_switched_off_stays)
{
    open_with(&usual);
    t_renewed_demote(&s, "a");
    assert_ok(ph_graph_node_set_enabled(graph_in_use(), 0, false));
    expect_kept("switched off (ph_graph_node_set_enabled)");
    close_scene();
}

TEST(a_thread_that_the_system_refuses_is_told_once)
{
    open_with(&usual);
    t_renewed_demote(&s, "a");
    for (int i = 1; i < T_RENEWED_CALM; i++)
        t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
    ph__thread_fail_after(0);
    expect_kept("the system refused a thread");
    ph__thread_fail_after(INT64_MAX);
    assert_ok(ph_graph_cache_drop(s.cache, "a", 1)); /* a new beginning */
    t_renewed_demote(&s, "a");
    t_renewed_await(&s, "a");
    close_scene();
}

TEST(where_there_is_no_event_the_log_has_it_once)
{
    ph_graph_cache_options options = usual;
    options.event = NULL;
    open_with(&options);
    t_renewed_demote(&s, "a");
    t_log_start();
    ph__thread_fail_after(0);
    for (int i = 0; i < 4 * T_RENEWED_CALM; i++)
        t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
    ph__thread_fail_after(INT64_MAX);
    assert_int_equal(t_log_count("graph cache: updates changed grids, and the slower executable "
                                 "stays: the system refused a thread"),
                     1);
    t_log_stop();
    close_scene();
}

TEST(an_executable_that_the_driver_refuses_is_told_once)
{
    open_with(&usual);
    t_renewed_demote(&s, "a");
    if (!t_renewed_made()) {
        print_message("skipped: the software libcuda alone refuses executables\n");
        close_scene();
        return;
    }
    for (int i = 1; i < T_RENEWED_CALM; i++)
        t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
    fake_cuda()->fail_call("cuGraphInstantiateWithParams", PH__R_OUT_OF_MEMORY, 1);
    expect_kept("cuGraphInstantiate");
    fake_cuda()->fail_call("cuGraphInstantiateWithParams", 0, 0);
    close_scene();
}

TEST(a_budget_without_room_for_one_more_is_told_once)
{
    ph_graph_cache_options options = usual;
    ph_graph_cache_stats stats;
    open_with(&options);
    t_renewed_demote(&s, "a");
    assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
    close_scene();
    if (!t_renewed_made()) {
        print_message("skipped: the software libcuda alone says what an executable will take\n");
        return;
    }
    options.budget = stats.executable_bytes + stats.pool_bytes;
    open_with(&options);
    t_renewed_demote(&s, "a");
    expect_kept("the budget has no room for one more");
    close_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_graph_with_hooks_stays),
        cmocka_unit_test(a_graph_that_got_hooks_meanwhile_stays),
        cmocka_unit_test(an_executable_with_nodes_switched_off_stays),
        cmocka_unit_test(a_thread_that_the_system_refuses_is_told_once),
        cmocka_unit_test(where_there_is_no_event_the_log_has_it_once),
        cmocka_unit_test(an_executable_that_the_driver_refuses_is_told_once),
        cmocka_unit_test(a_budget_without_room_for_one_more_is_told_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
