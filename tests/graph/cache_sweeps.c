/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_sweeps.c: whatever fails while a cache runs calls: those that succeeded were
 * done once, the others not at all. */
#include "support/cached.h"

#include "base/alloc.h"
#include "driver/driver.h"
#include "support/fault.h"
#include "support/renewed.h"
#include "support/sweep.h"
#include "support/test.h"

static t_cached s;
static int32_t done; /* calls that succeeded */
static ph_graph_cache_fallback fallback;

FIXTURE(open_scene)
{
    t_cached_open(&s, NULL);
    done = 0;
    return 0;
}

FIXTURE(close_scene)
{
    t_cached_close(&s);
    return 0;
}

static ph_status run_call(ph_graph_cache *cache, t_cached_work *w)
{
    ph_graph_cache *kept = s.cache;
    s.cache = cache;
    ph_status status = t_cached_call(&s, "a", w, NULL);
    s.cache = kept;
    done += status == PH_OK;
    return status;
}

static ph_status run_calls(ph_graph_cache *cache)
{
    t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
    for (int i = 0; i < 3; i++)
        PH_TRY(run_call(cache, &w));
    w.x = s.buffers[2]; /* to learn */
    PH_TRY(run_call(cache, &w));
    w.x = s.buffers[1];
    w.value = 0x01020304;
    PH_TRY(run_call(cache, &w));
    w.value = 7;
    PH_TRY(run_call(cache, &w));
    w.more = 1; /* not to be learned */
    PH_TRY(run_call(cache, &w));
    PH_TRY(run_call(cache, &w));
    return ph_graph_cache_drop(cache, "a", 1);
}

static ph_status run(void *user)
{
    ph_graph_cache *cache;
    (void)user;
    PH_TRY(ph_graph_cache_create(
        &cache, s.world.device, &(ph_graph_cache_options){.after = PH_ZERO, .fallback = fallback}));
    ph_status status = run_calls(cache);
    ph_graph_cache_destroy(cache);
    return status;
}

static void check(ph_status status, void *user)
{
    (void)status, (void)user;
    t_all(s.total, 1, done, s.world.stream);
}

static t_swept swept = {.name = "calls of a cache",
                        .open = open_scene,
                        .close = close_scene,
                        .run = run,
                        .reset = check,
                        .may_do_less = true};

TEST(no_call_is_lost_or_done_twice_when_host_memory_ends)
{
    for (fallback = PH_CACHE_FALLBACK_EAGER; fallback <= PH_CACHE_FALLBACK_UPDATE; fallback++) {
        t_faults faults = t_sweep(&swept, &t_host_memory_fault);
        assert_true(faults.reached > 50);
    }
}

TEST(no_call_is_lost_or_done_twice_when_the_driver_fails)
{
    for (fallback = PH_CACHE_FALLBACK_EAGER; fallback <= PH_CACHE_FALLBACK_UPDATE; fallback++)
        assert_true(t_sweep(&swept, t_driver_fault(PH__R_LAUNCH_FAILED)).reached > 50);
}

/* A replay that failed half-way has set some slots: the next call sets what it needs. */
TEST(a_call_after_a_failed_set_has_its_own_pointers_and_values)
{
    int failed = 0;
    for (int64_t n = 0; n < 40; n++) {
        assert_int_equal(open_scene(NULL), 0);
        t_cached_work w = {.x = s.buffers[1], .y = s.outputs[0], .value = 5};
        for (int i = 0; i < 3; i++)
            assert_ok(run_call(s.cache, &w));
        w = (t_cached_work){.x = s.buffers[2], .y = s.outputs[0], .value = 0x01020304};
        assert_ok(run_call(s.cache, &w));
        w = (t_cached_work){.x = s.buffers[1], .y = s.outputs[0], .value = 5};
        assert_ok(run_call(s.cache, &w));
        w = (t_cached_work){.x = s.buffers[3], .y = s.outputs[0], .value = 6};
        ph__driver_fail_after(n, PH__R_LAUNCH_FAILED);
        failed += run_call(s.cache, &w) != PH_OK;
        ph__driver_fail_after(-1, 0);
        w = (t_cached_work){.x = s.buffers[1], .y = s.outputs[0], .value = 5};
        assert_ok(run_call(s.cache, &w));
        s.calls = done - 1;
        t_cached_expect(&s, &w, 10);
        assert_int_equal(close_scene(NULL), 0);
    }
    assert_true(failed > 0);
}

/* ---- executables that are made anew ---- */
static ph_status run_renewals(void *user)
{
    static const uint32_t grids[] = {0, 1, 2, 2, 2, 2, 3, 3, 3};
    ph_graph_cache *kept = s.cache;
    ph_status status = ph_graph_cache_create(
        &s.cache, s.world.device,
        &(ph_graph_cache_options){
            .after = PH_ZERO, .fallback = PH_CACHE_FALLBACK_UPDATE, .renew_after = 1});
    for (size_t i = 0; status == PH_OK && i < sizeof grids / sizeof grids[0]; i++) {
        s.calls = done;
        status = t_renewed_call(&s, "a", grids[i], NULL);
        done += status == PH_OK;
        t_renewed_await_thread(s.cache);
    }
    if (status == PH_OK)
        *(uint64_t *)user = t_renewed_count(&s);
    ph_graph_cache_destroy(s.cache);
    s.cache = kept;
    return status;
}

TEST(no_call_is_lost_while_executables_are_made_anew)
{
    uint64_t renewed = 0;
    const t_swept anew = {.name = "calls of a cache that makes executables anew",
                          .open = open_scene,
                          .close = close_scene,
                          .run = run_renewals,
                          .reset = check,
                          .may_do_less = true,
                          .user = &renewed};
    t_log_start();
    assert_true(t_sweep(&anew, &t_host_memory_fault).reached > 50);
    assert_true(t_sweep(&anew, t_driver_fault(PH__R_LAUNCH_FAILED)).reached > 50);
    t_log_stop();
    assert_int_equal(renewed, 2); /* of the last run, without a fault */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_call_is_lost_or_done_twice_when_host_memory_ends),
        cmocka_unit_test(no_call_is_lost_or_done_twice_when_the_driver_fails),
        cmocka_unit_test(a_call_after_a_failed_set_has_its_own_pointers_and_values),
        cmocka_unit_test(no_call_is_lost_while_executables_are_made_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
