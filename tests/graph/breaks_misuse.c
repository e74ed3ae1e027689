/* SPDX-License-Identifier: MIT */
/* tests/graph/breaks_misuse.c: breaks where none are allowed, functions that work against their
 * graph, and calls that a graph with breaks refuses. */
#include "support/fixture.h"
#include "support/killed.h"
#include "support/support.h"

#include <phonograph/cuda.h>
#include <phonograph/inspect/locate.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum {
    N = 100
};
static t_world world;
static ph_graph *graph, *other;
static ph_stream *side;
static int32_t *x, *y;
static int calls;

static const t_fixture fixture = {.world = &world,
                                  .streams = {&side},
                                  .graphs = {&graph, &other},
                                  .arrays = {{&x, N, T_INTS, 0}, {&y, N, T_INTS, 0}},
                                  .log = true,
                                  .leaves_nothing = true};
static const ph_capture_options allow = {.allow_breaks = true};
static const ph_capture_options defer = {.allow_breaks = true, .defer_breaks = true};

FIXTURE(open_world)
{
    t_fixture_open(&fixture);
    calls = 0;
    return 0;
}

FIXTURE(close_world)
{
    t_fixture_close(&fixture);
    return 0;
}

static ph_status count_call(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    calls++;
    return PH_OK;
}

static ph_status work(ph_stream *stream, void *user)
{
    PH_TRY(t_add(&world, stream, x, x, N, 1));
    PH_TRY(ph_break(stream, user ? *(ph_break_fn *)user : count_call, NULL));
    return t_add(&world, stream, x, y, N, 1);
}

static ph_graph *segment_of(ph_graph *whole, size_t index)
{
    ph_graph *segment;
    assert_ok(ph_graph_segment(&segment, whole, index));
    return segment;
}

/* ---- where a break is refused, and the capture goes on ---- */
typedef ph_status (*refused_fn)(ph_stream *stream);

static ph_status refused_body(ph_stream *stream, void *user)
{
    PH_TRY(t_add(&world, stream, x, x, N, 1));
    assert_int_not_equal((*(refused_fn *)user)(stream), PH_OK);
    return t_add(&world, stream, x, y, N, 1);
}

static void assert_goes_on(const ph_capture_options *options, refused_fn fn)
{
    assert_ok(ph_graph_capture(graph, world.stream, options, refused_body, &fn));
    assert_int_equal(calls, 0);
    assert_int_equal(ph_graph_segment_count(graph), 1);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 2, world.stream);
}

static ph_status plain_break(ph_stream *stream)
{
    ph_status status = ph_break(stream, count_call, NULL);
    assert_error(status, PH_ERROR_STATE, "ph_break: the capture allows no breaks");
    return status;
}

TEST(test_a_capture_has_to_allow_breaks)
{
    assert_goes_on(NULL, plain_break);
}

static ph_status break_with_fork(ph_stream *stream)
{
    char name[64];
    assert_ok(ph_stream_wait_stream(side, stream));
    assert_ok(t_add(&world, side, y, y, N, 1));
    ph_status status = ph_break(stream, count_call, NULL);
    snprintf(name, sizeof name, "stream %p", (void *)side);
    assert_error(status, PH_ERROR_STATE, name);
    assert_ok(ph_stream_wait_stream(stream, side));
    /* joined once, and given more work */
    assert_ok(t_add(&world, side, y, y, N, 1));
    assert_error(ph_break(stream, count_call, NULL), PH_ERROR_STATE, name);
    assert_ok(ph_stream_wait_stream(stream, side));
    return status;
}

TEST(test_forks_have_to_be_joined)
{
    assert_goes_on(&allow, break_with_fork);
}

static ph_status break_on_fork(ph_stream *stream)
{
    assert_ok(ph_stream_wait_stream(side, stream));
    ph_status status = ph_break(side, count_call, NULL);
    assert_error(status, PH_ERROR_STATE, "has joined the capture");
    assert_ok(ph_stream_wait_stream(stream, side));
    return status;
}

TEST(test_a_break_is_on_the_stream_of_the_capture)
{
    assert_goes_on(&allow, break_on_fork);
}

static ph_status break_without_function(ph_stream *stream)
{
    ph_status status = ph_break(stream, NULL, NULL);
    assert_error(status, PH_ERROR_ARGUMENT, "fn is NULL");
    assert_error(ph_break(NULL, count_call, NULL), PH_ERROR_ARGUMENT, "stream is NULL");
    return status;
}

TEST(test_arguments_of_a_break)
{
    assert_goes_on(&allow, break_without_function);
    ph_graph *segment;
    assert_error(ph_graph_segment(NULL, graph, 0), PH_ERROR_ARGUMENT, "out is NULL");
    assert_error(ph_graph_segment(&segment, NULL, 0), PH_ERROR_ARGUMENT, "graph is NULL");
    assert_error(ph_graph_segment(&segment, graph, 1), PH_ERROR_NOT_FOUND, "1 segment");
    assert_null(segment);
    assert_int_equal(ph_graph_segment_count(NULL), 0);
    assert_error(ph_graph_capture(other, world.stream, &(ph_capture_options){.defer_breaks = true},
                                  work, NULL),
                 PH_ERROR_ARGUMENT, "set allow_breaks too");
}

static void *break_elsewhere(void *stream)
{
    assert_error(ph_break(stream, count_call, NULL), PH_ERROR_STATE, "by another thread");
    return NULL;
}

static ph_status break_on_thread(ph_stream *stream)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, break_elsewhere, stream), 0);
    pthread_join(thread, NULL);
    return PH_ERROR_STATE;
}

TEST(test_a_break_is_on_the_thread_of_the_capture)
{
    assert_goes_on(&allow, break_on_thread);
}

static ph_status in_hook(const ph_graph_hook_info *info, void *user)
{
    (void)user;
    assert_error(ph_break(info->stream, count_call, NULL), PH_ERROR_STATE, "in a hook");
    return PH_OK;
}

TEST(test_hooks_make_no_breaks)
{
    ph_hook *hook;
    assert_ok(ph_graph_hook_add(&hook, graph, PH_HOOK_CAPTURE_START, in_hook, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, &allow, work, NULL));
    assert_int_equal(ph_graph_segment_count(graph), 2);
    ph_graph_hook_remove(hook);
}

/* A call that a capture does not survive is found at the segment's end. */
static ph_status dead_before_break(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_add(&world, stream, x, x, N, 1));
    (void)t_synchronize_at_driver(stream);
    return ph_break(stream, count_call, NULL);
}

TEST(test_a_dead_capture_fails_at_its_break)
{
    assert_error(ph_graph_capture(graph, world.stream, &allow, dead_before_break, NULL),
                 PH_ERROR_CAPTURE, "ph_break");
    assert_int_equal(calls, 0);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_FAILED);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, &allow, work, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
}

/* ---- functions against their graph ---- */
static ph_status use_own_graph(ph_stream *stream, void *user)
{
    (void)user;
    calls++;
    assert_error(ph_graph_replay(graph, stream), PH_ERROR_STATE,
                 "the function of one of its breaks");
    assert_error(ph_graph_reset(graph), PH_ERROR_STATE, "the function of one of its breaks");
    assert_status(ph_graph_capture_end(graph, PH_OK), PH_ERROR_STATE);
    ph_graph_capture_abort(graph); /* does nothing */
    return PH_OK;
}

TEST(test_a_function_does_not_replay_or_reset_its_graph)
{
    ph_break_fn fn = use_own_graph;
    assert_ok(ph_graph_capture(graph, world.stream, &allow, work, &fn));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(calls, 2);
    t_all(y, N, 2, world.stream);
}

static ph_status destroy_own_graph(ph_stream *stream, void *user)
{
    (void)stream;
    (void)user;
    ph_graph_destroy(graph);
    return PH_OK;
}

TEST(test_a_function_destroys_its_graph)
{
    ph_break_fn fn = destroy_own_graph;
    assert_ok(ph_graph_capture(graph, world.stream, &defer, work, &fn));
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STATE, "destroyed the graph");
    assert_ok(ph_graph_create(&graph, NULL));
    assert_error(ph_graph_capture(graph, world.stream, &allow, work, &fn), PH_ERROR_STATE,
                 "destroyed the graph");
    assert_ok(ph_graph_create(&graph, NULL));
    assert_ok(ph_graph_capture_begin(graph, world.stream, &allow));
    assert_error(ph_break(world.stream, destroy_own_graph, NULL), PH_ERROR_STATE,
                 "destroyed the graph");
    assert_false(ph_stream_is_capturing(world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
}

static ph_status leave_capture_open(ph_stream *stream, void *user)
{
    (void)user;
    return ph_graph_capture_begin(other, stream, NULL);
}

TEST(test_a_function_leaves_no_capture_open)
{
    ph_break_fn fn = leave_capture_open;
    assert_ok(ph_graph_capture(graph, world.stream, &defer, work, &fn));
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STATE, "left a capture open");
    assert_ok(ph_graph_reset(other));
    assert_ok(ph_graph_reset(graph));
    assert_error(ph_graph_capture(graph, world.stream, &allow, work, &fn), PH_ERROR_STATE,
                 "left a capture open");
    assert_ok(ph_graph_reset(other));
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, &defer, work, NULL));
}

static ph_status capture_into_pool(ph_stream *stream, void *user)
{
    ph_pool *pool = user;
    (void)stream;
    return ph_graph_capture(other, side, &(ph_capture_options){.pool = pool}, work, NULL);
}

static ph_status pool_body(ph_stream *stream, void *user)
{
    int32_t *block;
    PH_TRY(PH_NEW(&block, N, stream));
    PH_TRY(t_fill(&world, stream, block, N, 1));
    ph_status status = ph_break(stream, capture_into_pool, user);
    ph_free(block, stream);
    return status;
}

TEST(test_the_pool_of_the_capture_is_busy_in_a_break)
{
    ph_pool *pool;
    assert_ok(ph_pool_create(&pool, world.device, NULL));
    assert_error(ph_graph_capture(graph, world.stream,
                                  &(ph_capture_options){.allow_breaks = true, .pool = pool},
                                  pool_body, pool),
                 PH_ERROR_POOL_BUSY, "the break after segment 0");
    ph_pool_release(pool);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_reset(other));
}

static ph_status abort_after_break(ph_stream *stream, void *user)
{
    PH_TRY(work(stream, user));
    return ph_fail(PH_ERROR_CALLER, "enough");
}

TEST(test_an_abort_drops_the_segments_too)
{
    assert_status(ph_graph_capture(graph, world.stream, &allow, abort_after_break, NULL),
                  PH_ERROR_CALLER);
    assert_false(ph_stream_is_capturing(world.stream));
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture_begin(graph, world.stream, &allow));
    assert_ok(work(world.stream, NULL));
    ph_graph_capture_abort(graph);
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_NEW);
    assert_ok(ph_graph_capture_begin(graph, world.stream, &allow));
    assert_ok(work(world.stream, NULL));
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, &allow, work, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
}

/* ---- what a graph with breaks refuses ---- */
static ph_status replay_user(ph_stream *stream, void *user)
{
    return ph_graph_replay(user, stream);
}

TEST(test_a_graph_with_breaks_is_no_child_graph)
{
    assert_ok(ph_graph_capture(graph, world.stream, &defer, work, NULL));
    assert_error(ph_graph_capture(other, world.stream, NULL, replay_user, graph),
                 PH_ERROR_UNSUPPORTED, "nobody would call its functions");
    assert_ok(ph_graph_reset(other));
    /* one of its segments is one */
    assert_ok(ph_graph_capture(other, world.stream, NULL, replay_user, segment_of(graph, 1)));
    assert_ok(ph_graph_replay(other, world.stream));
    t_all(y, N, 1, world.stream);
}

TEST(test_calls_about_nodes_take_segments)
{
    static const char words[] = "pass a graph of ph_graph_segment, which gives its 2 segments";
    size_t count;
    bool enabled;
    ph_progress progress;
    ph_verify_result verified;
    const ph_diff *diff;
    assert_ok(ph_graph_capture(graph, world.stream, &defer, work, NULL));
    assert_ok(
        ph_graph_capture(other, world.stream, NULL, refused_body, &(refused_fn){plain_break}));
    assert_error(ph_graph_node_set_enabled(graph, 0, false), PH_ERROR_UNSUPPORTED, words);
    assert_error(ph_graph_node_get_enabled(&enabled, graph, 0), PH_ERROR_UNSUPPORTED, words);
    assert_error(ph_graph_replay_with(graph, world.stream, &(ph_slot_value){0}, 1),
                 PH_ERROR_UNSUPPORTED, "slots are of one segment");
    assert_error(ph_graph_update(graph, other, NULL), PH_ERROR_UNSUPPORTED, words);
    assert_error(ph_graph_update(other, graph, NULL), PH_ERROR_UNSUPPORTED, words);
    assert_error(ph_graph_input_count(&count, graph), PH_ERROR_UNSUPPORTED, words);
    assert_error(ph_graph_where(&progress, graph), PH_ERROR_UNSUPPORTED, words);
    assert_error(ph_graph_verify(&verified, graph, world.stream, work, NULL, NULL),
                 PH_ERROR_UNSUPPORTED, words);
    assert_status(ph_graph_update_diff(&diff, graph), PH_ERROR_NOT_FOUND);
    assert_int_equal(ph_graph_slot_count(graph), 0);
    assert_ok(ph_graph_node_set_enabled(segment_of(graph, 1), 0, false));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 1, world.stream);
    t_all(y, N, 0, world.stream);
    assert_ok(ph_graph_node_set_enabled(segment_of(graph, 1), 0, true));
    assert_ok(ph_graph_update(segment_of(graph, 1), segment_of(graph, 1), NULL));
}

TEST(test_segments_live_as_long_as_their_graph)
{
    assert_ok(ph_graph_capture(graph, world.stream, &defer, work, NULL));
    ph_graph *segment = segment_of(graph, 1);
    assert_error(ph_graph_reset(segment), PH_ERROR_STATE, "is a segment of graph");
    ph_graph_destroy(segment);
    assert_int_equal(t_log_count("is a segment of graph"), 1);
    assert_ok(ph_graph_replay(segment, world.stream)); /* alone */
    t_all(x, N, 0, world.stream);
    t_all(y, N, 1, world.stream);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 2, world.stream);
}

TEST(test_an_import_has_no_breaks)
{
    void *native;
    t_not_on_host("the host device imports no graphs");
    ph_graph *kept;
    assert_ok(ph_graph_create(&kept, &(ph_graph_options){.keep_graph = true}));
    assert_ok(ph_graph_capture(kept, world.stream, &defer, work, NULL));
    assert_error(t_raw(&native, kept), PH_ERROR_UNSUPPORTED, "ph_graph_segment");
    assert_ok(t_raw(&native, segment_of(kept, 0)));
    assert_error(ph_graph_import_cuda(graph, world.device, native, &allow), PH_ERROR_UNSUPPORTED,
                 "leave allow_breaks off");
    ph_graph_destroy(kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_a_capture_has_to_allow_breaks),
        IN_WORLD(test_forks_have_to_be_joined),
        IN_WORLD(test_a_break_is_on_the_stream_of_the_capture),
        IN_WORLD(test_a_break_is_on_the_thread_of_the_capture),
        IN_WORLD(test_arguments_of_a_break),
        IN_WORLD(test_hooks_make_no_breaks),
        IN_WORLD(test_a_dead_capture_fails_at_its_break),
        IN_WORLD(test_a_function_does_not_replay_or_reset_its_graph),
        IN_WORLD(test_a_function_destroys_its_graph),
        IN_WORLD(test_a_function_leaves_no_capture_open),
        IN_WORLD(test_the_pool_of_the_capture_is_busy_in_a_break),
        IN_WORLD(test_an_abort_drops_the_segments_too),
        IN_WORLD(test_a_graph_with_breaks_is_no_child_graph),
        IN_WORLD(test_calls_about_nodes_take_segments),
        IN_WORLD(test_segments_live_as_long_as_their_graph),
        IN_WORLD(test_an_import_has_no_breaks),
    };
    return cmocka_run_group_tests_name("graph.breaks_misuse", tests, NULL, NULL);
}
