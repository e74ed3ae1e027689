/* SPDX-License-Identifier: MIT */
/* tests/inspect/breadcrumbs.c: how far a replay came, as the crumbs at its scopes tell. */
#include "support/support.h"

#include "base/alloc.h"
#include "device/device.h"
#include <sched.h>
#include <stdio.h>
#include <string.h>

enum {
    N = 256
};
static t_world world;
static ph_stream *side;
static ph_graph *graph;
static int32_t *x, *y;
static t_gate gate, other_gate;
static const ph_capture_options with_crumbs = {.enable_annotations = true, .breadcrumbs = true};

static int open_world(void **state)
{
    (void)state;
    t_open(&world, NULL);
    assert_ok(ph_stream_create(&side, world.device, NULL));
    assert_ok(PH_NEW(&x, N, world.stream));
    assert_ok(PH_NEW(&y, N, world.stream));
    assert_ok(t_fill(&world, world.stream, x, N, 0));
    assert_ok(t_fill(&world, world.stream, y, N, 0));
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_graph_create(&graph, NULL));
    gate = other_gate = (t_gate){.open = 1};
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    t_gate_open(&gate); /* where a test failed */
    t_gate_open(&other_gate);
    assert_int_equal(ph_mark_depth(), 0);
    ph_graph_destroy(graph);
    ph_free(x, world.stream);
    ph_free(y, world.stream);
    ph_stream_destroy(side);
    t_close(&world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

/* ---- captures ---- */
/* x = value, y = value + 1; the gate is in "layer 3/attention". */
static ph_status body(ph_stream *stream, void *user)
{
    int32_t value = user ? *(const int32_t *)user : 1;
    PH_TRY(ph_mark_begin(stream, "first", NULL));
    PH_TRY(t_fill(&world, stream, x, N, value));
    PH_TRY(ph_mark_end(stream));
    PH_TRY(ph_mark_begin(stream, "layer 3", NULL));
    PH_TRY(t_fill(&world, stream, y, N, 0));
    PH_TRY(ph_mark_begin(stream, "attention", NULL));
    PH_TRY(t_gate_wait(&gate, stream));
    PH_TRY(t_add(&world, stream, x, y, N, 1));
    PH_TRY(ph_mark_end(stream));
    PH_TRY(ph_mark_end(stream));
    PH_TRY(ph_mark_begin(stream, "last", NULL));
    PH_TRY(t_add(&world, stream, y, y, N, 0));
    return ph_mark_end(stream);
}

static void capture(void)
{
    assert_ok(ph_graph_capture(graph, world.stream, &with_crumbs, body, NULL));
}

static void replay_and_wait(ph_graph *which)
{
    assert_ok(ph_graph_replay(which, world.stream));
    assert_ok(ph_stream_synchronize(world.stream));
}

static ph_progress where(void)
{
    ph_progress at;
    assert_ok(ph_graph_where(&at, graph));
    return at;
}

/* Waits until so many crumbs were passed in a replay that has not passed all. */
static ph_progress wait_until(size_t passed)
{
    for (;;) {
        ph_progress at = {0};
        if (ph_graph_where(&at, graph) == PH_OK && at.passed == passed)
            return at;
        sched_yield();
    }
}

static void assert_complete(size_t count)
{
    ph_progress at = where();
    assert_true(at.complete);
    assert_int_equal(at.passed, count);
    assert_int_equal(at.count, count);
    assert_int_equal(at.open_count, 0);
    assert_null(at.open);
    char whole[100];
    (void)snprintf(whole, sizeof whole,
                   "the last replay with breadcrumbs has passed all %zu crumbs; if it still", count);
    assert_ptr_equal(strstr(at.message, whole), at.message);
}

/* ---- where ---- */
static void test_a_replay_that_hangs(void **state)
{
    (void)state;
    capture();
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    for (int round = 0; round < 3; round++) {
        t_gate_shut(&gate);
        assert_ok(ph_graph_replay(graph, world.stream));
        if (t_gate_held(&gate)) {
            ph_progress at = wait_until(4);
            assert_false(at.complete);
            assert_int_equal(at.count, 8);
            assert_int_equal(at.open_count, 2);
            assert_string_equal(at.open[0], "layer 3/attention");
            assert_string_equal(at.open[1], "layer 3");
            assert_string_equal(at.last, "layer 3/attention");
            assert_string_equal(
                at.message,
                "the last replay has begun, and not ended, \"layer 3/attention\"; it has passed 4 of 8 "
                "crumbs, as the last one the beginning of \"layer 3/attention\"");
        }
        t_gate_open(&gate);
        assert_ok(ph_stream_synchronize(world.stream));
        assert_complete(8);
        assert_string_equal(where().last, "last");
        t_all(y, N, 2, world.stream);
    }
}

static ph_status first_is_late(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_fill(&world, stream, x, N, 1));
    PH_TRY(t_gate_wait(&gate, stream));
    PH_TRY(ph_mark_begin(stream, "a", NULL));
    PH_TRY(t_add(&world, stream, x, y, N, 1));
    PH_TRY(ph_mark_end(stream));
    PH_TRY(t_gate_wait(&other_gate, stream));
    PH_TRY(ph_mark_begin(stream, "b", NULL));
    return ph_mark_end(stream);
}

static void test_outside_all_scopes(void **state)
{
    (void)state;
    assert_ok(ph_graph_capture(graph, world.stream, &with_crumbs, first_is_late, NULL));
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    t_gate_shut(&gate);
    t_gate_shut(&other_gate);
    assert_ok(ph_graph_replay(graph, world.stream));
    if (t_gate_held(&gate)) {
        ph_progress at = wait_until(0);
        assert_null(at.last);
        assert_int_equal(at.open_count, 0);
        assert_non_null(strstr(at.message, "passed none of 4 crumbs: it has not come to \"a\""));
    }
    t_gate_open(&gate);
    if (t_gate_held(&other_gate)) {
        ph_progress at = wait_until(2);
        assert_int_equal(at.open_count, 0);
        assert_non_null(strstr(
            at.message, "between two scopes; it has passed 2 of 4 crumbs, as the last one the end of \"a\""));
    }
    t_gate_open(&other_gate);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_complete(4);
}

/* Scopes are those of threads: "b" is open on another one while "a" is on this one. */
static pthread_barrier_t steps;

static void *hold_b(void *status)
{
    *(ph_status *)status = ph_mark_begin(side, "b", NULL);
    (void)pthread_barrier_wait(&steps);
    (void)pthread_barrier_wait(&steps);
    ph_status ended = ph_mark_end(side);
    if (*(ph_status *)status == PH_OK)
        *(ph_status *)status = ended;
    return NULL;
}

static void test_scopes_on_several_streams(void **state)
{
    (void)state;
    ph_capture_options options = with_crumbs;
    ph_status status = PH_OK;
    pthread_t thread;
    options.mode = PH_CAPTURE_RELAXED;
    assert_int_equal(pthread_barrier_init(&steps, NULL, 2), 0);
    assert_ok(ph_graph_capture_begin(graph, world.stream, &options));
    assert_ok(t_fill(&world, world.stream, x, N, 1));
    assert_ok(ph_stream_wait_stream(side, world.stream));
    assert_int_equal(pthread_create(&thread, NULL, hold_b, &status), 0);
    (void)pthread_barrier_wait(&steps);
    assert_ok(ph_stream_wait_stream(world.stream, side));
    assert_ok(ph_mark_begin(world.stream, "a", NULL));
    assert_ok(t_gate_wait(&gate, world.stream));
    assert_ok(ph_mark_end(world.stream));
    assert_ok(t_gate_wait(&other_gate, world.stream));
    assert_ok(ph_stream_wait_stream(side, world.stream));
    (void)pthread_barrier_wait(&steps);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, PH_OK);
    (void)pthread_barrier_destroy(&steps);
    assert_ok(ph_stream_wait_stream(world.stream, side));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    t_gate_shut(&gate);
    t_gate_shut(&other_gate);
    assert_ok(ph_graph_replay(graph, world.stream));
    if (t_gate_held(&gate)) {
        ph_progress at = wait_until(2);
        assert_int_equal(at.open_count, 2);
        assert_string_equal(at.open[0], "a");
        assert_string_equal(at.open[1], "b");
        assert_non_null(strstr(at.message, "\"a\", \"b\"; it has passed 2 of 4"));
    }
    t_gate_open(&gate);
    if (t_gate_held(&other_gate)) {
        ph_progress at = wait_until(3);
        assert_int_equal(at.open_count, 1);
        assert_string_equal(at.open[0], "b");
        assert_string_equal(at.last, "a");
    }
    t_gate_open(&other_gate);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_complete(4);
}

/* What has no name of its own is called by what it adds. */
static ph_status unnamed(ph_stream *stream, void *user)
{
    (void)user;
    const ph_annotation_pair pairs[] = {
        {.key = "layer", .type = PH_ANNOTATION_INTEGER, .integer = -3},
        {.key = "kind", .text = "mlp"},
        {.key = "share", .type = PH_ANNOTATION_REAL, .real = 0.5},
        {.key = "on", .type = PH_ANNOTATION_BOOL, .boolean = true},
    };
    const ph_mark_options options = {.pairs = pairs, .count = 4};
    PH_TRY(t_fill(&world, stream, x, N, 1));
    PH_TRY(ph_mark_begin(stream, "block", NULL));
    PH_TRY(ph_mark_begin(stream, NULL, &options));
    PH_TRY(ph_mark_begin(stream, "block", NULL));
    PH_TRY(t_gate_wait(&gate, stream));
    PH_TRY(ph_mark_end(stream));
    PH_TRY(ph_mark_end(stream));
    return ph_mark_end(stream);
}

static void test_paths(void **state)
{
    (void)state;
    assert_ok(ph_graph_capture(graph, world.stream, &with_crumbs, unnamed, NULL));
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    t_gate_shut(&gate);
    assert_ok(ph_graph_replay(graph, world.stream));
    if (t_gate_held(&gate)) {
        ph_progress at = wait_until(3);
        assert_int_equal(at.open_count, 3);
        assert_string_equal(at.open[0], "block/layer=-3 kind=mlp share=0.5 on=true/block");
        assert_string_equal(at.open[2], "block");
    }
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(world.stream));
}

/* A scope that ends in no call on a stream of the capture has no second crumb: it is passed all the same. */
static ph_status unwound(ph_stream *stream, void *user)
{
    (void)user;
    size_t depth = ph_mark_depth();
    PH_TRY(ph_mark_begin(side, "not in the capture", NULL));
    PH_TRY(t_fill(&world, stream, x, N, 1));
    PH_TRY(ph_mark_begin(stream, "unwound", NULL));
    PH_TRY(t_fill(&world, stream, x, N, 2));
    ph_mark_unwind(depth);
    PH_TRY(ph_mark_begin(stream, "behind", NULL));
    PH_TRY(t_gate_wait(&gate, stream));
    return ph_mark_end(stream);
}

static void test_scopes_without_an_end(void **state)
{
    (void)state;
    assert_ok(ph_graph_capture(graph, world.stream, &with_crumbs, unwound, NULL));
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    t_gate_shut(&gate);
    assert_ok(ph_graph_replay(graph, world.stream));
    if (t_gate_held(&gate)) {
        ph_progress at = wait_until(2);
        assert_string_equal(at.open[0], "behind");
        assert_string_equal(at.open[1], "not in the capture/unwound");
    }
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_complete(3);
}

/* ---- behind the last crumb ---- */
static ph_status last_is_late(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_mark_begin(stream, "a", NULL));
    PH_TRY(t_fill(&world, stream, x, N, 1));
    PH_TRY(ph_mark_end(stream));
    return t_gate_wait(&gate, stream);
}

static void test_a_hang_behind_the_last_crumb(void **state)
{
    (void)state;
    assert_ok(ph_graph_capture(graph, world.stream, &with_crumbs, last_is_late, NULL));
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    t_gate_shut(&gate);
    assert_ok(ph_graph_replay(graph, world.stream));
    if (t_gate_held(&gate)) {
        ph_progress at = wait_until(2);
        assert_true(at.complete);
        assert_string_equal(
            at.message, "the last replay with breadcrumbs has passed all 2 crumbs; if it still runs, what "
                        "runs lies behind the last scope's end, or in no scope");
    }
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(world.stream));
}

static ph_status one_crumb(ph_stream *stream, void *user)
{
    (void)user;
    size_t depth = ph_mark_depth();
    PH_TRY(t_fill(&world, stream, x, N, 1));
    PH_TRY(t_gate_wait(&gate, stream));
    PH_TRY(ph_mark_begin(stream, "a", NULL));
    PH_TRY(t_fill(&world, stream, x, N, 2));
    ph_mark_unwind(depth);
    return PH_OK;
}

static void test_one_crumb(void **state)
{
    (void)state;
    assert_ok(ph_graph_capture(graph, world.stream, &with_crumbs, one_crumb, NULL));
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    t_gate_shut(&gate);
    assert_ok(ph_graph_replay(graph, world.stream));
    if (t_gate_held(&gate))
        assert_non_null(strstr(wait_until(0).message, "passed none of 1 crumb: it has not come to \"a\""));
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_string_equal(where().message,
                        "the last replay with breadcrumbs has passed the only crumb; if it still runs, "
                        "what runs lies behind the last crumb, or in no scope");
}

/* ---- on and off ---- */
static int64_t driver_calls_of_a_replay(ph_graph *which)
{
    replay_and_wait(which); /* the first one notes the stream */
    int64_t before = ph__driver_calls();
    assert_ok(ph_graph_replay(which, world.stream));
    int64_t calls = ph__driver_calls() - before;
    assert_ok(ph_stream_synchronize(world.stream));
    return calls;
}

static void test_off_costs_and_writes_nothing(void **state)
{
    (void)state;
    ph_graph *plain;
    ph_graph_memory memory;
    ph_progress at;
    assert_ok(ph_graph_create(&plain, NULL));
    assert_ok(ph_graph_capture(plain, world.stream, NULL, body, NULL));
    capture();
    assert_int_equal(driver_calls_of_a_replay(graph), driver_calls_of_a_replay(plain));
    assert_ok(ph_graph_get_memory(&memory, graph));
    assert_int_equal(memory.pinned, 0);
    assert_error(ph_graph_where(&at, graph), PH_ERROR_STATE, "no replay has begun");
    assert_null(at.open);
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    assert_error(ph_graph_where(&at, graph), PH_ERROR_STATE, "no replay has begun");
    assert_int_equal(driver_calls_of_a_replay(graph), driver_calls_of_a_replay(plain));
    assert_ok(ph_graph_get_memory(&memory, graph));
    assert_int_equal(memory.pinned, 9 * sizeof(uint64_t));
    assert_complete(8);
    assert_ok(ph_graph_breadcrumbs_enable(graph, false));
    t_gate_shut(&gate);
    assert_ok(ph_graph_replay(graph, world.stream));
    if (t_gate_held(&gate))
        assert_complete(8); /* of the one before it */
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    t_gate_shut(&gate);
    assert_ok(ph_graph_replay(graph, world.stream));
    if (t_gate_held(&gate))
        assert_int_equal(wait_until(4).open_count, 2);
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(world.stream));
    ph_graph_destroy(plain);
}

/* Nodes of the record are crumbs by their name. */
static bool is_crumb(size_t node)
{
    const ph_record *record;
    ph_node_info info;
    assert_ok(ph_graph_record(&record, graph));
    assert_ok(ph_record_node(&info, record, node));
    return strcmp(info.name, "phonograph_crumb") == 0;
}

static void test_crumbs_as_nodes(void **state)
{
    (void)state;
    const ph_record *record;
    size_t crumbs = 0, some = 0;
    bool enabled;
    capture();
    assert_ok(ph_graph_record(&record, graph));
    for (size_t i = 0; i < ph_record_node_count(record); i++) {
        if (!is_crumb(i))
            continue;
        crumbs++;
        some = i;
        assert_ok(ph_graph_node_get_enabled(&enabled, graph, i));
        assert_false(enabled);
    }
    assert_int_equal(crumbs, 8 + 1); /* and the one that comes before all */
    const uint64_t args[2] = {0};
    assert_error(ph_graph_node_set_launch(graph, some, NULL, args, sizeof args), PH_ERROR_UNSUPPORTED,
                 "ph_graph_breadcrumbs_enable");
    assert_ok(ph_graph_node_set_enabled(graph, some, true)); /* it has nothing to write yet */
    replay_and_wait(graph);
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    assert_ok(ph_graph_node_set_enabled(graph, some, false));
    replay_and_wait(graph);
    assert_int_equal(where().passed, 7);
}

static void test_a_new_executable(void **state)
{
    (void)state;
    ph_graph_options options = {.keep_graph = true};
    ph_graph_destroy(graph);
    assert_ok(ph_graph_create(&graph, &options));
    capture();
    assert_error(ph_graph_breadcrumbs_enable(graph, true), PH_ERROR_STATE, "no executable");
    assert_ok(ph_graph_instantiate(graph));
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    replay_and_wait(graph);
    assert_complete(8);
    assert_ok(ph_graph_instantiate(graph)); /* off again */
    t_gate_shut(&gate);
    assert_ok(ph_graph_replay(graph, world.stream));
    if (t_gate_held(&gate))
        assert_complete(8);
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(world.stream));
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    replay_and_wait(graph);
    assert_complete(8);
    assert_ok(ph_graph_reset(graph));
    ph_progress at;
    assert_error(ph_graph_where(&at, graph), PH_ERROR_STATE, "NEW");
    capture();
    assert_error(ph_graph_where(&at, graph), PH_ERROR_STATE, "no replay has begun");
}

/* ---- beside other features ---- */
static ph_status replay_it(ph_stream *stream, void *user)
{
    PH_TRY(t_fill(&world, stream, x, N, 5));
    return ph_graph_replay(user, stream);
}

static void test_a_copy_in_another_graph_writes_nothing(void **state)
{
    (void)state;
    ph_graph *outer;
    capture();
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    replay_and_wait(graph);
    assert_complete(8);
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture(outer, world.stream, &with_crumbs, replay_it, graph));
    assert_error(ph_graph_breadcrumbs_enable(outer, true), PH_ERROR_STATE, "left no breadcrumbs");
    t_gate_shut(&gate);
    assert_ok(ph_graph_replay(outer, world.stream));
    if (t_gate_held(&gate))
        assert_complete(8);
    t_gate_open(&gate);
    assert_ok(ph_stream_synchronize(world.stream));
    t_all(y, N, 2, world.stream);
    ph_graph_destroy(outer);
}

static ph_status elsewhere(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_fill(&world, stream, x, N, 1));
    PH_TRY(ph_mark_begin(stream, "a", NULL));
    PH_TRY(t_fill(&world, stream, x, N, 1));
    return ph_mark_end(stream);
}

static ph_status here(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_mark_begin(stream, "a", NULL));
    PH_TRY(t_fill(&world, stream, x, N, 1));
    PH_TRY(ph_mark_end(stream));
    return t_fill(&world, stream, x, N, 1);
}

static void test_updates(void **state)
{
    (void)state;
    ph_graph *from;
    int32_t value = 7;
    assert_ok(ph_graph_create(&from, NULL));
    assert_ok(ph_graph_capture(from, world.stream, &with_crumbs, body, &value));
    capture();
    for (int on = 0; on < 2; on++) {
        assert_ok(ph_graph_breadcrumbs_enable(graph, on == 1));
        assert_ok(ph_graph_update(graph, from, NULL));
        t_gate_shut(&gate);
        assert_ok(ph_graph_replay(graph, world.stream));
        if (t_gate_held(&gate) && on)
            assert_int_equal(wait_until(4).open_count, 2);
        t_gate_open(&gate);
        t_all(y, N, 8, world.stream);
        ph_progress at;
        if (!on)
            assert_status(ph_graph_where(&at, graph), PH_ERROR_STATE);
    }
    assert_complete(8);
    assert_ok(ph_graph_reset(from));
    assert_ok(ph_graph_capture(from, world.stream, NULL, body, &value));
    assert_error(ph_graph_update(graph, from, NULL), PH_ERROR_MISMATCH,
                 "from was captured without ph_capture_options.breadcrumbs, the graph with them");
    assert_error(ph_graph_update(from, graph, NULL), PH_ERROR_MISMATCH,
                 "the graph was captured without ph_capture_options.breadcrumbs, from with them");
    assert_ok(ph_graph_reset(from));
    assert_ok(ph_graph_capture(from, world.stream, &with_crumbs, here, NULL));
    assert_error(ph_graph_update(graph, from, NULL), PH_ERROR_MISMATCH,
                 "other scopes: it has 2 breadcrumbs, the graph 8");
    assert_ok(ph_graph_reset(from));
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, &with_crumbs, here, NULL));
    assert_ok(ph_graph_capture(from, world.stream, &with_crumbs, elsewhere, NULL));
    assert_error(ph_graph_update(graph, from, NULL), PH_ERROR_MISMATCH, "and not at the same nodes");
    ph_graph_destroy(from);
}

/* Crumbs are no inputs, and stand in no input's way. */
static void test_liveness(void **state)
{
    (void)state;
    ph_graph *plain;
    size_t count, without;
    ph_capture_options options = with_crumbs, checked = {.check_input_liveness = true};
    options.check_input_liveness = true;
    assert_ok(ph_graph_create(&plain, NULL));
    assert_ok(ph_graph_capture(plain, world.stream, &checked, body, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, &options, body, NULL));
    assert_ok(ph_graph_input_count(&count, graph));
    assert_ok(ph_graph_input_count(&without, plain));
    assert_int_equal(count, without);
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    replay_and_wait(graph);
    assert_complete(8);
    assert_ok(ph_graph_check_inputs(graph));
    ph_graph_destroy(plain);
}

/* ---- what is refused ---- */
static ph_status no_scopes(ph_stream *stream, void *user)
{
    (void)user;
    return t_fill(&world, stream, x, N, 1);
}

static bool enabled(size_t node)
{
    bool on = true;
    assert_ok(ph_graph_node_get_enabled(&on, graph, node));
    return on;
}

static void test_misuse(void **state)
{
    (void)state;
    ph_progress at;
    const ph_capture_options bare = {.breadcrumbs = true};
    assert_error(ph_graph_where(NULL, graph), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_graph_where(&at, NULL), PH_ERROR_ARGUMENT, "graph");
    assert_error(ph_graph_breadcrumbs_enable(NULL, true), PH_ERROR_ARGUMENT, "graph");
    assert_error(ph_graph_where(&at, graph), PH_ERROR_STATE, "NEW");
    assert_error(ph_graph_breadcrumbs_enable(graph, true), PH_ERROR_STATE, "NEW");
    assert_error(ph_graph_capture(graph, world.stream, &bare, body, NULL), PH_ERROR_ARGUMENT,
                 "enable_annotations");
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    assert_error(ph_graph_breadcrumbs_enable(graph, true), PH_ERROR_STATE,
                 "captured without breadcrumbs; set ph_capture_options.breadcrumbs");
    assert_error(ph_graph_breadcrumbs_enable(graph, false), PH_ERROR_STATE, "captured without breadcrumbs");
    assert_error(ph_graph_where(&at, graph), PH_ERROR_STATE,
                 "captured without breadcrumbs; set ph_capture_options.breadcrumbs");
    assert_null(strstr(ph_error_last()->message, "ph_graph_breadcrumbs_enable"));
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, &with_crumbs, no_scopes, NULL));
    assert_error(ph_graph_breadcrumbs_enable(graph, true), PH_ERROR_STATE, "after that has joined");
    assert_error(ph_graph_where(&at, graph), PH_ERROR_STATE, "no scope was begun");
    assert_false(enabled(0)); /* the crumb before all others */
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture(graph, world.stream, &with_crumbs, here, NULL));
    assert_error(ph_graph_where(&at, graph), PH_ERROR_STATE, "for replays that come later");
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_graph_capture_begin(graph, world.stream, &with_crumbs));
    assert_error(ph_graph_where(&at, graph), PH_ERROR_STATE, "CAPTURING");
    assert_status(ph_graph_capture_end(graph, ph_fail(PH_ERROR_CALLER, "the body's own words")),
                  PH_ERROR_CALLER);
    assert_error(ph_graph_where(&at, graph), PH_ERROR_CALLER, "the body's own words");
}

/* ---- no driver ---- */
static void test_reading_asks_no_driver(void **state)
{
    (void)state;
    capture();
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    replay_and_wait(graph);
    int64_t before = ph__driver_calls();
    ph__driver_fail_after(0, PH__R_ILLEGAL_ADDRESS);
    assert_complete(8);
    ph__driver_fail_after(-1, 0);
    assert_int_equal(ph__driver_calls(), before);
}

/* ---- several replays ---- */
static void test_many_replays_in_flight(void **state)
{
    (void)state;
    capture();
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    for (int i = 0; i < 200; i++) {
        assert_ok(ph_graph_replay(graph, i % 3 ? world.stream : side));
        ph_progress at;
        if (ph_graph_where(&at, graph) == PH_OK)
            assert_true(at.passed <= at.count && at.open_count <= 2);
    }
    assert_ok(ph_device_synchronize(world.device));
    assert_complete(8);
    assert_ok(ph_graph_replay(graph, side));
    assert_ok(ph_graph_reset(graph)); /* with a replay in flight: it keeps what it writes */
    assert_ok(ph_device_synchronize(world.device));
}

/* ---- threads ---- */
typedef struct worker {
    pthread_t thread;
    ph_stream *stream;
    int32_t *at;
    const char *name;
    ph_status status;
} worker;

enum {
    SCOPES = 20
};

static void *work(void *argument)
{
    worker *w = argument;
    for (int i = 0; i < SCOPES && w->status == PH_OK; i++) {
        w->status = ph_mark_begin(w->stream, w->name, NULL);
        if (w->status == PH_OK)
            w->status = t_fill(&world, w->stream, w->at, N, i);
        if (w->status == PH_OK)
            w->status = ph_mark_end(w->stream);
    }
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    ph_capture_options options = with_crumbs;
    worker workers[2] = {{.stream = world.stream, .at = x, .name = "mine"},
                         {.stream = side, .at = y, .name = "theirs"}};
    options.mode = PH_CAPTURE_RELAXED;
    assert_ok(ph_graph_capture_begin(graph, world.stream, &options));
    assert_ok(t_fill(&world, world.stream, x, N, 1));
    assert_ok(ph_stream_wait_stream(side, world.stream));
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
        assert_int_equal(workers[i].status, PH_OK);
    }
    assert_ok(ph_stream_wait_stream(world.stream, side));
    assert_ok(ph_graph_capture_end(graph, PH_OK));
    assert_ok(ph_graph_breadcrumbs_enable(graph, true));
    replay_and_wait(graph);
    assert_complete(2 * 2 * SCOPES);
    assert_true(strcmp(where().last, "mine") == 0 || strcmp(where().last, "theirs") == 0);
    t_all(x, N, SCOPES - 1, world.stream);
    t_all(y, N, SCOPES - 1, world.stream);
}

/* ---- failures ---- */
static ph_status scenario(void)
{
    PH_TRY(ph_graph_capture(graph, world.stream, &with_crumbs, body, NULL));
    PH_TRY(ph_graph_breadcrumbs_enable(graph, true));
    PH_TRY(ph_graph_replay(graph, world.stream));
    PH_TRY(ph_stream_wait_stream(side, world.stream));
    PH_TRY(ph_graph_replay(graph, side));
    PH_TRY(ph_graph_breadcrumbs_enable(graph, false));
    PH_TRY(ph_graph_breadcrumbs_enable(graph, true));
    return ph_stream_synchronize(side);
}

static void reset(ph_status status)
{
    if (status == PH_OK)
        assert_complete(8);
    ph_mark_unwind(0);
    assert_ok(ph_graph_reset(graph));
    assert_ok(ph_device_synchronize(world.device));
    assert_false(ph_stream_is_capturing(world.stream));
}

static void test_without_host_memory(void **state)
{
    (void)state;
    ph_status status = PH_ERROR_HOST_MEMORY;
    int64_t n;
    t_log_start();
    t_hold_context();
    for (n = 0; status != PH_OK; n++) {
        assert_int_equal(open_world(NULL), 0);
        ph__alloc_fail_after(n);
        status = scenario();
        ph__alloc_fail_after(PH__ALLOC_NEVER);
        if (status != PH_OK)
            assert_int_equal(status, PH_ERROR_HOST_MEMORY);
        reset(status);
        assert_ok(scenario());
        reset(PH_OK);
        assert_int_equal(close_world(NULL), 0);
        assert_true(n < 2000);
    }
    assert_true(n > 10);
    t_log_stop();
}

static void test_when_the_driver_fails(void **state)
{
    (void)state;
    int64_t failures = 0;
    t_log_start();
    t_hold_context();
    assert_int_equal(open_world(NULL), 0);
    int64_t before = ph__driver_calls();
    assert_ok(scenario());
    int64_t calls = ph__driver_calls() - before;
    reset(PH_OK);
    assert_int_equal(close_world(NULL), 0);
    for (int64_t n = 0; n < calls; n++) {
        assert_int_equal(open_world(NULL), 0);
        ph__driver_fail_after(n, PH__R_LAUNCH_FAILED);
        ph_status status = scenario();
        ph__driver_fail_after(-1, 0);
        failures += status != PH_OK;
        if (status != PH_OK)
            assert_true(ph_error_last()->message[0] != 0);
        ph_mark_unwind(0);
        assert_ok(ph_graph_reset(graph));
        assert_ok(ph_device_synchronize(world.device));
        assert_ok(scenario());
        reset(PH_OK);
        assert_int_equal(close_world(NULL), 0);
    }
    assert_true(failures > calls / 2);
    t_log_stop();
}

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, open_world, close_world)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_a_replay_that_hangs),
        WITH_WORLD(test_outside_all_scopes),
        WITH_WORLD(test_scopes_on_several_streams),
        WITH_WORLD(test_paths),
        WITH_WORLD(test_scopes_without_an_end),
        WITH_WORLD(test_a_hang_behind_the_last_crumb),
        WITH_WORLD(test_one_crumb),
        WITH_WORLD(test_off_costs_and_writes_nothing),
        WITH_WORLD(test_crumbs_as_nodes),
        WITH_WORLD(test_a_new_executable),
        WITH_WORLD(test_a_copy_in_another_graph_writes_nothing),
        WITH_WORLD(test_updates),
        WITH_WORLD(test_liveness),
        WITH_WORLD(test_misuse),
        WITH_WORLD(test_reading_asks_no_driver),
        WITH_WORLD(test_many_replays_in_flight),
        WITH_WORLD(test_threads),
        cmocka_unit_test(test_without_host_memory),
        cmocka_unit_test(test_when_the_driver_fails),
    };
    return cmocka_run_group_tests_name("inspect.breadcrumbs", tests, NULL, NULL);
}
