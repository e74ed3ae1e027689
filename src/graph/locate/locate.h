/* SPDX-License-Identifier: MIT */
/* graph/locate/locate.h: the probe nodes of a graph, which watch its replays, as their files share
 * them. breadcrumbs.c and finite.c capture them by way of probes.c, change/probe_switch.c switches
 * them, where.c and finite.c read what they wrote. */
#ifndef PH_GRAPH_LOCATE_LOCATE_H
#define PH_GRAPH_LOCATE_LOCATE_H
#include "device/annotate/pairs.h"
#include "device/capture/culprit.h"
#include "device/capture/refuse.h"
#include "device/capture/submit.h"
#include "device/handles/kernel.h"
#include "device/handles/own_kernels.h"
#include "graph/object/graph.h"
#include <phonograph/inspect/locate.h>

/* A node that does nothing in the template, where its arguments name no table: copies of it in
 * other graphs stay so. An executable has it switched off, and gets the arguments when it is
 * first switched on. */
typedef struct ph__probe_node {
    ph__drv_node *handle; /* of the template, as index known from the capture's end on */
    size_t index;         /* in the record; SIZE_MAX: not there */
    size_t scope;         /* breadcrumbs: among the scopes */
    bool ends;            /* breadcrumbs: that scope */
    char *name, *path;    /* checks; path: of the scope */
    uint32_t blocks;      /* checks: of the grid, each with a part of the table from part on */
    size_t part;
    union {
        ph__drv_breadcrumb breadcrumb;
        ph__drv_finite finite;
    } args; /* but for the table */
} ph__probe_node;

/* All nodes of a kind. Their table is pinned memory that is taken when they are first switched on,
 * and kept until the graph lets go of its capture. Its first word is the tick of the root, a
 * breadcrumb that comes before all of them: what is greater was written later in that replay. That
 * of the breadcrumbs is the capture's first node, so that a replay which hangs anywhere has begun;
 * that of the checks is made with the first of them. */
typedef struct ph__probes {
    ph__probe_kernel kernel;
    PH__VEC(ph__probe_node) nodes;
    ph__probe_node root; /* handle NULL: none is known yet */
    ph__map ordered;     /* checks: ids of the streams whose work comes after the root */
    bool on, given;      /* given: the executable has the arguments */
    void *table;
    size_t bytes;
} ph__probes;

/* A scope that began on a stream of the capture. */
typedef struct ph__located_scope {
    char *path;         /* of the scopes that were open on its thread, "layer 3/attention" */
    uint64_t serial;    /* of ph__thread_ambient in it */
    size_t first, last; /* its breadcrumbs; last SIZE_MAX: it has none there */
} ph__located_scope;

/* While the capture is open, under the device's capture_lock. */
struct ph__locate {
    PH__VEC(ph__located_scope) scopes;
    ph__probes breadcrumbs, checks;
    PH__VEC(const char *) shown; /* the names that ph_graph_where returned; room for all scopes */
};

/* A failure under the lock, to be reported when the lock is free. */
typedef struct ph__probe_failure {
    ph_status status; /* told already */
    int result;       /* the driver's */
    const char *driver_call;
} ph__probe_failure;
static inline bool ph__probe_failed(const ph__probe_failure *f)
{
    return f->status != PH_OK || f->result != PH__R_OK;
}
static inline uint64_t ph__probe_tick(const uint64_t *at)
{
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
/* The part `i` of a table of checks. */
static inline const ph__drv_finite_part *ph__probe_part(const ph__probes *checks, size_t i)
{
    return (const ph__drv_finite_part *)checks->table + 1 + i;
}
#endif
