/* SPDX-License-Identifier: MIT */
/* tests/inspect/verify_nothing.c: ph_graph_verify where there is nothing to compare, and where body
 * submits work that no capture sees. */
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
static float *x, *y;
static ph_stream *aside;

WORLD(world, .graphs = {&graph}, .arrays = {{&x, N, T_FLOATS, 1}, {&y, N, T_FLOATS, 2}});

/* what body fills in the capture, and what on a stream beside it */
static struct {
    bool inside, outside;
} now;

static ph_status body(ph_stream *stream, void *user)
{
    (void)user;
    if (now.inside)
        PH_TRY(ph_memset(y, 3, N * sizeof *y, stream));
    return now.outside ? ph_memset(x, 5, N * sizeof *x, aside) : PH_OK;
}

static void verify(ph_verify_result *out, bool inside, bool outside,
                   const ph_verify_options *options)
{
    now.inside = inside;
    now.outside = outside;
    t_log_start(); /* captures warn of the work outside */
    assert_ok(ph_stream_create(&aside, world.device, NULL));
    assert_ok(ph_graph_capture(graph, world.stream, NULL, body, NULL));
    assert_ok(ph_graph_verify(out, graph, world.stream, body, NULL, options));
    assert_ok(ph_graph_reset(graph));
    ph_stream_destroy(aside);
    t_log_stop();
}

static void expect(const ph_verify_result *result, ph_verify_verdict verdict, const char *part)
{
    if (result->verdict != verdict || !strstr(result->message, part))
        fail_msg("verdict %d: %s", (int)result->verdict, result->message);
}

TEST(nothing_to_compare_is_a_verdict_of_its_own)
{
    ph_verify_result result;
    verify(&result, false, false, NULL);
    expect(&result, PH_VERIFY_NOTHING, "nothing was compared, as no node of the graph (0 nodes)");
    assert_int_equal(result.compared, 0);
    assert_int_equal(result.node, SIZE_MAX);
}

TEST(work_outside_of_the_capture_is_named)
{
    ph_verify_result result;
    verify(&result, false, true, NULL);
    expect(&result, PH_VERIFY_NOTHING, "a stream that is not in its capture");
    verify(&result, true, true, NULL);
    expect(&result, PH_VERIFY_PARTLY, "which no replay does (ph_memset on stream ");
    assert_true(result.compared >= N * sizeof *y);
}

TEST(named_outputs_are_compared_all_the_same)
{
    ph_verify_result result;
    const ph_verify_output output = {y, PH_NUMBER_F32, N, "y"};
    verify(&result, true, true, &(ph_verify_options){.outputs = &output, .output_count = 1});
    expect(&result, PH_VERIFY_EQUAL, "a stream that is not in its capture");
    assert_int_equal(result.compared, N);
}

TEST(work_inside_alone_is_equal)
{
    ph_verify_result result;
    verify(&result, true, false, NULL);
    expect(&result, PH_VERIFY_EQUAL, " bytes compared");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(nothing_to_compare_is_a_verdict_of_its_own),
        IN_WORLD(work_outside_of_the_capture_is_named),
        IN_WORLD(named_outputs_are_compared_all_the_same),
        IN_WORLD(work_inside_alone_is_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
