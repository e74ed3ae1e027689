/* SPDX-License-Identifier: MIT */
/* tests/graph/hooks.c: hooks of graphs and of the process: when they run, in what order, what
 * their failures do. The tests named Test... hold the behaviours of the same names. */
#include "support/fault.h"
#include "support/fixture.h"
#include "support/support.h"

#include "driver/driver.h"
#include <stdio.h>
#include <string.h>

static t_world world;
static ph_graph *graph;
static int32_t *x;
static char seen[512];

static const t_fixture fixture = {
    .world = &world, .graphs = {&graph}, .arrays = {{&x, 4, T_INTS, 0}}};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    seen[0] = 0;
    return 0;
}

FIXTURE(close_world)
{
    t_fixture_close(&fixture);
    return 0;
}

static ph_status add_one(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, x, x, 4, 1);
}

static void say(const char *what)
{
    strncat(seen, what, sizeof seen - strlen(seen) - 1);
    strncat(seen, " ", sizeof seen - strlen(seen) - 1);
}

static const char *const point_names[] = {
    "",           "capture_start", "capture_end",    "instantiate", "replay_start",
    "replay_end", "destroy",       "capture_prepare"};

static ph_status note(const ph_graph_hook_info *info, void *user)
{
    say(user ? user : point_names[info->point]);
    return PH_OK;
}

static ph_status refuse(const ph_graph_hook_info *info, void *user)
{
    (void)user;
    say("refuse");
    return ph_fail(PH_ERROR_CALLER, "no %s", point_names[info->point]);
}

static ph_hook *add(ph_graph *to, ph_graph_hook_point point, ph_graph_hook_fn fn, void *user)
{
    ph_hook *hook;
    assert_ok(ph_graph_hook_add(&hook, to, point, fn, user));
    return hook;
}

static void use_graph_once(void)
{
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_reset(graph));
}

/* ---- registries ---- */
TEST(TestGraphGlobalLifecycleHooks_test_register_run_unregister)
{
    for (int point = PH_HOOK_CAPTURE_START; point <= PH_HOOK_CAPTURE_PREPARE; point++) {
        ph_hook *hook = add(NULL, (ph_graph_hook_point)point, note, NULL);
        seen[0] = 0;
        use_graph_once();
        assert_memory_equal(seen, point_names[point], strlen(point_names[point]));
        ph_graph_hook_remove(hook);
        seen[0] = 0;
        use_graph_once();
        assert_string_equal(seen, "");
    }
}

static void check_registry(ph_graph_hook_point point)
{
    ph_hook *hook = add(NULL, point, note, "here");
    use_graph_once();
    assert_string_equal(seen, "here ");
    ph_graph_hook_remove(hook);
    use_graph_once();
    assert_string_equal(seen, "here ");
}

TEST(TestGraphInstantiateHooks_test_register_run_unregister)
{
    check_registry(PH_HOOK_INSTANTIATE);
}

TEST(TestGraphDestroyHooks_test_register_run_unregister)
{
    check_registry(PH_HOOK_DESTROY);
}

static void check_several(ph_graph_hook_point point)
{
    ph_hook *a = add(NULL, point, note, "a"), *b = add(NULL, point, note, "b");
    use_graph_once();
    assert_string_equal(seen, "a b ");
    ph_graph_hook_remove(a);
    ph_graph_hook_remove(b);
}

TEST(TestGraphInstantiateHooks_test_multiple_hooks_all_run)
{
    check_several(PH_HOOK_INSTANTIATE);
}

TEST(TestGraphDestroyHooks_test_multiple_hooks_all_run)
{
    check_several(PH_HOOK_DESTROY);
}

/* A failing hook neither keeps the next one from running nor fails the call. */
static void check_swallowing(ph_graph_hook_point point)
{
    ph_hook *bad = add(NULL, point, refuse, NULL), *good = add(NULL, point, note, "good");
    t_log_start();
    use_graph_once();
    assert_string_equal(seen, "refuse good ");
    assert_int_equal(t_log_count("(ignored)"), 1);
    t_log_stop();
    ph_graph_hook_remove(bad);
    ph_graph_hook_remove(good);
}

TEST(TestGraphInstantiateHooks_test_run_swallows_hook_errors)
{
    check_swallowing(PH_HOOK_INSTANTIATE);
}

TEST(TestGraphDestroyHooks_test_run_swallows_hook_errors)
{
    check_swallowing(PH_HOOK_DESTROY);
}

TEST(TestGraphGlobalLifecycleHooks_test_run_swallows_hook_errors)
{
    t_log_start();
    for (int point = PH_HOOK_CAPTURE_START; point <= PH_HOOK_CAPTURE_PREPARE; point++) {
        ph_hook *bad = add(NULL, (ph_graph_hook_point)point, refuse, NULL);
        ph_hook *good = add(NULL, (ph_graph_hook_point)point, note, NULL);
        seen[0] = 0;
        use_graph_once();
        assert_non_null(strstr(seen, "refuse "));
        assert_non_null(strstr(seen, point_names[point]));
        ph_graph_hook_remove(bad);
        ph_graph_hook_remove(good);
    }
    assert_int_equal(t_log_count("(ignored): no instantiate"), 1);
    t_log_stop();
}

TEST(TestGraphInstantiateHooks_test_fires_once_on_real_graph_instantiate)
{
    ph_hook *hook = add(NULL, PH_HOOK_INSTANTIATE, note, NULL);
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    for (int i = 0; i < 3; i++)
        assert_ok(ph_graph_replay(graph, world.stream));
    assert_string_equal(seen, "instantiate ");
    ph_graph_hook_remove(hook);
}

static uint64_t instantiated, destroyed;
static int destroys;

static ph_status note_id(const ph_graph_hook_info *info, void *user)
{
    *(uint64_t *)user = info->exec_id;
    destroys += info->point == PH_HOOK_DESTROY;
    assert_null(info->stream);
    return PH_OK;
}

TEST(TestGraphDestroyHooks_test_fires_with_recorded_exec_ids_on_teardown)
{
    destroys = 0;
    ph_hook *made = add(NULL, PH_HOOK_INSTANTIATE, note_id, &instantiated);
    ph_hook *gone = add(NULL, PH_HOOK_DESTROY, note_id, &destroyed);
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    for (int i = 0; i < 3; i++)
        assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(destroys, 0);
    assert_true(instantiated > 0);
    assert_ok(ph_graph_reset(graph));
    assert_int_equal(destroys, 1);
    assert_int_equal(destroyed, instantiated);
    assert_ok(ph_graph_reset(graph)); /* there is no executable now */
    assert_int_equal(destroys, 1);
    ph_graph_hook_remove(made);
    ph_graph_hook_remove(gone);
}

/* ---- order ---- */
TEST(TestGraphGlobalLifecycleHooks_test_fire_points_over_a_real_graph)
{
    ph_hook *hooks[7];
    for (int point = PH_HOOK_CAPTURE_START; point <= PH_HOOK_DESTROY; point++)
        hooks[point] = add(NULL, (ph_graph_hook_point)point, note, NULL);
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    assert_string_equal(seen, "capture_start capture_end instantiate ");
    seen[0] = 0;
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_string_equal(seen, "replay_start replay_end replay_start replay_end ");
    seen[0] = 0;
    assert_ok(ph_graph_reset(graph));
    assert_string_equal(seen, "destroy ");
    for (int point = PH_HOOK_CAPTURE_START; point <= PH_HOOK_DESTROY; point++)
        ph_graph_hook_remove(hooks[point]);
}

TEST(TestGraphGlobalLifecycleHooks_test_global_hooks_run_before_per_graph_hooks)
{
    for (int point = PH_HOOK_CAPTURE_START; point <= PH_HOOK_CAPTURE_PREPARE; point++) {
        ph_hook *own = add(graph, (ph_graph_hook_point)point, note, "per-graph");
        ph_hook *global = add(NULL, (ph_graph_hook_point)point, note, "global");
        seen[0] = 0;
        use_graph_once();
        assert_string_equal(seen, "global per-graph ");
        ph_graph_hook_remove(own);
        ph_graph_hook_remove(global);
    }
}

static ph_status check_live(const ph_graph_hook_info *info, void *user)
{
    *(bool *)user = ph_stream_is_capturing(info->stream) &&
                    ph_graph_get_state(info->graph) == PH_GRAPH_CAPTURING;
    return PH_OK;
}

TEST(TestGraphGlobalLifecycleHooks_test_capture_start_hook_sees_live_capture)
{
    bool live = false;
    ph_hook *hook = add(NULL, PH_HOOK_CAPTURE_START, check_live, &live);
    use_graph_once();
    assert_true(live);
    ph_graph_hook_remove(hook);
}

TEST(TestGraphGlobalLifecycleHooks_test_replay_end_hook_fires_when_launch_raises)
{
    ph_hook *start = add(NULL, PH_HOOK_REPLAY_START, note, NULL),
            *end = add(NULL, PH_HOOK_REPLAY_END, note, NULL);
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    uint64_t epoch = ph_graph_epoch(graph);
    seen[0] = 0;
    ph__driver_fail_after(0, PH__R_LAUNCH_FAILED);
    ph_status status = ph_graph_replay(graph, world.stream);
    ph__driver_fail_after(-1, 0);
    assert_int_equal(status, PH_ERROR_DEVICE);
    assert_native(719);
    assert_string_equal(seen, "replay_start replay_end ");
    assert_int_equal(ph_graph_epoch(graph), epoch);
    ph_graph_hook_remove(start);
    ph_graph_hook_remove(end);
    assert_ok(ph_graph_replay(graph, world.stream));
}

/* ---- failures of a graph's own hooks ---- */
TEST(test_failing_capture_start)
{
    ph_hook *hook = add(graph, PH_HOOK_CAPTURE_START, refuse, NULL);
    assert_error(ph_graph_capture_begin(graph, world.stream, NULL), PH_ERROR_CALLER,
                 "no capture_start");
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    assert_false(ph_stream_is_capturing(world.stream));
    ph_graph_hook_remove(hook);
    use_graph_once();
}

/* ---- before a capture ---- */
static ph_status check_not_yet(const ph_graph_hook_info *info, void *user)
{
    *(bool *)user =
        !ph_stream_is_capturing(info->stream) && ph_graph_get_state(info->graph) == PH_GRAPH_NEW;
    return PH_OK;
}

TEST(test_capture_prepare_comes_first)
{
    bool not_yet = false;
    ph_hook *look = add(NULL, PH_HOOK_CAPTURE_PREPARE, check_not_yet, &not_yet),
            *start = add(graph, PH_HOOK_CAPTURE_START, note, NULL),
            *prepare = add(graph, PH_HOOK_CAPTURE_PREPARE, note, NULL);
    use_graph_once();
    assert_true(not_yet);
    assert_string_equal(seen, "capture_prepare capture_start ");
    seen[0] = 0;
    assert_error(ph_graph_capture_begin(graph, ph_device_default_stream(world.device), NULL),
                 PH_ERROR_DEFAULT_STREAM, "default stream");
    assert_string_equal(seen, ""); /* refused before */
    ph_graph_hook_remove(look);
    ph_graph_hook_remove(start);
    ph_graph_hook_remove(prepare);
}

TEST(test_failing_capture_prepare)
{
    ph_hook *hook = add(graph, PH_HOOK_CAPTURE_PREPARE, refuse, NULL);
    assert_error(ph_graph_capture_begin(graph, world.stream, NULL), PH_ERROR_CALLER,
                 "no capture_prepare");
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    assert_false(ph_stream_is_capturing(world.stream));
    ph_graph_hook_remove(hook);
    use_graph_once();
}

static ph_status destroy_stream(const ph_graph_hook_info *info, void *user)
{
    (void)user;
    ph_stream_destroy(info->stream);
    return PH_OK;
}

TEST(test_failing_capture_end_and_instantiate)
{
    for (int point = PH_HOOK_CAPTURE_END; point <= PH_HOOK_INSTANTIATE; point++) {
        ph_hook *hook = add(graph, (ph_graph_hook_point)point, refuse, NULL);
        assert_error(ph_graph_capture(graph, world.stream, NULL, add_one, NULL), PH_ERROR_CALLER,
                     point_names[point]);
        assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_FAILED);
        assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_CALLER, point_names[point]);
        ph_graph_hook_remove(hook);
        use_graph_once();
    }
}

TEST(test_failing_replay_hooks)
{
    int32_t value;
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    ph_hook *start = add(graph, PH_HOOK_REPLAY_START, refuse, NULL),
            *end = add(graph, PH_HOOK_REPLAY_END, note, NULL);
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_CALLER, "no replay_start");
    assert_string_equal(seen, "refuse ");
    ph_graph_hook_remove(start);
    ph_graph_hook_remove(end);
    end = add(graph, PH_HOOK_REPLAY_END, refuse, NULL);
    t_log_start();
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(t_log_count("no replay_end"), 1);
    t_log_stop();
    t_read(&value, x, sizeof value, world.stream);
    assert_int_equal(value, 1);
    ph_graph_hook_remove(end);
}

/* ---- from inside ---- */
static ph_hook *self;

static ph_status remove_self(const ph_graph_hook_info *info, void *user)
{
    (void)info;
    ph_graph_hook_remove(self);
    say(user);
    self = add(NULL, PH_HOOK_REPLAY_START, note, "added");
    return PH_OK;
}

TEST(test_changes_during_a_run)
{
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    self = add(NULL, PH_HOOK_REPLAY_START, remove_self, "once");
    ph_hook *last = add(NULL, PH_HOOK_REPLAY_START, note, "last");
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_string_equal(seen, "once last ");
    seen[0] = 0;
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_string_equal(seen, "last added ");
    ph_graph_hook_remove(last);
    ph_graph_hook_remove(self);
}

static ph_status try_everything(const ph_graph_hook_info *info, void *user)
{
    const ph_record *record;
    void *raw;
    (void)user;
    assert_error(ph_graph_reset(info->graph), PH_ERROR_STATE, "from inside a hook");
    assert_error(ph_graph_replay(info->graph, world.stream), PH_ERROR_STATE, "from inside a hook");
    assert_error(ph_graph_capture_end(info->graph, PH_OK), PH_ERROR_STATE, "from inside a hook");
    if (info->point != PH_HOOK_CAPTURE_END)
        return PH_OK;
    assert_ok(ph_graph_record(&record, info->graph));
    assert_int_equal(ph_record_node_count(record), 1);
    assert_ok(t_raw(&raw, info->graph)); /* also without keep_graph */
    assert_non_null(raw);
    return PH_OK;
}

TEST(test_calls_from_inside)
{
    ph_hook *hooks[8];
    for (int point = PH_HOOK_CAPTURE_START; point <= PH_HOOK_CAPTURE_PREPARE; point++)
        hooks[point] = add(graph, (ph_graph_hook_point)point, try_everything, NULL);
    use_graph_once();
    for (int point = PH_HOOK_CAPTURE_START; point <= PH_HOOK_CAPTURE_PREPARE; point++)
        ph_graph_hook_remove(hooks[point]);
}

static ph_status destroy_it(const ph_graph_hook_info *info, void *user)
{
    (void)user;
    ph_graph_destroy(info->graph);
    return PH_OK;
}

TEST(test_capture_prepare_may_destroy)
{
    ph_stream *stream;
    ph_graph *other;
    assert_ok(ph_stream_create(&stream, world.device, NULL));
    ph_hook *hook = add(graph, PH_HOOK_CAPTURE_PREPARE, destroy_stream, NULL);
    assert_error(ph_graph_capture_begin(graph, stream, NULL), PH_ERROR_ARGUMENT, "destroyed");
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    ph_graph_hook_remove(hook);
    assert_ok(ph_graph_create(&other, NULL));
    hook = add(other, PH_HOOK_CAPTURE_PREPARE, destroy_it, NULL);
    assert_error(ph_graph_capture_begin(other, world.stream, NULL), PH_ERROR_STATE,
                 "destroyed by one of its own hooks");
    assert_false(ph_stream_is_capturing(world.stream));
    ph_graph_hook_remove(hook);
    use_graph_once();
}

TEST(test_destroy_from_inside)
{
    for (int point = PH_HOOK_CAPTURE_START; point <= PH_HOOK_INSTANTIATE; point++) {
        ph_graph *doomed;
        assert_ok(ph_graph_create(&doomed, NULL));
        ph_hook *hook = add(doomed, (ph_graph_hook_point)point, destroy_it, NULL);
        assert_error(ph_graph_capture(doomed, world.stream, NULL, add_one, NULL), PH_ERROR_STATE,
                     "destroyed by one of its own hooks");
        assert_false(ph_stream_is_capturing(world.stream));
        ph_graph_hook_remove(hook);
    }
    for (int point = PH_HOOK_REPLAY_START; point <= PH_HOOK_REPLAY_END; point++) {
        ph_graph *doomed;
        assert_ok(ph_graph_create(&doomed, NULL));
        assert_ok(ph_graph_capture(doomed, world.stream, NULL, add_one, NULL));
        ph_hook *hook = add(doomed, (ph_graph_hook_point)point, destroy_it, NULL);
        assert_status(ph_graph_replay(doomed, world.stream),
                      point == PH_HOOK_REPLAY_START ? PH_ERROR_STATE : PH_OK);
        ph_graph_hook_remove(hook);
    }
}

/* A handle outlives its graph. */
TEST(test_handle_outlives_the_graph)
{
    ph_graph *other;
    assert_ok(ph_graph_create(&other, NULL));
    ph_hook *hook = add(other, PH_HOOK_REPLAY_START, note, NULL);
    ph_graph_destroy(other);
    ph_graph_hook_remove(hook);
    ph_graph_hook_remove(NULL);
}

TEST(wrong_arguments_are_refused)
{
    ph_hook *hook;
    assert_status(ph_graph_hook_add(NULL, NULL, PH_HOOK_DESTROY, note, NULL), PH_ERROR_ARGUMENT);
    assert_error(ph_graph_hook_add(&hook, NULL, PH_HOOK_DESTROY, NULL, NULL), PH_ERROR_ARGUMENT,
                 "fn is NULL");
    assert_error(ph_graph_hook_add(&hook, NULL, (ph_graph_hook_point)9, note, NULL),
                 PH_ERROR_ARGUMENT, "9 is no hook point");
    assert_null(hook);
}

static ph_status begin_other(const ph_graph_hook_info *info, void *user)
{
    return ph_graph_capture_begin(user, info->stream, NULL);
}

/* A replay-start hook that begins a capture on the replay's stream: the replay becomes a node of
 * it. */
TEST(test_hook_that_captures)
{
    ph_graph *other;
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, add_one, NULL));
    ph_hook *hook = add(graph, PH_HOOK_REPLAY_START, begin_other, other);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_ok(add_one(world.stream, NULL));
    assert_ok(ph_graph_capture_end(other, PH_OK));
    ph_graph_hook_remove(hook);
    assert_ok(ph_graph_replay(other, world.stream));
    t_all(x, 4, 2, world.stream);
    ph_graph_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(TestGraphGlobalLifecycleHooks_test_register_run_unregister),
        IN_WORLD(TestGraphInstantiateHooks_test_register_run_unregister),
        IN_WORLD(TestGraphInstantiateHooks_test_multiple_hooks_all_run),
        IN_WORLD(TestGraphInstantiateHooks_test_run_swallows_hook_errors),
        IN_WORLD(TestGraphDestroyHooks_test_register_run_unregister),
        IN_WORLD(TestGraphDestroyHooks_test_multiple_hooks_all_run),
        IN_WORLD(TestGraphDestroyHooks_test_run_swallows_hook_errors),
        IN_WORLD(TestGraphGlobalLifecycleHooks_test_run_swallows_hook_errors),
        IN_WORLD(TestGraphInstantiateHooks_test_fires_once_on_real_graph_instantiate),
        IN_WORLD(TestGraphDestroyHooks_test_fires_with_recorded_exec_ids_on_teardown),
        IN_WORLD(TestGraphGlobalLifecycleHooks_test_fire_points_over_a_real_graph),
        IN_WORLD(TestGraphGlobalLifecycleHooks_test_global_hooks_run_before_per_graph_hooks),
        IN_WORLD(TestGraphGlobalLifecycleHooks_test_capture_start_hook_sees_live_capture),
        IN_WORLD(TestGraphGlobalLifecycleHooks_test_replay_end_hook_fires_when_launch_raises),
        IN_WORLD(test_failing_capture_start),
        IN_WORLD(test_capture_prepare_comes_first),
        IN_WORLD(test_failing_capture_prepare),
        IN_WORLD(test_capture_prepare_may_destroy),
        IN_WORLD(test_failing_capture_end_and_instantiate),
        IN_WORLD(test_failing_replay_hooks),
        IN_WORLD(test_changes_during_a_run),
        IN_WORLD(test_calls_from_inside),
        IN_WORLD(test_destroy_from_inside),
        IN_WORLD(test_handle_outlives_the_graph),
        IN_WORLD(wrong_arguments_are_refused),
        IN_WORLD(test_hook_that_captures),
    };
    return cmocka_run_group_tests_name("graph.hooks", tests, NULL, NULL);
}
