/* SPDX-License-Identifier: MIT */
/* tests/graph/cells_failures.c: sources of cells that fail, what is refused, and a failure at
 * every point. */
#include "device/handles/device.h"
#include "support/cells.h"
#include "support/fault.h"
#include "support/sweep.h"
#include "support/test.h"
#include <string.h>

/* ---- sources ---- */
TEST(test_a_source_that_fails)
{
    const cs_plan p = {.sources = 3, .count = 1};
    assert_ok(ph_graph_capture(cs.graph, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&p));
    assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
    uint64_t epoch = ph_graph_epoch(cs.graph);
    cs.sources[1].fails = PH_ERROR_CALLER;
    assert_error(ph_graph_replay(cs.graph, cs.world.stream), PH_ERROR_CALLER, "no value today");
    assert_int_equal(ph_graph_epoch(cs.graph), epoch);
    assert_int_equal(cs.sources[0].stopped, 1);
    assert_int_equal(cs.sources[1].stopped, 0);
    assert_int_equal(cs.sources[2].stopped, 0);
    assert_int_equal(cs.sources[2].asked, 1);
    cs_check(&p, cs.world.stream, 0); /* of the replay before it */
    cs.sources[1].fails = PH_OK;
    assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
    cs_check(&p, cs.world.stream, 0);
}

TEST(test_a_launch_that_fails)
{
    const cs_plan p = {.sources = 2, .count = 1};
    assert_ok(ph_graph_capture(cs.graph, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&p));
    assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
    for (int64_t n = 0; n < 2; n++) { /* setting the values; launching */
        ph__driver_fail_after(n, PH__R_LAUNCH_FAILED);
        assert_status(ph_graph_replay(cs.graph, cs.world.stream), PH_ERROR_DEVICE);
        ph__driver_fail_after(-1, 0);
        assert_int_equal(cs.sources[0].stopped, n + 1);
        assert_int_equal(cs.sources[1].stopped, n + 1);
    }
    assert_int_equal(cs.sources[0].out, 1);
    assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
    cs_check(&p, cs.world.stream, 0);
}

TEST(test_released_once)
{
    const cs_plan p = {.sources = 1, .count = 2};
    cs_source *s = &cs.sources[0];
    s->count = 2;
    assert_ok(ph_graph_capture_begin(cs.graph, cs.world.stream, NULL));
    assert_ok(cs_make(&p, cs.world.stream));
    ph_graph_capture_abort(cs.graph);
    assert_int_equal(s->captured, 0);
    assert_int_equal(s->released, 1);
    assert_ok(ph_graph_capture_begin(cs.graph, cs.world.stream, NULL));
    assert_ok(cs_make(&p, cs.world.stream));
    assert_status(ph_graph_capture_end(cs.graph, ph_fail(PH_ERROR_CALLER, "no")), PH_ERROR_CALLER);
    assert_int_equal(s->released, 2);
    assert_ok(ph_graph_reset(cs.graph));
    assert_int_equal(s->released, 2);
    assert_ok(ph_graph_capture(cs.graph, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&p));
    assert_int_equal(s->captured, 1);
    assert_ok(ph_graph_reset(cs.graph));
    assert_int_equal(s->released, 3);
    assert_ok(ph_graph_reset(cs.graph));
    assert_int_equal(s->released, 3);
    assert_int_equal(s->asked, 0);
}

/* A fork that is put behind the cells and then does nothing is no work that was not joined. */
TEST(test_a_fork_that_reads_nothing)
{
    cs.sources[0].count = 1;
    assert_ok(ph_graph_capture_begin(cs.graph, cs.world.stream, NULL));
    assert_ok(ph_memset(cs.y, 0, sizeof *cs.y, cs.world.stream));
    assert_ok(ph_stream_wait_stream(cs.side, cs.world.stream));
    assert_ok(cs_make_of(cs.cells[0], cs.side, &cs.sources[0]));
    assert_ok(ph_graph_capture_end(cs.graph, PH_OK));
    assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
    assert_int_equal(cs.sources[0].out, 1);
}

/* ---- what is refused ---- */
TEST(wrong_arguments_are_refused)
{
    ph_cells_source how = {.count = 1, .values = cs_values, .user = &cs.sources[0]};
    uint64_t *cell[2] = {(uint64_t *)8, (uint64_t *)8};
    assert_error(ph_cells_create(cell, cs.world.stream, &how), PH_ERROR_STATE, "not capturing");
    assert_null(cell[0]);
    assert_non_null(cell[1]);
    assert_error(ph_cells_require(cs.world.stream), PH_ERROR_STATE, "not capturing");
    assert_error(ph_cells_require(ph_device_default_stream(cs.world.device)), PH_ERROR_STATE,
                 "not capturing");
    assert_ok(ph_graph_capture_begin(cs.graph, cs.world.stream, NULL));
    assert_ok(ph_memset(cs.y, 0, sizeof *cs.y, cs.world.stream));
    assert_error(ph_cells_create(NULL, cs.world.stream, &how), PH_ERROR_ARGUMENT, "cells is NULL");
    assert_error(ph_cells_create(cell, NULL, &how), PH_ERROR_ARGUMENT, "stream is NULL");
    assert_error(ph_cells_create(cell, cs.world.stream, NULL), PH_ERROR_ARGUMENT, "source is NULL");
    how.count = 0;
    assert_error(ph_cells_create(cell, cs.world.stream, &how), PH_ERROR_ARGUMENT, "1 to 16");
    how.count = 1;
    how.values = NULL;
    assert_error(ph_cells_create(cell, cs.world.stream, &how), PH_ERROR_ARGUMENT, "values");
    how.values = cs_values;
    how.reserved[3] = 1;
    assert_error(ph_cells_create(cell, cs.world.stream, &how), PH_ERROR_ARGUMENT, "reserved");
    assert_error(ph_cells_require(NULL), PH_ERROR_ARGUMENT, "stream is NULL");
    assert_error(
        ph_cells_create(cell, cs.side, &(ph_cells_source){.count = 1, .values = cs_values}),
        PH_ERROR_STATE, "not capturing");
    assert_ok(ph_cells_require(cs.world.stream)); /* there are none yet */
    assert_ok(ph_graph_capture_end(cs.graph, PH_OK));
    assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
    uint64_t *many[PH_CELLS_MAX + 1];
    const ph_cells_source too_many = {.count = PH_CELLS_MAX + 1, .values = cs_values};
    assert_error(ph_cells_create(many, cs.world.stream, &too_many), PH_ERROR_ARGUMENT, "17");
    assert_int_equal(cs.sources[0].asked, 0);
}

/* A dead capture answers as its other calls do. */
TEST(test_an_invalidated_capture)
{
    cs.sources[0].count = 1;
    t_log_start();
    assert_ok(ph_graph_capture_begin(cs.graph, cs.world.stream, NULL));
    assert_int_not_equal(cs.world.device->driver->stream_query(cs.world.stream->handle), 0);
    assert_status(cs_make_of(cs.cells[0], cs.world.stream, &cs.sources[0]), PH_ERROR_CAPTURE);
    assert_native(901);
    assert_null(cs.cells[0][0]);
    assert_status(ph_cells_require(cs.world.stream), PH_OK); /* none were made */
    assert_status(ph_graph_capture_end(cs.graph, PH_OK), PH_ERROR_CAPTURE);
    t_log_stop();
    assert_int_equal(cs.sources[0].released, 0);
}

TEST(test_as_a_part_of_another_graph)
{
    const cs_plan p = {.sources = 1, .count = 1};
    ph_graph *outer;
    assert_ok(ph_graph_capture(cs.graph, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&p));
    assert_ok(ph_graph_create(&outer, NULL));
    assert_ok(ph_graph_capture_begin(outer, cs.world.stream, NULL));
    assert_ok(ph_memset(cs.y, 0, sizeof *cs.y, cs.world.stream));
    assert_error(ph_graph_replay(cs.graph, cs.world.stream), PH_ERROR_UNSUPPORTED, "cells");
    assert_ok(ph_graph_capture_end(outer, PH_OK));
    assert_ok(ph_graph_replay(outer, cs.world.stream));
    assert_int_equal(cs.sources[0].asked, 0);
    ph_graph_destroy(outer);
}

TEST(a_graph_with_cells_refuses_updates_both_ways)
{
    const cs_plan p = {.sources = 1, .count = 1}, none = {0};
    ph_graph *other, *plain;
    ph_update_result why;
    assert_ok(ph_graph_create(&other, NULL));
    assert_ok(ph_graph_create(&plain, NULL));
    assert_ok(ph_graph_capture(cs.graph, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&p));
    assert_ok(ph_graph_capture(other, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&p));
    t_log_start(); /* it is empty */
    assert_ok(ph_graph_capture(plain, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&none));
    t_log_stop();
    assert_error(ph_graph_update(cs.graph, other, &why), PH_ERROR_MISMATCH, "has cells");
    assert_int_equal(why.reason, PH_UPDATE_UNSUPPORTED);
    assert_non_null(strstr(why.message, "cells"));
    const ph_diff *differences; /* the records may show none: the refusal is one */
    ph_change change;
    bool told = false;
    assert_ok(ph_graph_update_diff(&differences, cs.graph));
    for (size_t i = 0; i < ph_diff_count(differences); i++) {
        assert_ok(ph_diff_at(&change, differences, i));
        told = told || (change.blocks_update && change.rule &&
                        strstr(change.text, "has cells (ph_cells_create)"));
    }
    assert_true(told);
    assert_error(ph_graph_update(cs.graph, plain, NULL), PH_ERROR_MISMATCH, "the graph has cells");
    assert_error(ph_graph_update(plain, cs.graph, NULL), PH_ERROR_MISMATCH, "from has cells");
    assert_ok(ph_graph_replay(cs.graph, cs.world.stream));
    cs_check(&p, cs.world.stream, 0);
    ph_graph_destroy(other);
    ph_graph_destroy(plain);
}

/* ---- failures ---- */
static int runs; /* in one world */

static int open_world(void **state)
{
    runs = 0;
    return cs_open(state);
}

static cs_plan scene_of_failures(void)
{
    return (cs_plan){
        .sources = 3, .count = 4, .fork = cs.side, .fork_first = true, .create_on_fork = true};
}

static ph_status everything(void *user)
{
    const cs_plan p = scene_of_failures();
    (void)user;
    runs++;
    PH_TRY(ph_graph_capture(cs.graph, cs.world.stream, NULL, cs_body, (void *)(uintptr_t)&p));
    PH_TRY(ph_graph_replay(cs.graph, cs.world.stream));
    PH_TRY(ph_stream_wait_stream(cs.side, cs.world.stream));
    PH_TRY(ph_graph_replay(cs.graph, cs.side));
    return ph_stream_synchronize(cs.side);
}

static void reset(ph_status status, void *user)
{
    const cs_plan p = scene_of_failures();
    (void)user;
    for (int i = 0; i < 3; i++)
        assert_true(cs.sources[i].captured <= runs);
    if (status == PH_OK)
        cs_check(&p, cs.side, 1);
    assert_ok(ph_graph_reset(cs.graph));
    assert_ok(ph_device_synchronize(cs.world.device));
    assert_false(ph_stream_is_capturing(cs.world.stream));
}

static const t_swept swept = {
    .name = "cells", .open = open_world, .close = cs_close, .run = everything, .reset = reset};

#define WITH_WORLD(test) cmocka_unit_test_setup_teardown(test, cs_open, cs_close)
int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_WORLD(test_a_source_that_fails),
        WITH_WORLD(test_a_launch_that_fails),
        WITH_WORLD(test_released_once),
        WITH_WORLD(test_a_fork_that_reads_nothing),
        WITH_WORLD(wrong_arguments_are_refused),
        WITH_WORLD(test_an_invalidated_capture),
        WITH_WORLD(test_as_a_part_of_another_graph),
        WITH_WORLD(a_graph_with_cells_refuses_updates_both_ways),
        T_SWEEP(test_without_host_memory, &swept),
        T_SWEEP(test_when_the_driver_fails, &swept),
    };
    return cmocka_run_group_tests_name("graph.cells_failures", tests, NULL, NULL);
}
