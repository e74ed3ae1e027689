/* SPDX-License-Identifier: MIT */
/* tests/inspect/breadcrumbs_failures.c: what is refused, and each failure of a host allocation
 * or a driver call. */
#include "support/breadcrumbs.h"
#include "support/fault.h"
#include "support/sweep.h"

#include "driver/driver.h"
#include "support/test.h"
#include <string.h>

/* ---- what is refused ---- */
static ph_status no_scopes(ph_stream *stream, void *user)
{
    (void)user;
    return t_fill(&bc.world, stream, bc.x, BC_N, 1);
}

static bool enabled(size_t node)
{
    bool on = true;
    assert_ok(ph_graph_node_get_enabled(&on, bc.graph, node));
    return on;
}

TEST(misuse_is_refused)
{
    ph_progress at;
    const ph_capture_options bare = {.breadcrumbs = true};
    assert_error(ph_graph_where(NULL, bc.graph), PH_ERROR_ARGUMENT, "out");
    assert_error(ph_graph_where(&at, NULL), PH_ERROR_ARGUMENT, "graph");
    assert_error(ph_graph_breadcrumbs_enable(NULL, true), PH_ERROR_ARGUMENT, "graph");
    assert_error(ph_graph_where(&at, bc.graph), PH_ERROR_STATE, "NEW");
    assert_error(ph_graph_breadcrumbs_enable(bc.graph, true), PH_ERROR_STATE, "NEW");
    assert_error(ph_graph_capture(bc.graph, bc.world.stream, &bare, bc_body, NULL),
                 PH_ERROR_ARGUMENT, "enable_annotations");
    assert_ok(ph_graph_capture(bc.graph, bc.world.stream, NULL, bc_body, NULL));
    assert_error(ph_graph_breadcrumbs_enable(bc.graph, true), PH_ERROR_STATE,
                 "captured without breadcrumbs; set ph_capture_options.breadcrumbs");
    assert_error(ph_graph_breadcrumbs_enable(bc.graph, false), PH_ERROR_STATE,
                 "captured without breadcrumbs");
    assert_error(ph_graph_where(&at, bc.graph), PH_ERROR_STATE,
                 "captured without breadcrumbs; set ph_capture_options.breadcrumbs");
    assert_null(strstr(ph_error_last()->message, "ph_graph_breadcrumbs_enable"));
    assert_ok(ph_graph_reset(bc.graph));
    assert_ok(ph_graph_capture(bc.graph, bc.world.stream, &bc_options, no_scopes, NULL));
    assert_error(ph_graph_breadcrumbs_enable(bc.graph, true), PH_ERROR_STATE,
                 "after that has joined");
    assert_error(ph_graph_where(&at, bc.graph), PH_ERROR_STATE, "no scope was begun");
    assert_false(enabled(0)); /* the breadcrumb before all others */
    assert_ok(ph_graph_reset(bc.graph));
    assert_ok(ph_graph_capture(bc.graph, bc.world.stream, &bc_options, bc_short_body, NULL));
    assert_error(ph_graph_where(&at, bc.graph), PH_ERROR_STATE, "for replays that come later");
    assert_ok(ph_graph_reset(bc.graph));
    assert_ok(ph_graph_capture_begin(bc.graph, bc.world.stream, &bc_options));
    assert_error(ph_graph_where(&at, bc.graph), PH_ERROR_STATE, "CAPTURING");
    assert_status(ph_graph_capture_end(bc.graph, ph_fail(PH_ERROR_CALLER, "the body's own words")),
                  PH_ERROR_CALLER);
    assert_error(ph_graph_where(&at, bc.graph), PH_ERROR_CALLER, "the body's own words");
}

/* ---- no driver ---- */
TEST(test_reading_asks_no_driver)
{
    bc_capture();
    assert_ok(ph_graph_breadcrumbs_enable(bc.graph, true));
    bc_replay_and_wait(bc.graph);
    int64_t before = ph__driver_calls();
    ph__driver_fail_after(0, PH__R_ILLEGAL_ADDRESS);
    bc_assert_complete(8);
    ph__driver_fail_after(-1, 0);
    assert_int_equal(ph__driver_calls(), before);
}

/* ---- failures ---- */
static ph_status everything(void *user)
{
    (void)user;
    PH_TRY(ph_graph_capture(bc.graph, bc.world.stream, &bc_options, bc_body, NULL));
    PH_TRY(ph_graph_breadcrumbs_enable(bc.graph, true));
    PH_TRY(ph_graph_replay(bc.graph, bc.world.stream));
    PH_TRY(ph_stream_wait_stream(bc.side, bc.world.stream));
    PH_TRY(ph_graph_replay(bc.graph, bc.side));
    PH_TRY(ph_graph_breadcrumbs_enable(bc.graph, false));
    PH_TRY(ph_graph_breadcrumbs_enable(bc.graph, true));
    return ph_stream_synchronize(bc.side);
}

static void reset(ph_status status, void *user)
{
    (void)user;
    if (status == PH_OK)
        bc_assert_complete(8);
    ph_annotation_unwind(0);
    assert_ok(ph_graph_reset(bc.graph));
    assert_ok(ph_device_synchronize(bc.world.device));
    assert_false(ph_stream_is_capturing(bc.world.stream));
}

static const t_swept swept = {
    .name = "breadcrumbs", .open = bc_open, .close = bc_close, .run = everything, .reset = reset};

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, bc_open, bc_close)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(misuse_is_refused),
        WITH_WORLD(test_reading_asks_no_driver),
        T_SWEEP(test_without_host_memory, &swept),
        T_SWEEP(test_when_the_driver_fails, &swept),
    };
    return cmocka_run_group_tests_name("inspect.breadcrumbs_failures", tests, NULL, NULL);
}
