/* SPDX-License-Identifier: MIT */
/* tests/graph/upload.c: executables that are made without being uploaded, and ph_graph_upload.
 * What it answers in which state is states.c's, beside captures tests/rules's, and what
 * libcuda's failures make of it tests/cuda/upload.c's. */
#include "support/uploads.h"

#include "fake/fake_cuda.h"
#include "support/test.h"
#include <sched.h>

static const ph_graph_options keep_defer = {.keep_graph = true, .defer_upload = true};

static ph_status twos(ph_stream *stream, void *user)
{
    (void)user;
    return t_fill(&world, stream, x, N, 2);
}

/* On the device: other code may give memory back at that moment, but not on the software
 * libcuda. */
static void assert_measured(ph_graph *graph)
{
    if (fake_cuda())
        assert_true(executable_of(graph) > 0);
}

/* ---- calls of libcuda ---- none are counted where there is none, or a real one. */
typedef struct calls {
    int64_t upload, info, wait;
} calls;

static calls made(void)
{
    const fake_cuda_controls *fake = fake_cuda();
    return fake ? (calls){fake->calls_of("cuGraphUpload"), fake->calls_of("cuMemGetInfo"),
                          fake->calls_of("cuStreamSynchronize")}
                : (calls){0};
}

static void assert_calls(const calls *before, int upload, int info, int wait)
{
    calls now = made();
    if (!fake_cuda())
        return;
    assert_int_equal(now.upload - before->upload, upload);
    assert_int_equal(now.info - before->info, info);
    assert_int_equal(now.wait - before->wait, wait);
}

/* ---- tests ---- */
TEST(test_uploaded_when_it_is_made)
{
    calls before = made();
    ph_graph *graph = captured(NULL);
    assert_calls(&before, 1, 2, 1);
    assert_measured(graph);
    size_t bytes = executable_of(graph);
    before = made();
    assert_ok(ph_graph_upload(graph, world.stream));
    assert_ok(ph_graph_upload(graph, other));
    assert_calls(&before, 0, 0, 0);
    assert_int_equal(executable_of(graph), bytes);
    assert_replays(graph, other, 1);
    ph_graph_destroy(graph);
}

TEST(test_the_first_replay_uploads)
{
    calls before = made();
    ph_graph *graph = captured(&defer);
    assert_calls(&before, 0, 0, 0);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_READY);
    assert_int_equal(executable_of(graph), 0);
    assert_replays(graph, world.stream, 1);
    assert_replays(graph, other, 1);
    assert_int_equal(executable_of(graph), 0);
    assert_ok(ph_graph_upload(graph, other)); /* finds little to do */
    assert_replays(graph, world.stream, 1);
    ph_graph_destroy(graph);
}

TEST(test_uploads_once)
{
    ph_graph *graph = captured(&defer);
    calls before = made();
    assert_ok(ph_graph_upload(graph, other));
    assert_calls(&before, 1, 2, 0);
    assert_measured(graph);
    size_t bytes = executable_of(graph);
    assert_ok(ph_graph_upload(graph, other));
    assert_ok(ph_graph_upload(graph, world.stream));
    assert_calls(&before, 1, 2, 0);
    assert_int_equal(executable_of(graph), bytes);
    assert_replays(graph, other, 1);
    assert_replays(graph, world.stream, 1);
    assert_ok(ph_graph_reset(graph)); /* the option is the object's */
    assert_ok(ph_graph_capture(graph, world.stream, NULL, twos, NULL));
    assert_int_equal(executable_of(graph), 0);
    assert_ok(ph_graph_upload(graph, ph_device_default_stream(world.device)));
    assert_measured(graph);
    assert_replays(graph, world.stream, 2);
    ph_graph_destroy(graph);
}

TEST(test_what_has_no_executable_gets_one)
{
    const ph_graph_options keep = {.keep_graph = true};
    ph_graph *graph = captured(&keep_defer), *plain = captured(&keep);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_ENDED);
    calls before = made();
    assert_ok(ph_graph_upload(graph, world.stream));
    assert_calls(&before, 1, 2, 0);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_READY);
    assert_measured(graph);
    before = made();
    assert_ok(ph_graph_upload(plain, world.stream));
    assert_calls(&before, 1, 2, 1);
    assert_ok(ph_graph_instantiate(graph)); /* another one, not uploaded */
    assert_int_equal(executable_of(graph), 0);
    assert_ok(ph_graph_upload(graph, other));
    assert_measured(graph);
    assert_replays(graph, world.stream, 1);
    assert_replays(plain, world.stream, 1);
    ph_graph_destroy(graph);
    ph_graph_destroy(plain);
}

TEST(test_changes_before_the_upload)
{
    const struct t_fill_i32 args = {N, x, 7};
    const ph_launch_config config = t_config(N);
    for (int uploaded = 0; uploaded < 2; uploaded++) {
        ph_graph *graph = captured(&keep_defer), *from;
        assert_ok(ph_graph_instantiate(graph));
        assert_ok(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
        if (uploaded)
            assert_ok(ph_graph_upload(graph, other));
        assert_replays(graph, world.stream, 7);
        assert_ok(ph_graph_instantiate(graph));
        assert_ok(ph_graph_node_set_enabled(graph, 0, false));
        if (uploaded)
            assert_ok(ph_graph_upload(graph, other));
        assert_replays(graph, world.stream, -1);
        assert_ok(ph_graph_create(&from, &keep_defer));
        assert_ok(ph_graph_capture(from, world.stream, NULL, twos, NULL));
        assert_ok(ph_graph_instantiate(graph));
        assert_ok(ph_graph_update(graph, from, NULL));
        if (uploaded)
            assert_ok(ph_graph_upload(graph, other));
        assert_replays(graph, world.stream, 2);
        /* and behind it */
        assert_ok(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
        assert_replays(graph, world.stream, 7);
        ph_graph_destroy(from);
        ph_graph_destroy(graph);
    }
}

/* Nothing that the stream was given is done while the gate is closed, however often one looks. */
static void assert_waits(ph_stream *stream, const t_gate *gate)
{
    bool done = false;
    for (int i = 0; i < 2000 && !done; i++) {
        assert_ok(ph_stream_query(&done, stream));
        sched_yield();
    }
    if (t_gate_held(gate))
        assert_false(done);
}

/* The upload waits behind a gate, and so do replays on other streams, also on the one that
 * replayed last. */
static void check_order(ph_graph *graph)
{
    t_gate gate = {.behind = true};
    assert_ok(t_gate_wait_guarded(&gate, other));
    assert_ok(ph_graph_upload(graph, other));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_waits(world.stream, &gate);
    t_gate_open(&gate);
    t_all(x, N, 1, world.stream);
}

TEST(test_replays_come_after_it)
{
    ph_graph *graph = captured(&keep_defer);
    assert_ok(ph_graph_instantiate(graph));
    check_order(graph);
    assert_replays(graph, world.stream, 1);
    assert_ok(ph_graph_instantiate(graph));
    check_order(graph);
    assert_replays(graph, other, 1);
    assert_replays(graph, world.stream, 1);
    ph_graph_destroy(graph);
}

/* Changes of an executable whose upload waits apply to the replays that follow; and it may go
 * meanwhile. */
TEST(test_changes_while_the_upload_waits)
{
    const struct t_fill_i32 args = {N, x, 7};
    const ph_launch_config config = t_config(N);
    for (int goes = 0; goes < 2; goes++) {
        t_gate gate = {.behind = true};
        ph_graph *graph = captured(&defer);
        assert_ok(t_gate_wait_guarded(&gate, other));
        assert_ok(ph_graph_upload(graph, other));
        assert_ok(ph_graph_node_set_launch(graph, 0, &config, &args, sizeof args));
        if (!goes)
            assert_ok(ph_graph_replay(graph, world.stream));
        else
            ph_graph_destroy(graph);
        t_gate_open(&gate);
        assert_ok(ph_stream_synchronize(other));
        if (goes)
            continue;
        t_all(x, N, 7, world.stream);
        ph_graph_destroy(graph);
    }
}

/* Nothing was launched since, though one stream was told to wait: so another one must wait as
 * well. */
static ph_status refuse(const ph_graph_hook_info *info, void *user)
{
    (void)info;
    (void)user;
    return ph_fail(PH_ERROR_CALLER, "not now");
}

TEST(test_a_replay_that_was_refused)
{
    ph_hook *hook;
    ph_stream *third;
    t_gate gate = {.behind = true};
    ph_graph *graph = captured(&defer);
    assert_ok(ph_stream_create(&third, world.device, NULL));
    assert_ok(t_gate_wait_guarded(&gate, other));
    assert_ok(ph_graph_upload(graph, other));
    assert_ok(ph_graph_hook_add(&hook, graph, PH_HOOK_REPLAY_START, refuse, NULL));
    assert_status(ph_graph_replay(graph, world.stream), PH_ERROR_CALLER);
    ph_graph_hook_remove(hook);
    assert_ok(ph_graph_replay(graph, third));
    assert_waits(third, &gate);
    t_gate_open(&gate);
    t_all(x, N, 1, third);
    ph_graph_destroy(graph);
    ph_stream_destroy(third);
}

/* The stream, and the graph, may go right behind it. */
TEST(test_what_goes_behind_it)
{
    ph_stream *gone;
    ph_graph *graph = captured(&defer);
    assert_ok(ph_stream_create(&gone, world.device, NULL));
    assert_ok(ph_graph_upload(graph, gone));
    ph_stream_destroy(gone);
    assert_replays(graph, world.stream, 1);
    ph_graph_destroy(graph);
    graph = captured(&defer);
    assert_ok(ph_graph_upload(graph, other));
    ph_graph_destroy(graph);
    assert_ok(ph_stream_synchronize(other));
}

/* ---- captures ---- */
TEST(test_beside_captures)
{
    const ph_graph_options *const options[] = {&defer, NULL};
    ph_graph *outer;
    assert_ok(ph_graph_create(&outer, NULL));
    for (int i = 0; i < 2; i++) {
        ph_graph *graph = captured(options[i]);
        size_t bytes = executable_of(graph);
        assert_ok(ph_graph_capture_begin(outer, world.stream, NULL));
        assert_error(ph_graph_upload(graph, world.stream), PH_ERROR_CAPTURE, "ph_graph_upload");
        assert_native(900);
        assert_int_equal(executable_of(graph), bytes);
        /* a child graph: the executable has no part in it */
        assert_ok(ph_graph_replay(graph, world.stream));
        assert_ok(ph_graph_upload(graph, other));
        assert_ok(ph_graph_capture_end(outer, PH_OK));
        assert_measured(graph);
        assert_replays(outer, world.stream, 1);
        assert_replays(graph, world.stream, 1);
        ph_graph_destroy(graph);
        assert_ok(ph_graph_reset(outer));
    }
    ph_graph_destroy(outer);
}

/* A graph that has no executable does not get one by a call that is refused. */
TEST(test_the_default_stream)
{
    ph_stream *blocking, *legacy = ph_device_default_stream(world.device);
    ph_graph *outer, *graph = captured(&keep_defer);
    assert_ok(ph_stream_create(&blocking, world.device, &(ph_stream_options){.blocking = true}));
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture_begin(outer, blocking, NULL));
    assert_error(ph_graph_upload(graph, legacy), PH_ERROR_CAPTURE, "ph_graph_upload");
    assert_native(906);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_ENDED);
    assert_error(ph_graph_upload(graph, blocking), PH_ERROR_CAPTURE, "ph_graph_upload");
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_ENDED);
    assert_ok(t_fill(&world, blocking, x, N, 5));
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_ok(ph_graph_upload(graph, legacy));
    assert_replays(graph, world.stream, 1);
    assert_replays(outer, blocking, 5);
    ph_graph_destroy(outer);
    ph_graph_destroy(graph);
    ph_stream_destroy(blocking);
}

/* ---- hooks ---- */
static ph_status upload_inside(const ph_graph_hook_info *info, void *user)
{
    *(ph_status *)user = ph_graph_upload(info->graph, other);
    return PH_OK;
}

static ph_status destroy_inside(const ph_graph_hook_info *info, void *user)
{
    (void)user;
    ph_graph_destroy(info->graph);
    return PH_OK;
}

TEST(test_inside_its_own_hooks)
{
    ph_hook *hook;
    ph_status seen = PH_OK;
    ph_graph *graph = captured(&defer);
    assert_ok(ph_graph_hook_add(&hook, graph, PH_HOOK_REPLAY_START, upload_inside, &seen));
    assert_replays(graph, world.stream, 1);
    assert_int_equal(seen, PH_ERROR_STATE);
    ph_graph_hook_remove(hook);
    ph_graph_destroy(graph);
    graph = captured(&keep_defer);
    assert_ok(ph_graph_hook_add(&hook, graph, PH_HOOK_INSTANTIATE, destroy_inside, NULL));
    assert_status(ph_graph_upload(graph, world.stream), PH_ERROR_STATE);
    ph_graph_hook_remove(hook);
}

/* A capture that the hook of the new executable begins is as one that was there before. */
static ph_status capture_inside(const ph_graph_hook_info *info, void *user)
{
    (void)info;
    return ph_graph_capture_begin(user, other, NULL);
}

TEST(test_a_hook_that_captures)
{
    for (int replay = 0; replay < 2; replay++) {
        ph_hook *hook;
        ph_graph *outer, *graph = captured(&keep_defer);
        assert_ok(ph_graph_create(&outer, NULL));
        assert_ok(ph_graph_hook_add(&hook, graph, PH_HOOK_INSTANTIATE, capture_inside, outer));
        if (replay) {
            assert_ok(ph_graph_replay(graph, other)); /* a child graph */
        } else {
            assert_error(ph_graph_upload(graph, other), PH_ERROR_CAPTURE, "ph_graph_upload");
            assert_native(900);
            assert_ok(t_fill(&world, other, x, N, 1));
        }
        ph_graph_hook_remove(hook);
        assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_READY);
        assert_ok(ph_graph_capture_end(outer, PH_OK));
        assert_replays(outer, other, 1);
        assert_ok(ph_graph_upload(graph, other));
        assert_replays(graph, world.stream, 1);
        ph_graph_destroy(outer);
        ph_graph_destroy(graph);
    }
}

TEST(test_a_hook_that_fails)
{
    ph_hook *hook;
    ph_graph *graph = captured(&keep_defer);
    assert_ok(ph_graph_hook_add(&hook, graph, PH_HOOK_INSTANTIATE, refuse, NULL));
    assert_error(ph_graph_upload(graph, world.stream), PH_ERROR_CALLER, "not now");
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_FAILED);
    assert_error(ph_graph_upload(graph, world.stream), PH_ERROR_CALLER, "not now");
    ph_graph_hook_remove(hook);
    ph_graph_destroy(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_uploaded_when_it_is_made),
        IN_WORLD(test_the_first_replay_uploads),
        IN_WORLD(test_uploads_once),
        IN_WORLD(test_what_has_no_executable_gets_one),
        IN_WORLD(test_changes_before_the_upload),
        IN_WORLD(test_replays_come_after_it),
        IN_WORLD(test_changes_while_the_upload_waits),
        IN_WORLD(test_a_replay_that_was_refused),
        IN_WORLD(test_what_goes_behind_it),
        IN_WORLD(test_beside_captures),
        IN_WORLD(test_the_default_stream),
        IN_WORLD(test_inside_its_own_hooks),
        IN_WORLD(test_a_hook_that_captures),
        IN_WORLD(test_a_hook_that_fails),
    };
    return cmocka_run_group_tests_name("graph.upload", tests, NULL, NULL);
}
