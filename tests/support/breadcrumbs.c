/* SPDX-License-Identifier: MIT */
/* tests/support/breadcrumbs.c: a graph with breadcrumbs, whose replay a gate can hold. */
#include "support/breadcrumbs.h"
#include "base/alloc.h"
#include <sched.h>
#include <stdio.h>
#include <string.h>

bc_scene bc;
const ph_capture_options bc_options = {.enable_annotations = true, .breadcrumbs = true};

int bc_open(void **state)
{
    (void)state;
    t_open(&bc.world, NULL);
    assert_ok(ph_stream_create(&bc.side, bc.world.device, NULL));
    assert_ok(PH_NEW(&bc.x, BC_N, bc.world.stream));
    assert_ok(PH_NEW(&bc.y, BC_N, bc.world.stream));
    assert_ok(t_fill(&bc.world, bc.world.stream, bc.x, BC_N, 0));
    assert_ok(t_fill(&bc.world, bc.world.stream, bc.y, BC_N, 0));
    assert_ok(ph_stream_synchronize(bc.world.stream));
    assert_ok(ph_graph_create(&bc.graph, NULL));
    bc.gate = bc.other_gate = (t_gate){.open = 1};
    return 0;
}

int bc_close(void **state)
{
    (void)state;
    t_gate_open(&bc.gate); /* where a test failed */
    t_gate_open(&bc.other_gate);
    assert_int_equal(ph_annotation_depth(), 0);
    ph_graph_destroy(bc.graph);
    ph_free(bc.x, bc.world.stream);
    ph_free(bc.y, bc.world.stream);
    ph_stream_destroy(bc.side);
    t_close(&bc.world);
    assert_int_equal(ph__alloc_live(), 0);
    return 0;
}

ph_status bc_body(ph_stream *stream, void *user)
{
    int32_t value = user ? *(const int32_t *)user : 1;
    PH_TRY(ph_annotation_push(stream, "first", NULL));
    PH_TRY(t_fill(&bc.world, stream, bc.x, BC_N, value));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_annotation_push(stream, "layer 3", NULL));
    PH_TRY(t_fill(&bc.world, stream, bc.y, BC_N, 0));
    PH_TRY(ph_annotation_push(stream, "attention", NULL));
    PH_TRY(t_gate_wait(&bc.gate, stream));
    PH_TRY(t_add(&bc.world, stream, bc.x, bc.y, BC_N, 1));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_annotation_pop(stream));
    PH_TRY(ph_annotation_push(stream, "last", NULL));
    PH_TRY(t_add(&bc.world, stream, bc.y, bc.y, BC_N, 0));
    return ph_annotation_pop(stream);
}

ph_status bc_short_body(ph_stream *stream, void *user)
{
    (void)user;
    PH_TRY(ph_annotation_push(stream, "a", NULL));
    PH_TRY(t_fill(&bc.world, stream, bc.x, BC_N, 1));
    PH_TRY(ph_annotation_pop(stream));
    return t_fill(&bc.world, stream, bc.x, BC_N, 1);
}

void bc_capture(void)
{
    assert_ok(ph_graph_capture(bc.graph, bc.world.stream, &bc_options, bc_body, NULL));
}

void bc_replay_and_wait(ph_graph *which)
{
    assert_ok(ph_graph_replay(which, bc.world.stream));
    assert_ok(ph_stream_synchronize(bc.world.stream));
}

ph_progress bc_where(void)
{
    ph_progress at;
    assert_ok(ph_graph_where(&at, bc.graph));
    return at;
}

ph_progress bc_wait_until(size_t passed)
{
    for (;;) {
        ph_progress at = {0};
        if (ph_graph_where(&at, bc.graph) == PH_OK && at.passed == passed)
            return at;
        sched_yield();
    }
}

void bc_assert_complete(size_t count)
{
    ph_progress at = bc_where();
    assert_true(at.complete);
    assert_int_equal(at.passed, count);
    assert_int_equal(at.count, count);
    assert_int_equal(at.open_count, 0);
    assert_null(at.open);
    char whole[100];
    (void)snprintf(whole, sizeof whole,
                   "the last replay with breadcrumbs has passed all %zu breadcrumbs; if it still",
                   count);
    assert_ptr_equal(strstr(at.message, whole), at.message);
}
