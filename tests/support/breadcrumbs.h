/* SPDX-License-Identifier: MIT */
/* tests/support/breadcrumbs.h: a graph with breadcrumbs, whose replay a gate can hold, and how far
 * it came. */
#ifndef PH_TESTS_BREADCRUMBS_H
#define PH_TESTS_BREADCRUMBS_H
#include "support/support.h"

enum {
    BC_N = 256 /* elements of x and y */
};
typedef struct bc_scene {
    t_world world;
    ph_stream *side;
    ph_graph *graph;
    int32_t *x, *y;
    t_gate gate, other_gate; /* open */
} bc_scene;
extern bc_scene bc;
extern const ph_capture_options bc_options; /* with annotations and breadcrumbs */

/* Set-up and tear-down of a test: x and y are 0, the graph is new. Gates that a failed test left
 * closed are opened. */
int bc_open(void **state);
int bc_close(void **state);

/* ---- captures ---- */
/* Eight breadcrumbs: x = value, y = value + 1, where value is 1, or what `user` points to, an
 * int32_t. The gate is in "layer 3/attention". */
ph_status bc_body(ph_stream *stream, void *user);
/* Two breadcrumbs: one scope, then a node behind it. */
ph_status bc_short_body(ph_stream *stream, void *user);
/* bc_body, into bc.graph. */
void bc_capture(void);
void bc_replay_and_wait(ph_graph *graph);

/* ---- how far it came ---- */
ph_progress bc_where(void);
/* Waits until so many breadcrumbs were passed in a replay that has not passed all. */
ph_progress bc_wait_until(size_t passed);
/* Fails unless the last replay has passed all of so many breadcrumbs, and says so. */
void bc_assert_complete(size_t count);
#endif
