/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_renewals.c: executables that changes of grids made slower are made anew in the
 * background; every call is done once, whatever becomes of that. */
#include "support/renewed.h"

#include "base/alloc.h"
#include "base/sync.h"
#include "device/handles/device.h"
#include "driver/driver.h"
#include "support/fork.h"
#include "support/test.h"

static t_cached s;
static struct {
    int renewed, kept;
    char reason[240];
} told;

static void on_event(const ph_graph_cache_event *event, void *user)
{
    (void)user;
    told.renewed += event->what == PH_CACHE_RENEWED;
    told.kept += event->what == PH_CACHE_KEPT;
    if (event->what == PH_CACHE_KEPT)
        (void)snprintf(told.reason, sizeof told.reason, "%s", event->reason);
}

static const ph_graph_cache_options usual = {.after = PH_ZERO,
                                             .fallback = PH_CACHE_FALLBACK_UPDATE,
                                             .event = on_event,
                                             .renew_after = T_RENEWED_CALM};

static void open_with(const ph_graph_cache_options *options)
{
    memset(&told, 0, sizeof told);
    t_cached_open(&s, options);
}

static void close_scene(void)
{
    t_cached_close(&s);
    assert_int_equal(ph__alloc_live(), 0);
}

static bool text_has(const char *words)
{
    char *text;
    assert_ok(ph_graph_cache_text(&text, s.cache));
    bool found = strstr(text, words) != NULL;
    ph_string_free(text);
    return found;
}

TEST(an_executable_that_a_grid_made_slower_is_made_anew)
{
    open_with(&usual);
    t_renewed_demote(&s, "a");
    assert_int_equal(t_renewed_demoted(&s), 1);
    assert_true(text_has(", 1 node slower by an update"));
    int64_t made = t_renewed_made();
    for (int i = 1; i < T_RENEWED_CALM; i++)
        t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
    assert_int_equal(t_renewed_made(), made);
    t_renewed_await(&s, "a");
    assert_int_equal(told.renewed, 1);
    assert_int_equal(told.kept, 0);
    assert_int_equal(t_renewed_demoted(&s), 0);
    assert_true(text_has("1 renewed") && !text_has("slower"));
    if (made) {
        int64_t slower = fake_cuda()->demoted_launches();
        assert_int_equal(t_renewed_made(), made + 1);
        assert_true(slower > 0);
        t_renewed_calm(&s, "a");
        assert_int_equal(fake_cuda()->demoted_launches(), slower);
    }
    for (int i = 0; i < 4 * T_RENEWED_CALM; i++) /* it is as it should be */
        t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
    assert_int_equal(t_renewed_count(&s), 1);
    t_renewed_run(&s, "a", 3, PH_CACHE_UPDATED); /* and so on */
    assert_int_equal(t_renewed_demoted(&s), 1);
    t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
    t_renewed_await(&s, "a");
    assert_int_equal(told.renewed, 2);
    close_scene();
}

TEST(grids_that_change_again_and_again_are_left_alone)
{
    open_with(&usual);
    t_renewed_demote(&s, "a");
    int64_t made = t_renewed_made();
    for (uint32_t i = 0; i < 40; i++)
        t_renewed_run(&s, "a", 1 + i / (T_RENEWED_CALM - 1) % 2, PH_CACHE_UPDATED);
    assert_int_equal(t_renewed_made(), made);
    assert_int_equal(t_renewed_count(&s), 0);
    assert_int_equal(told.kept, 0);
    close_scene();
}

TEST(renewals_can_be_switched_off)
{
    ph_graph_cache_options options = usual;
    options.renew_after = PH_ZERO;
    open_with(&options);
    t_renewed_demote(&s, "a");
    int64_t made = t_renewed_made();
    for (int i = 0; i < 40; i++)
        t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
    assert_int_equal(t_renewed_made(), made);
    assert_int_equal(t_renewed_count(&s), 0);
    assert_int_equal(t_renewed_demoted(&s), 1);
    close_scene();
    options.renew_after = 0; /* 16 */
    open_with(&options);
    t_renewed_demote(&s, "a");
    made = t_renewed_made();
    for (int i = 0; i < 15; i++)
        t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
    assert_int_equal(t_renewed_made(), made);
    t_renewed_await(&s, "a");
    close_scene();
}

TEST(nothing_is_made_while_a_capture_is_open)
{
    ph_stream *side;
    ph_graph *graph;
    open_with(&usual);
    assert_ok(ph_stream_create(&side, s.world.device, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    t_renewed_demote(&s, "a");
    int64_t made = t_renewed_made();
    assert_ok(
        ph_graph_capture_begin(graph, side, &(ph_capture_options){.mode = PH_CAPTURE_RELAXED}));
    assert_ok(t_fill(&s.world, side, s.outputs[1], T_CACHED_N, 77));
    for (int i = 0; i < 10 * T_RENEWED_CALM; i++) {
        t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
        usleep(100);
    }
    assert_int_equal(t_renewed_made(), made);
    assert_int_equal(t_renewed_count(&s), 0);
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    t_renewed_await(&s, "a");
    assert_ok(ph_graph_replay(graph, side));
    t_all(s.outputs[1], T_CACHED_N, 77, side);
    ph_graph_destroy(graph);
    ph_stream_destroy(side);
    close_scene();
}

/* An evicted key, and a cache, whose executable waits for the end of a capture. */
TEST(what_waits_goes_with_its_key_and_with_the_cache)
{
    ph_graph_cache_options options = usual;
    ph_graph *graph;
    ph_stream *side;
    options.max_graphs = 1;
    open_with(&options);
    assert_ok(ph_stream_create(&side, s.world.device, NULL));
    assert_ok(ph_graph_create(&graph, NULL));
    for (int i = 0; i < 2; i++) {
        t_renewed_demote(&s, "a");
        assert_ok(
            ph_graph_capture_begin(graph, side, &(ph_capture_options){.mode = PH_CAPTURE_RELAXED}));
        t_renewed_calm(&s, "a");
        if (i == 0)
            t_renewed_run(&s, "b", 0, PH_CACHE_CAPTURED);
        assert_ok(ph_graph_capture_end(graph, PH_OK));
        assert_ok(ph_graph_reset(graph));
    }
    assert_int_equal(t_renewed_count(&s), 0);
    ph_graph_destroy(graph);
    ph_stream_destroy(side);
    close_scene();
}

/* ---- while the thread is at work ---- it waits for a lock that the test takes between the capture
 * of the call, which wants it too, and the end of the call. */
static bool armed;

static ph_status hold_thread(const ph_graph_hook_info *info, void *user)
{
    (void)info, (void)user;
    if (armed)
        ph__alone_lock(&s.world.device->syncs);
    armed = false;
    return PH_OK;
}

static void let_thread_go(void)
{
    ph__alone_unlock(&s.world.device->syncs);
}

static void *let_thread_go_later(void *unused)
{
    usleep(20000);
    let_thread_go();
    return unused;
}

static void run_until_held(void)
{
    ph_hook *hook;
    assert_ok(ph_graph_hook_add(&hook, NULL, PH_HOOK_REPLAY_START, hold_thread, NULL));
    t_renewed_demote(&s, "a");
    for (int i = 1; i < T_RENEWED_CALM; i++)
        t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
    armed = true;
    t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
    assert_false(armed);
    ph_graph_hook_remove(hook);
}

TEST(a_key_is_dropped_without_waiting_for_the_thread)
{
    open_with(&usual);
    for (int i = 0; i < 3; i++) {
        run_until_held();
        assert_ok(ph_graph_cache_drop(s.cache, "a", 1));
        let_thread_go();
    }
    t_renewed_demote(&s, "a");
    t_renewed_await(&s, "a"); /* as soon as the thread is over */
    close_scene();
}

TEST(a_cache_is_destroyed_when_the_thread_is_over)
{
    pthread_t thread;
    open_with(&usual);
    run_until_held();
    assert_int_equal(pthread_create(&thread, NULL, let_thread_go_later, NULL), 0);
    ph_graph_cache_destroy(s.cache);
    s.cache = NULL;
    assert_int_equal(pthread_join(thread, NULL), 0);
    close_scene();
}

TEST(another_key_waits_for_its_turn)
{
    open_with(&usual);
    t_renewed_demote(&s, "b");
    run_until_held();
    let_thread_go();
    t_renewed_await(&s, "b");                /* "a" does not come again */
    for (int i = 0; i < T_RENEWED_CALM; i++) /* it is due again where it does */
        t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
    t_renewed_await(&s, "a");
    close_scene();
}

/* The child has no thread to wait for. */
TEST(a_child_of_fork_destroys_the_cache)
{
    int result;
    if (HAS_TSAN) {
        print_message("skipped: children of a program with threads under ThreadSanitizer\n");
        skip();
    }
    open_with(&usual);
    run_until_held();
    pid_t child = fork();
    if (child == 0) {
        alarm(HANGS_AFTER);
        ph_graph_cache_destroy(s.cache);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_true(WIFEXITED(result) && WEXITSTATUS(result) == 0);
    let_thread_go();
    close_scene();
}

/* ---- hooks ---- */
static struct {
    pthread_t thread;
    int made, gone, elsewhere;
} hooked;

static ph_status note_executable(const ph_graph_hook_info *info, void *user)
{
    (void)user;
    hooked.made += info->point == PH_HOOK_INSTANTIATE;
    hooked.gone += info->point == PH_HOOK_DESTROY;
    hooked.elsewhere += !pthread_equal(pthread_self(), hooked.thread);
    return PH_OK;
}

TEST(hooks_of_the_process_are_told_by_the_call_that_puts_it_into_its_place)
{
    ph_hook *hooks[2];
    open_with(&usual);
    hooked.thread = pthread_self();
    assert_ok(ph_graph_hook_add(&hooks[0], NULL, PH_HOOK_INSTANTIATE, note_executable, NULL));
    assert_ok(ph_graph_hook_add(&hooks[1], NULL, PH_HOOK_DESTROY, note_executable, NULL));
    t_renewed_demote(&s, "a");
    assert_int_equal(hooked.made, 2);
    t_renewed_await(&s, "a");
    assert_int_equal(hooked.made, 3);
    assert_ok(ph_graph_cache_drop(s.cache, "a", 1));
    run_until_held(); /* one that no call will have */
    let_thread_go();
    ph_graph_cache_destroy(s.cache);
    s.cache = NULL;
    assert_int_equal(hooked.made, hooked.gone);
    assert_int_equal(hooked.elsewhere, 0);
    ph_graph_hook_remove(hooks[0]);
    ph_graph_hook_remove(hooks[1]);
    close_scene();
}

/* ---- what cannot be ---- */
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
        cmocka_unit_test(an_executable_that_a_grid_made_slower_is_made_anew),
        cmocka_unit_test(grids_that_change_again_and_again_are_left_alone),
        cmocka_unit_test(renewals_can_be_switched_off),
        cmocka_unit_test(nothing_is_made_while_a_capture_is_open),
        cmocka_unit_test(what_waits_goes_with_its_key_and_with_the_cache),
        cmocka_unit_test(a_key_is_dropped_without_waiting_for_the_thread),
        cmocka_unit_test(a_cache_is_destroyed_when_the_thread_is_over),
        cmocka_unit_test(another_key_waits_for_its_turn),
        cmocka_unit_test(a_child_of_fork_destroys_the_cache),
        cmocka_unit_test(hooks_of_the_process_are_told_by_the_call_that_puts_it_into_its_place),
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
