/* SPDX-License-Identifier: MIT */
/* tests/graph/cache_renewals_left.c: executables that were made anew where a hook does not return,
 * and those that the end of a cache waits for: nothing is left behind. */
#include "cache_renewed.h"

#include "base/sync.h"
#include "support/test.h"

static bool armed;

static ph_status leave(const ph_graph_hook_info *info, void *user)
{
    (void)info, (void)user;
    if (armed)
        pthread_exit(NULL);
    return PH_OK;
}

static void *call_once(void *user)
{
    (void)user;
    ph_ignore(t_renewed_call(&s, "a", 2, NULL));
    return NULL;
}

/* The call was left before it ran: it does not count. */
TEST(a_hook_that_does_not_return_takes_the_executable_with_it)
{
    pthread_t thread;
    ph_hook *hook;
    open_with(&usual);
    assert_ok(ph_graph_hook_add(&hook, NULL, PH_HOOK_INSTANTIATE, leave, NULL));
    t_renewed_demote(&s, "a");
    t_renewed_calm(&s, "a");
    t_renewed_await_thread(s.cache);
    armed = true;
    assert_true(ph__thread_start(&thread, "left", call_once, NULL));
    assert_int_equal(pthread_join(thread, NULL), 0);
    armed = false;
    assert_int_equal(told.renewed, 0);
    assert_int_equal(t_renewed_count(&s), 0);
    t_renewed_run(&s, "a", 2, PH_CACHE_UPDATED); /* the slower one is as it was */
    assert_int_equal(t_renewed_demoted(&s), 1);
    ph_graph_hook_remove(hook);
    close_scene();
}

/* ---- the end ---- */
static bool ending;
static int released;

static ph_status fill_body(ph_stream *stream, void *user)
{
    (void)user;
    return t_fill(&s.world, stream, s.outputs[1], T_CACHED_N, 9);
}

static void call_cache(void *object)
{
    (void)object;
    released += ending;
    if (ending)
        assert_ok(ph_graph_cache_run(
            s.cache, s.world.stream,
            &(ph_graph_cache_call){.key = "other", .key_bytes = 5, .body = fill_body}, NULL));
}

static ph_status retaining_body(ph_stream *stream, void *user)
{
    ph_graph *graph = NULL;
    PH_TRY(t_renewed_body(stream, user));
    PH_TRY(ph_stream_capturing_graph(&graph, stream));
    return graph ? ph_graph_retain(graph, call_cache, &s, false) : PH_OK;
}

static void run_retaining(uint32_t wide)
{
    t_renewed_work w = {.scene = &s, .value = 100 + s.calls++, .wide = wide};
    const ph_graph_cache_value values[] = {{&w.value, sizeof w.value}};
    assert_ok(ph_graph_cache_run(s.cache, s.world.stream,
                                 &(ph_graph_cache_call){.key = "a",
                                                        .key_bytes = 1,
                                                        .body = retaining_body,
                                                        .user = &w,
                                                        .values = values,
                                                        .value_count = 1},
                                 NULL));
}

static void *open_later(void *gate)
{
    usleep(100000);
    t_gate_open(gate);
    return NULL;
}

/* The slower executable is in flight when the cache goes: it is the last one to go. */
TEST(objects_of_the_last_executable_call_the_cache_that_goes)
{
    t_gate gate = {.behind = true};
    pthread_t thread;
    open_with(&usual);
    for (uint32_t i = 0; i < 3; i++)
        run_retaining(i);
    for (int i = 1; i < T_RENEWED_CALM; i++)
        run_retaining(2);
    assert_ok(t_gate_wait_guarded(&gate, s.world.stream));
    run_retaining(2);
    t_renewed_await_thread(s.cache);
    run_retaining(2);
    assert_int_equal(told.renewed, 1);
    assert_true(ph__thread_start(&thread, "opens", open_later, &gate));
    ending = true;
    ph_graph_cache_destroy(s.cache);
    s.cache = NULL;
    ending = false;
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(released > 0);
    close_scene();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hook_that_does_not_return_takes_the_executable_with_it),
        cmocka_unit_test(objects_of_the_last_executable_call_the_cache_that_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
