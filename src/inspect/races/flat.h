/* SPDX-License-Identifier: MIT */
/* inspect/races/flat.h: the nodes of a record and its bodies as one graph without nesting. */
#ifndef PH_INSPECT_RACES_FLAT_H
#define PH_INSPECT_RACES_FLAT_H
#include "base/vec.h"
#include "record/record.h"
#include <stdint.h>

/* A graph node with a body is two: one before its nodes, and one behind them. */
typedef struct ph__flat_node {
    const ph_record *record;   /* the one with the node */
    const ph__record_node *at; /* NULL: the second of a graph node */
    uint32_t outer;            /* in the record of the graph */
    uint32_t parent;           /* the graph node around it, in the list; UINT32_MAX: none */
    uint32_t first, count;     /* of its dependencies */
    /* something before it, or behind it, may wait or signal beside the edges */
    bool waits, signals;
} ph__flat_node;
typedef struct ph__flat {
    PH__VEC(ph__flat_node) nodes; /* in topological order */
    PH__VEC(uint32_t) edges;      /* places of dependencies in the list */
} ph__flat;

/* false: no memory, or more than 2^32 - 2 nodes or edges. free in either case. */
bool ph__flat_make(ph__flat *out, const ph_record *record);
void ph__flat_free(ph__flat *flat);
#endif
