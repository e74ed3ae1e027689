/* SPDX-License-Identifier: MIT */
/* tests/graph/breaks.c: functions that a captured graph calls between two segments of its work:
 * what replays do, and what the graph shows. Refusals are breaks_misuse.c's. */
#include "support/fixture.h"
#include "support/support.h"

#include <phonograph/annotation.h>
#include <phonograph/block.h>
#include <phonograph/inspect/inputs.h>
#include <phonograph/inspect/locate.h>
#include <phonograph/inspect/profile.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    N = 1000
};
static t_world world;
static ph_graph *graph, *other;
static ph_stream *side;
static int32_t *x, *y, *held;
static int calls, fails_at; /* of the function; 0: it never fails */

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
    held = NULL;
    calls = fails_at = 0;
    return 0;
}

FIXTURE(close_world)
{
    ph_graph_destroy(graph);
    graph = NULL;
    ph_free(held, world.stream);
    t_fixture_close(&fixture);
    return 0;
}

/* Reads x on the host, which no graph could, and doubles it. */
static ph_status double_on_host(ph_stream *stream, void *user)
{
    int32_t value;
    (void)user;
    calls++;
    if (calls == fails_at)
        return ph_fail(PH_ERROR_CALLER, "the words of the function");
    PH_TRY(ph_memcpy(&value, x, sizeof value, stream));
    PH_TRY(ph_stream_synchronize(stream));
    return t_fill(&world, stream, x, N, 2 * value);
}

/* x = 2 * (x + 1), then + 1, doubled, then y = x + 10. `held` lives across both breaks. */
static ph_status work(ph_stream *stream, void *user)
{
    (void)user;
    if (!held)
        PH_TRY(PH_NEW(&held, N, stream));
    PH_TRY(t_add(&world, stream, x, held, N, 1));
    PH_TRY(t_add(&world, stream, held, x, N, 0));
    PH_TRY(ph_break(stream, double_on_host, NULL));
    PH_TRY(t_add(&world, stream, x, x, N, 1));
    PH_TRY(ph_break(stream, double_on_host, NULL));
    PH_TRY(t_add(&world, stream, x, y, N, 10));
    return t_add(&world, stream, held, x, N, 0);
}

static ph_graph *segment_of(size_t index)
{
    ph_graph *segment;
    assert_ok(ph_graph_segment(&segment, graph, index));
    return segment;
}

static ph_node_info node_of(const ph_record *record, size_t node)
{
    ph_node_info info;
    assert_ok(ph_record_node(&info, record, node));
    return info;
}

/* ---- replays ---- */
TEST(test_replays_alternate_segments_and_functions)
{
    assert_ok(ph_graph_capture(graph, world.stream, &allow, work, NULL));
    assert_int_equal(calls, 2); /* in the capture, too */
    assert_int_equal(ph_graph_segment_count(graph), 3);
    assert_ok(t_fill(&world, world.stream, x, N, 0));
    calls = 0;
    for (int i = 1; i <= 3; i++) { /* x is i at each end */
        assert_ok(ph_graph_replay(graph, i == 2 ? side : world.stream));
        assert_int_equal(calls, 2 * i);
        t_all(x, N, i, i == 2 ? side : world.stream);
        t_all(y, N, 2 * (2 * i + 1) + 10, i == 2 ? side : world.stream);
    }
}

TEST(test_outside_captures_the_function_is_called)
{
    assert_ok(work(world.stream, NULL));
    assert_int_equal(calls, 2);
    t_all(y, N, 16, world.stream);
}

TEST(test_deferred_breaks_call_nothing_in_the_capture)
{
    assert_ok(ph_graph_capture(graph, world.stream, &defer, work, NULL));
    assert_int_equal(calls, 0);
    assert_int_equal(ph_graph_segment_count(graph), 3);
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(calls, 2);
    t_all(y, N, 16, world.stream);
}

static ph_status no_breaks(ph_stream *stream, void *user)
{
    (void)user;
    return t_add(&world, stream, x, x, N, 1);
}

TEST(test_a_capture_without_breaks_is_a_graph_as_any_other)
{
    const ph_record *record;
    assert_ok(ph_graph_capture(graph, world.stream, &allow, no_breaks, NULL));
    assert_int_equal(ph_graph_segment_count(graph), 1);
    assert_ptr_equal(segment_of(0), graph);
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), 1);
    assert_ok(ph_graph_capture(other, world.stream, NULL, no_breaks, NULL));
    assert_int_equal(ph_graph_segment_count(other), 1);
}

TEST(test_a_failing_function_stops_the_replay)
{
    assert_ok(ph_graph_capture(graph, world.stream, &defer, work, NULL));
    fails_at = 2;
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_CALLER,
                 "ph_graph_replay: the break after segment 1");
    assert_non_null(strstr(ph_error_last()->message, "the words of the function"));
    t_all(x, N, 3, world.stream); /* what came before is done, and nothing else */
    t_all(y, N, 0, world.stream);
    fails_at = 0;
    assert_ok(t_fill(&world, world.stream, x, N, 0));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 16, world.stream);
}

TEST(test_a_failing_function_ends_the_capture)
{
    fails_at = 1;
    assert_error(ph_graph_capture(graph, world.stream, &allow, work, NULL), PH_ERROR_CALLER,
                 "the break after segment 0");
    assert_int_equal(ph_graph_get_state(graph), PH_GRAPH_FAILED);
    assert_int_equal(ph_graph_segment_count(graph), 0);
    assert_ok(ph_graph_reset(graph));
    fails_at = 0;
    assert_ok(ph_graph_capture(graph, world.stream, &defer, work, NULL));
    assert_ok(t_fill(&world, world.stream, x, N, 0));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 16, world.stream);
}

TEST(test_kept_templates_are_made_executable_together)
{
    const ph_graph_options keep = {.keep_graph = true};
    ph_graph *kept;
    assert_ok(ph_graph_create(&kept, &keep));
    assert_ok(ph_graph_capture(kept, world.stream, &defer, work, NULL));
    assert_int_equal(ph_graph_get_state(kept), PH_GRAPH_ENDED);
    assert_ok(ph_graph_replay(kept, world.stream));
    assert_int_equal(ph_graph_get_state(kept), PH_GRAPH_READY);
    t_all(y, N, 16, world.stream);
    assert_ok(ph_graph_instantiate(kept));
    assert_ok(t_fill(&world, world.stream, x, N, 0));
    assert_ok(ph_graph_replay(kept, world.stream));
    t_all(y, N, 16, world.stream);
    ph_graph_destroy(kept);
}

TEST(test_executables_are_uploaded_together)
{
    const ph_graph_options late = {.defer_upload = true};
    ph_graph *deferred;
    assert_ok(ph_graph_create(&deferred, &late));
    assert_ok(ph_graph_capture(deferred, world.stream, &defer, work, NULL));
    assert_ok(ph_graph_upload(deferred, side));
    assert_ok(ph_graph_replay(deferred, world.stream));
    t_all(y, N, 16, world.stream);
    ph_graph_destroy(deferred);
}

/* ---- memory ---- */
static int32_t *first, *second;

static ph_status two_blocks(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(PH_NEW(&first, N, stream));
    PH_TRY(t_fill(&world, stream, first, N, 5));
    PH_TRY(ph_break(stream, double_on_host, NULL));
    PH_TRY(PH_NEW(&second, N, stream));
    PH_TRY(t_fill(&world, stream, second, N, 7));
    PH_TRY(t_add(&world, stream, first, x, N, 1));
    PH_TRY(t_add(&world, stream, second, y, N, 1));
    ph_free(first, stream);
    ph_free(second, stream);
    return PH_OK;
}

TEST(test_memory_stays_taken_across_a_break)
{
    assert_ok(ph_graph_capture(graph, world.stream, &defer, two_blocks, NULL));
    assert_ptr_not_equal(first, second);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 6, world.stream);
    t_all(y, N, 8, world.stream);
}

/* It was freed in the last segment, as memory of the graph may be. */
TEST(test_memory_of_an_earlier_segment_is_no_input)
{
    const ph_capture_options checked = {
        .allow_breaks = true, .defer_breaks = true, .check_input_liveness = true};
    size_t count;
    assert_ok(ph_graph_capture(graph, world.stream, &checked, two_blocks, NULL));
    assert_ok(ph_graph_input_count(&count, segment_of(1)));
    assert_int_equal(count, 2); /* x and y */
    assert_ok(ph_graph_check_inputs(graph));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(x, N, 6, world.stream);
}

static int32_t *input;
static ph_status late_input(ph_stream *stream, void *user)
{
    PH_TRY(t_add(&world, stream, x, x, N, 1));
    PH_TRY(ph_break(stream, double_on_host, user));
    return t_add(&world, stream, input, y, N, 1);
}

TEST(test_a_dead_input_of_a_later_segment_stops_the_replay_first)
{
    const ph_capture_options checked = {
        .allow_breaks = true, .defer_breaks = true, .check_input_liveness = true};
    assert_ok(PH_NEW(&input, N, world.stream));
    assert_ok(ph_graph_capture(graph, world.stream, &checked, late_input, NULL));
    ph_free(input, world.stream);
    assert_error(ph_graph_check_inputs(graph), PH_ERROR_STALE_INPUT,
                 "ph_graph_check_inputs: segment 1: 1 dead input");
    assert_error(ph_graph_replay(graph, world.stream), PH_ERROR_STALE_INPUT,
                 "ph_graph_replay: segment 1: refused");
    assert_int_equal(calls, 0);
    t_all(x, N, 0, world.stream); /* the first segment did not run */
}

/* Pinned memory of the first segment that the second alone reads: a later owner must not get it. */
static int32_t *pinned;
static ph_status pinned_later(ph_stream *stream, void *user)
{
    void *block;
    PH_TRY(ph_malloc_pinned(&block, N, sizeof *pinned, stream));
    pinned = block;
    for (int i = 0; i < N; i++)
        pinned[i] = 3;
    PH_TRY(t_add(&world, stream, x, x, N, 0));
    PH_TRY(ph_break(stream, double_on_host, user));
    return ph_memcpy(y, pinned, N * sizeof *pinned, stream);
}

TEST(test_memory_born_before_a_break_is_held)
{
    assert_ok(ph_graph_capture(graph, world.stream, &defer, pinned_later, NULL));
    ph_free_pinned(pinned, NULL);
    void *again;
    assert_ok(ph_malloc_pinned(&again, N, sizeof *pinned, world.stream));
    assert_ptr_not_equal(again, pinned);
    memset(again, 1, N * sizeof *pinned);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 3, world.stream);
    ph_free_pinned(again, NULL);
}

TEST(test_outputs_are_overwritten_by_the_next_replay)
{
    assert_ok(ph_graph_capture(graph, world.stream, &defer, work, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    uint64_t epoch = ph_graph_epoch(graph);
    assert_true(epoch > 0);
    assert_ok(ph_graph_check_output(graph, held, epoch));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_status(ph_graph_check_output(graph, held, epoch), PH_ERROR_OVERWRITTEN);
    assert_ok(ph_graph_check_output(graph, held, ph_graph_epoch(graph)));
    bool writes;
    assert_ok(ph_graph_writes(&writes, graph, held, sizeof *held));
    assert_true(writes);
    assert_ok(ph_graph_writes(&writes, graph, x, sizeof *x));
    assert_false(writes);
}

TEST(test_one_pool_serves_all_segments)
{
    ph_pool *pool, *of_segment;
    ph_graph_memory whole, part;
    assert_ok(ph_graph_capture(graph, world.stream, &defer, two_blocks, NULL));
    assert_ok(ph_graph_pool(&pool, graph));
    assert_ok(ph_graph_get_memory(&whole, graph));
    size_t host = 0;
    for (size_t i = 0; i < 2; i++) {
        assert_ok(ph_graph_pool(&of_segment, segment_of(i)));
        assert_ptr_equal(of_segment, pool);
        assert_ok(ph_graph_get_memory(&part, segment_of(i)));
        assert_int_equal(part.pool_reserved, whole.pool_reserved);
        host += part.template_host;
    }
    assert_true(whole.pool_reserved > 0);
    assert_int_equal(whole.template_host, host);
}

static void count_release(void *object)
{
    ++*(int *)object;
}

static ph_status retain_between(ph_stream *stream, void *user)
{
    ph_graph *capturing;
    PH_TRY(ph_stream_capturing_graph(&capturing, stream));
    assert_ptr_equal(capturing, graph);
    PH_TRY(t_add(&world, stream, x, x, N, 1));
    PH_TRY(ph_break(stream, double_on_host, NULL));
    PH_TRY(ph_stream_capturing_graph(&capturing, stream));
    assert_ptr_equal(capturing, graph);
    PH_TRY(ph_graph_retain(capturing, count_release, user, true));
    return t_add(&world, stream, x, y, N, 1);
}

TEST(test_what_the_capture_retains_goes_with_the_graph)
{
    int released = 0;
    assert_ok(ph_graph_capture(graph, world.stream, &defer, retain_between, &released));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(released, 0);
    assert_ok(ph_graph_reset(graph));
    assert_int_equal(released, 1);
    assert_int_equal(ph_graph_segment_count(graph), 0);
}

/* ---- cells ---- */
static uint64_t next_value, launches;
static uint64_t *cell;
static ph_status cell_values(uint64_t *values, void *user)
{
    (void)user;
    values[0] = next_value;
    return PH_OK;
}
static void cell_launched(void *user, bool launched)
{
    (void)user;
    launches += launched;
}

static ph_status cell_in_both(ph_stream *stream, void *user)
{
    const ph_cells_source source = {
        .count = 1, .values = cell_values, .launched = cell_launched, .user = user};
    PH_TRY(ph_cells_create(&cell, stream, &source));
    PH_TRY(ph_memcpy(x, cell, sizeof(int32_t), stream));
    PH_TRY(ph_break(stream, double_on_host, NULL));
    PH_TRY(ph_cells_require(stream));
    return ph_memcpy(y, cell, sizeof(int32_t), stream);
}

TEST(test_cells_are_set_once_in_a_replay)
{
    int32_t value;
    launches = 0;
    assert_ok(ph_graph_capture(graph, world.stream, &defer, cell_in_both, NULL));
    for (next_value = 11; next_value < 14; next_value++) {
        assert_ok(ph_graph_replay(graph, world.stream));
        t_read(&value, y, sizeof value, world.stream);
        assert_int_equal(value, next_value);
        t_read(&value, x, sizeof value, world.stream);
        assert_int_equal(value, 2 * next_value);
        assert_int_equal(launches, next_value - 10);
    }
}

/* ---- forks, and functions that do much ---- */
static ph_status forked(ph_stream *stream, void *user)
{
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(t_add(&world, side, x, x, N, 1));
    PH_TRY(ph_stream_wait_stream(stream, side));
    PH_TRY(ph_break(stream, double_on_host, user));
    PH_TRY(ph_stream_wait_stream(side, stream));
    PH_TRY(t_add(&world, side, x, y, N, 1));
    return ph_stream_wait_stream(stream, side);
}

TEST(test_forks_of_each_segment_are_joined)
{
    assert_ok(ph_graph_capture(graph, world.stream, &defer, forked, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 3, world.stream);
}

/* Captures, replays, breaks and allocates. */
static ph_status busy_function(ph_stream *stream, void *user)
{
    int32_t *eager;
    PH_TRY(PH_NEW(&eager, N, stream));
    PH_TRY(t_fill(&world, stream, eager, N, 100));
    PH_TRY(ph_break(stream, double_on_host, user));
    if (ph_graph_get_state(other) == PH_GRAPH_NEW)
        PH_TRY(ph_graph_capture(other, stream, NULL, no_breaks, NULL));
    PH_TRY(ph_graph_replay(other, stream)); /* x += 1 */
    PH_TRY(t_add(&world, stream, eager, eager, N, 1));
    ph_free(eager, stream);
    return PH_OK;
}

static ph_status with_busy_function(ph_stream *stream, void *user)
{
    PH_TRY(t_add(&world, stream, x, x, N, 1));
    PH_TRY(ph_break(stream, busy_function, user));
    return t_add(&world, stream, x, y, N, 0);
}

TEST(test_functions_may_capture_and_replay_other_graphs)
{
    assert_ok(ph_graph_capture(graph, world.stream, &allow, with_busy_function, NULL));
    assert_ok(t_fill(&world, world.stream, x, N, 0));
    for (int i = 0, want = 0; i < 3; i++) {
        assert_ok(ph_graph_replay(graph, world.stream));
        want = 2 * (want + 1) + 1;
        t_all(y, N, want, world.stream);
    }
}

static ph_status breaks_of_breaks(ph_stream *stream, void *user)
{
    (void)user;
    return ph_graph_replay(other, stream);
}

static ph_status around_other(ph_stream *stream, void *user)
{
    PH_TRY(t_add(&world, stream, x, x, N, 1));
    PH_TRY(ph_break(stream, breaks_of_breaks, user));
    return t_add(&world, stream, x, y, N, 1);
}

TEST(test_a_function_may_replay_a_graph_with_breaks)
{
    assert_ok(ph_graph_capture(other, world.stream, &defer, work, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, &defer, around_other, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    assert_int_equal(calls, 2);
    t_all(y, N, 3, world.stream); /* x is 1, other leaves 2 */
}

TEST(test_a_block_has_breaks)
{
    ph_status st;
    PH_GRAPH(st, graph, world.stream, &defer)
    {
        st = work(world.stream, NULL);
        if (st)
            break;
    }
    assert_ok(st);
    assert_int_equal(ph_graph_segment_count(graph), 3);
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 16, world.stream);
}

/* Nodes of each segment lie in the scope; its breadcrumb is in the segment that it began in. */
static ph_status scoped(ph_stream *stream, void *user)
{
    PH_TRY(ph_annotation_push(stream, "layer", NULL));
    ph_status status = work(stream, user);
    return ph_annotation_pop(stream) == PH_OK ? status : PH_ERROR_STATE;
}

TEST(test_scopes_may_be_open_across_breaks)
{
    const ph_capture_options watched = {.allow_breaks = true,
                                        .defer_breaks = true,
                                        .enable_annotations = true,
                                        .breadcrumbs = true};
    char *text;
    const ph_record *record;
    assert_ok(ph_graph_capture(graph, world.stream, &watched, scoped, NULL));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 16, world.stream);
    for (size_t i = 0; i < 3; i++) {
        assert_ok(ph_graph_record(&record, segment_of(i)));
        assert_ok(ph_record_json(&text, record));
        assert_non_null(strstr(text, "layer"));
        ph_string_free(text);
        assert_status(ph_graph_breadcrumbs_enable(segment_of(i), true),
                      i == 0 ? PH_OK : PH_ERROR_STATE);
    }
    assert_ok(t_fill(&world, world.stream, x, N, 0));
    assert_ok(ph_graph_replay(graph, world.stream));
    t_all(y, N, 16, world.stream);
}

/* ---- what it shows ---- */
TEST(test_the_record_has_segments_and_breaks)
{
    const ph_record *record;
    char *text;
    assert_ok(ph_graph_capture(graph, world.stream, &defer, work, NULL));
    assert_ok(ph_graph_record(&record, graph));
    assert_int_equal(ph_record_node_count(record), 5);
    for (size_t i = 0; i < 5; i++) {
        ph_node_info info = node_of(record, i);
        assert_int_equal(info.kind, i % 2 ? PH_NODE_HOST : PH_NODE_GRAPH);
        assert_int_equal(info.dependency_count, i > 0);
        const ph_record *own;
        if (i % 2)
            continue;
        assert_ok(ph_graph_record(&own, segment_of(i / 2)));
        assert_ptr_equal(info.body, own);
    }
    assert_int_equal(ph_record_node_count(node_of(record, 0).body), 2);
    assert_string_equal(node_of(record, 1).name, "break after segment 0");
    assert_string_equal(node_of(record, 4).name, "segment 2");
    assert_ok(ph_record_json(&text, record));
    assert_non_null(strstr(text, "\"name\":\"segment 1\""));
    assert_non_null(strstr(text, "\"body\":{\"format\":\"phonograph.record\""));
    ph_string_free(text);
    assert_ok(ph_record_dot(&text, record, true));
    assert_non_null(strstr(text, "subgraph cluster_n4"));
    ph_string_free(text);
    char path[64];
    snprintf(path, sizeof path, "/tmp/phonograph-breaks-%d.dot", (int)getpid());
    assert_ok(ph_graph_debug_dump(graph, path, true));
    unlink(path);
}

TEST(test_the_profile_has_segments_and_breaks)
{
    ph_profile *profile;
    ph_profile_summary summary;
    ph_profile_node node;
    uint64_t end = 0;
    char path[64];
    assert_ok(ph_graph_capture(graph, world.stream, &defer, work, NULL));
    assert_ok(ph_graph_profile(&profile, graph, world.stream,
                               &(ph_profile_options){.replays = 3, .warmup = 1}));
    assert_int_equal(calls, 8);
    assert_ok(ph_profile_get(&summary, profile));
    assert_int_equal(summary.source, PH_PROFILE_EVENTS);
    assert_int_equal(summary.node_count, 5);
    assert_int_equal(summary.critical_count, 5);
    for (size_t i = 0; i < 5; i++) {
        assert_ok(ph_profile_node_at(&node, profile, i));
        assert_true(node.measured);
        assert_true(node.start_ns >= end);
        end = node.start_ns;
    }
    snprintf(path, sizeof path, "/tmp/phonograph-breaks-%d.json", (int)getpid());
    assert_ok(ph_profile_dump_record(profile, graph, path));
    unlink(path);
    ph_profile_destroy(profile);
    assert_error(ph_graph_profile(&profile, graph, world.stream,
                                  &(ph_profile_options){.source = PH_PROFILE_CUPTI}),
                 PH_ERROR_UNSUPPORTED, "has breaks");
    fails_at = calls + 2;
    assert_error(ph_graph_profile(&profile, graph, world.stream, NULL), PH_ERROR_CALLER,
                 "ph_graph_profile: ph_graph_replay: the break after segment 1");
    fails_at = 0;
    assert_ok(ph_graph_profile(&profile, segment_of(0), world.stream, NULL));
    ph_profile_destroy(profile);
    assert_ok(ph_graph_replay(graph, world.stream));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(test_replays_alternate_segments_and_functions),
        IN_WORLD(test_outside_captures_the_function_is_called),
        IN_WORLD(test_deferred_breaks_call_nothing_in_the_capture),
        IN_WORLD(test_a_capture_without_breaks_is_a_graph_as_any_other),
        IN_WORLD(test_a_failing_function_stops_the_replay),
        IN_WORLD(test_a_failing_function_ends_the_capture),
        IN_WORLD(test_kept_templates_are_made_executable_together),
        IN_WORLD(test_executables_are_uploaded_together),
        IN_WORLD(test_memory_stays_taken_across_a_break),
        IN_WORLD(test_memory_of_an_earlier_segment_is_no_input),
        IN_WORLD(test_a_dead_input_of_a_later_segment_stops_the_replay_first),
        IN_WORLD(test_memory_born_before_a_break_is_held),
        IN_WORLD(test_outputs_are_overwritten_by_the_next_replay),
        IN_WORLD(test_one_pool_serves_all_segments),
        IN_WORLD(test_what_the_capture_retains_goes_with_the_graph),
        IN_WORLD(test_cells_are_set_once_in_a_replay),
        IN_WORLD(test_forks_of_each_segment_are_joined),
        IN_WORLD(test_functions_may_capture_and_replay_other_graphs),
        IN_WORLD(test_a_function_may_replay_a_graph_with_breaks),
        IN_WORLD(test_a_block_has_breaks),
        IN_WORLD(test_scopes_may_be_open_across_breaks),
        IN_WORLD(test_the_record_has_segments_and_breaks),
        IN_WORLD(test_the_profile_has_segments_and_breaks),
    };
    return cmocka_run_group_tests_name("graph.breaks", tests, NULL, NULL);
}
