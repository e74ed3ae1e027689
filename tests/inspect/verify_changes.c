/* SPDX-License-Identifier: MIT */
/* tests/inspect/verify_changes.c: ph_graph_verify on functions that do something else each time,
 * or whose calls are refused while they capture: what is said of a capture made now. */
#include "support/fixture.h"
#include "support/support.h"
#include "support/test.h"
#include <phonograph/inspect/locate.h>
#include <string.h>

enum {
    N = 64
};
static t_world world;
static ph_graph *graph;
static float *x, *y, *z;
static ph_verify_result result;
static int runs; /* of the function: 1 captures, 2 captures again, 3 runs eagerly */
static char pageable[16];
static const char zeros[16];

WORLD(world, .graphs = {&graph},
      .arrays = {{&x, N, T_FLOATS, 1}, {&y, N, T_FLOATS, 2}, {&z, N, T_FLOATS, 3}});

static void verify_with(ph_capture_fn body, const ph_verify_options *options)
{
    runs = 0;
    t_log_start(); /* captures warn of refused calls */
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    assert_ok(ph_graph_verify(&result, graph, world.stream, body, NULL, options));
    assert_ok(ph_graph_reset(graph));
    t_log_stop();
}

static void expect(ph_verify_verdict verdict, size_t node, const char *part)
{
    if (result.verdict != verdict || result.node != node || !strstr(result.message, part))
        fail_msg("verdict %d, node %zu: %s", (int)result.verdict, result.node, result.message);
}

static void expect_no(const char *part)
{
    if (strstr(result.message, part))
        fail_msg("%s", result.message);
}

/* ---- parameters that alternate ---- */
static ph_status other_buffer(ph_stream *stream, void *user)
{
    (void)user;
    return t_axpy(&world, stream, 1, ++runs % 2 ? x : z, y, N);
}

static ph_status other_rate(ph_stream *stream, void *user)
{
    (void)user;
    return t_axpy(&world, stream, ++runs % 2 ? 1 : 2, x, y, N);
}

static ph_status other_fill(ph_stream *stream, void *user)
{
    (void)user;
    return ph_memset(y, ++runs % 2 ? 1 : 2, N * sizeof *y, stream);
}

static const char not_steady[] = "an eager run gave what the graph gives";

TEST(a_buffer_that_alternates_is_no_equality)
{
    verify_with(other_buffer, NULL);
    expect(PH_VERIFY_NODE_DIFFERS, 0, not_steady);
    expect_no("the same result");
}

TEST(a_rate_that_alternates_is_no_equality)
{
    verify_with(other_rate, NULL);
    expect(PH_VERIFY_NODE_DIFFERS, 0, not_steady);
    expect(PH_VERIFY_NODE_DIFFERS, 0, "is 0x40400000 (3) in the graph, 0x40800000 (4) in a");
    expect(PH_VERIFY_NODE_DIFFERS, 0, "0x3f800000 (1) in the graph and 0x40000000 (2) in the new");
    expect_no("the same result");
}

TEST(a_fill_that_alternates_is_no_equality)
{
    verify_with(other_fill, NULL);
    expect(PH_VERIFY_NODE_DIFFERS, 0, "; its value is 0x1 in the graph and 0x2 in the new");
}

TEST(outputs_that_alternate_are_no_equality)
{
    const ph_verify_output output = {y, PH_NUMBER_F32, N, "y"};
    verify_with(other_rate, &(ph_verify_options){.outputs = &output, .output_count = 1});
    expect(PH_VERIFY_NODE_DIFFERS, 0, not_steady);
    verify_with(other_rate,
                &(ph_verify_options){.outputs = &output, .output_count = 1, .absolute = 1});
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "with the same result from these contents");
}

TEST(results_that_are_not_compared_are_not_claimed)
{
    verify_with(other_rate, &(ph_verify_options){.skip_foreign = true});
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "(2) now), and the result of that capture was not compared");
    expect_no("the same result");
}

static ph_status same_contents(ph_stream *stream, void *user)
{
    (void)user;
    return t_axpy(&world, stream, 0, ++runs == 1 ? x : z, y, N);
}

TEST(buffers_with_the_same_result_are_equal)
{
    verify_with(same_contents, NULL);
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "now), with the same result from these contents");
}

/* The replay of the second capture alone: after the eager run and two replays of the graph. */
static float *pinned;
static int calls;

static void write_once(void *user)
{
    (void)user;
    if (++calls == 4)
        pinned[0] = 9;
}

static ph_status goes_wrong_once(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_axpy(&world, stream, 0, ++runs == 1 ? x : z, y, N));
    PH_TRY(ph_memcpy(pinned, y, 16, stream));
    return ph_launch_host(stream, write_once, NULL);
}

TEST(a_capture_that_goes_wrong_once_is_no_equality)
{
    assert_ok(ph_malloc_pinned(&pinned, 4, sizeof *pinned, world.stream));
    calls = 0;
    verify_with(goes_wrong_once, NULL);
    expect(PH_VERIFY_EAGER_DIFFERS, SIZE_MAX,
           "a capture made now gives another result than the graph: a body that is not");
    expect(PH_VERIFY_EAGER_DIFFERS, SIZE_MAX, "0x41100000 (9) in that capture");
    ph_free_pinned(pinned, world.stream);
}

/* ---- other nodes ---- */
static float factor;
static bool fills;

static ph_status once_more(ph_stream *stream, void *user)
{
    (void)user;
    bool more = ++runs == 2;
    PH_TRY(t_axpy(&world, stream, 1, x, y, N));
    if (more && fills)
        return ph_memset(z, 0, N * sizeof *z, stream);
    return more ? t_axpy(&world, stream, factor, z, y, N) : PH_OK;
}

static ph_status from_now_on(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_axpy(&world, stream, 1, x, y, N));
    return ++runs > 1 ? t_axpy(&world, stream, 0, z, y, N) : PH_OK;
}

TEST(a_node_more_is_named_where_the_results_are_equal)
{
    verify_with(from_now_on, NULL);
    expect(PH_VERIFY_CAPTURE_DIFFERS, SIZE_MAX, "a replay gives what an eager run gives");
    expect(PH_VERIFY_CAPTURE_DIFFERS, SIZE_MAX,
           "is not of the same work (2 nodes, the graph has 1), with the same result from these");
    assert_int_equal(result.different, 0);
    assert_null(result.address);
    assert_true(result.compared > 0);
}

TEST(a_node_more_with_another_result_is_said_so)
{
    fills = false;
    factor = 1;
    verify_with(once_more, NULL);
    expect(PH_VERIFY_CAPTURE_DIFFERS, SIZE_MAX, "has 1), and its replay gives another result");
    fills = true;
    verify_with(once_more, NULL);
    expect(PH_VERIFY_CAPTURE_DIFFERS, SIZE_MAX, "has 1), and its replay gives another result");
    verify_with(once_more, &(ph_verify_options){.skip_foreign = true});
    expect(PH_VERIFY_CAPTURE_DIFFERS, SIZE_MAX, "has 1), and its result was not compared");
}

/* ---- a call that is refused ---- */
static ph_status swallows(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_axpy(&world, stream, 1, x, y, N));
    (void)!ph_memcpy(pageable, y, sizeof pageable, stream);
    return PH_OK;
}

static ph_status swallows_first(ph_stream *stream, void *user)
{
    (void)user;
    if (++runs == 1)
        (void)!ph_memcpy(pageable, y, sizeof pageable, stream);
    return t_axpy(&world, stream, 1, x, y, N);
}

TEST(a_refused_call_is_no_equality)
{
    const ph_verify_output output = {y, PH_NUMBER_F32, N, "y"};
    verify_with(swallows, NULL);
    expect(PH_VERIFY_PARTLY, SIZE_MAX, "; a call of body failed while it was captured");
    expect(PH_VERIFY_PARTLY, SIZE_MAX, ": ph_memcpy");
    verify_with(swallows, &(ph_verify_options){.outputs = &output, .output_count = 1});
    expect(PH_VERIFY_EQUAL, SIZE_MAX, "; a call of body failed while it was captured");
    /* the graph has all that a capture without a failure has */
    verify_with(swallows_first, NULL);
    expect(PH_VERIFY_EQUAL, SIZE_MAX, " bytes compared");
    expect_no("failed");
}

/* ---- what to do ---- */
static ph_status eager_alone(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_axpy(&world, stream, 1, x, y, N));
    return ph_stream_is_capturing(stream) ? PH_OK : ph_memset(y, 0, 16, stream);
}

static ph_status eager_refused(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(t_axpy(&world, stream, 1, x, y, N));
    (void)!ph_memcpy(y, zeros, sizeof zeros, stream);
    return PH_OK;
}

static ph_status later_rate(ph_stream *stream, void *user)
{
    (void)user;
    return t_axpy(&world, stream, ++runs == 1 ? 1 : 2, x, y, N);
}

static ph_status later_buffer(ph_stream *stream, void *user)
{
    (void)user;
    return t_axpy(&world, stream, 1, ++runs == 1 ? x : z, y, N);
}

TEST(messages_have_a_remedy)
{
    verify_with(eager_alone, NULL);
    expect(PH_VERIFY_BODY_DIFFERS, 0, "; body does work that no capture sees: ");
    verify_with(eager_refused, NULL);
    expect(PH_VERIFY_BODY_DIFFERS, 0, "; a call of body failed while it was captured");
    verify_with(later_rate, NULL);
    expect(PH_VERIFY_NODE_DIFFERS, 0,
           " (2) in the new capture: make it a cell or a slot, set it (ph_graph_node_set_launch), "
           "or capture again");
    expect_no(not_steady);
    verify_with(later_buffer, NULL);
    expect(PH_VERIFY_NODE_DIFFERS, 0,
           " in the new capture: make it a slot (ph_graph_slot_find), or capture again");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_buffer_that_alternates_is_no_equality),
        IN_WORLD(a_rate_that_alternates_is_no_equality),
        IN_WORLD(a_fill_that_alternates_is_no_equality),
        IN_WORLD(outputs_that_alternate_are_no_equality),
        IN_WORLD(results_that_are_not_compared_are_not_claimed),
        IN_WORLD(buffers_with_the_same_result_are_equal),
        IN_WORLD(a_capture_that_goes_wrong_once_is_no_equality),
        IN_WORLD(a_node_more_is_named_where_the_results_are_equal),
        IN_WORLD(a_node_more_with_another_result_is_said_so),
        IN_WORLD(a_refused_call_is_no_equality),
        IN_WORLD(messages_have_a_remedy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
