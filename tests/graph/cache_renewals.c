/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_renewals.c: executables that changes of grids made slower are made anew in the
 * background; every call is done once, whatever becomes of that. */
#include "cache_renewed.h"

#include "base/sync.h"
#include "device/handles/device.h"
#include "device/handles/stream.h"
#include "driver/driver.h"
#include "support/fork.h"
#include "support/test.h"
#include <phonograph/foreign.h>

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

static void call_unread(uint32_t wide)
{
    ph_graph_cache_result result;
    assert_ok(t_renewed_call(&s, "a", wide, &result));
    assert_int_equal(result.path, PH_CACHE_UPDATED);
    s.calls++;
}

static size_t executable_bytes(void)
{
    ph_graph_cache_stats stats;
    assert_ok(ph_graph_cache_get_stats(&stats, s.cache));
    return stats.executable_bytes;
}

static int64_t live_executables(void)
{
    fake_cuda_counts live, left;
    if (t_on_host() || !fake_cuda())
        return 0;
    fake_cuda()->count(&live, &left);
    return live.execs;
}

/* The software libcuda waits for the launches of an executable that goes. */
TEST(the_slower_one_goes_when_its_last_replay_has_ended)
{
    t_gate gate = {.behind = true};
    open_with(&usual);
    t_renewed_demote(&s, "a");
    size_t bytes = executable_bytes();
    int64_t live = live_executables();
    for (int i = 1; i < T_RENEWED_CALM; i++)
        t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
    assert_ok(t_gate_wait_guarded(&gate, s.world.stream));
    call_unread(2);
    t_renewed_await_thread(s.cache);
    size_t with_made = executable_bytes();
    call_unread(2);
    bool placed = t_renewed_count(&s) == 1, more = executable_bytes() > bytes,
         there = live_executables() == live + 1;
    if (t_gate_held(&gate)) {
        assert_true(placed);
        assert_true(live == 0 || (there && more && with_made > bytes));
    }
    t_gate_open(&gate);
    t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
    t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED); /* lets go of it */
    assert_int_equal(live_executables(), live);
    if (live)
        assert_int_equal(executable_bytes(), bytes);
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

/* ---- captures of other code ---- begun and ended straight at the driver. */
static ph_stream *begin_foreign(void)
{
    ph_stream *side;
    ph_capture_mode mode = PH_CAPTURE_RELAXED; /* of this thread's own calls */
    assert_ok(ph_thread_exchange_capture_mode(&mode));
    assert_ok(ph_stream_create(&side, s.world.device, NULL));
    assert_int_equal(s.world.device->driver->capture_begin(side->handle, PH_CAPTURE_GLOBAL), 0);
    return side;
}

static void end_foreign(ph_stream *side)
{
    const ph__driver *driver = s.world.device->driver;
    ph__drv_graph *captured = NULL;
    ph_capture_mode mode = PH_CAPTURE_GLOBAL;
    assert_int_equal(driver->capture_end(&captured, side->handle), 0); /* it has survived */
    driver->graph_destroy(captured);
    ph_stream_destroy(side);
    assert_ok(ph_thread_exchange_capture_mode(&mode));
}

TEST(nothing_is_made_while_an_announced_capture_is_open)
{
    ph_pool *pool;
    open_with(&usual);
    t_renewed_demote(&s, "a");
    assert_ok(ph_pool_create(&pool, s.world.device, NULL));
    ph_stream *side = begin_foreign();
    assert_ok(ph_pool_capture_begin(pool, side));
    int64_t made = t_renewed_made();
    for (int i = 0; i < 10 * T_RENEWED_CALM; i++)
        t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED);
    assert_int_equal(t_renewed_made(), made);
    assert_int_equal(t_renewed_count(&s), 0);
    assert_ok(ph_pool_capture_end(pool));
    end_foreign(side);
    assert_ok(ph_pool_capture_release(pool));
    t_renewed_await(&s, "a");
    ph_pool_release(pool);
    close_scene();
}

TEST(a_global_capture_that_nobody_announced_survives)
{
    open_with(&usual);
    t_renewed_demote(&s, "a");
    ph_stream *side = begin_foreign();
    t_renewed_await(&s, "a");
    end_foreign(side);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_executable_that_a_grid_made_slower_is_made_anew),
        cmocka_unit_test(the_slower_one_goes_when_its_last_replay_has_ended),
        cmocka_unit_test(grids_that_change_again_and_again_are_left_alone),
        cmocka_unit_test(renewals_can_be_switched_off),
        cmocka_unit_test(nothing_is_made_while_a_capture_is_open),
        cmocka_unit_test(nothing_is_made_while_an_announced_capture_is_open),
        cmocka_unit_test(a_global_capture_that_nobody_announced_survives),
        cmocka_unit_test(what_waits_goes_with_its_key_and_with_the_cache),
        cmocka_unit_test(a_key_is_dropped_without_waiting_for_the_thread),
        cmocka_unit_test(a_cache_is_destroyed_when_the_thread_is_over),
        cmocka_unit_test(another_key_waits_for_its_turn),
        cmocka_unit_test(a_child_of_fork_destroys_the_cache),
        cmocka_unit_test(hooks_of_the_process_are_told_by_the_call_that_puts_it_into_its_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
