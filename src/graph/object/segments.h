/* SPDX-License-Identifier: MIT */
/* graph/object/segments.h: the segments of a graph with breaks. Each is a graph object of its own;
 * the graph has neither template nor executable, but the pools, and what its user attached. */
#ifndef PH_GRAPH_OBJECT_SEGMENTS_H
#define PH_GRAPH_OBJECT_SEGMENTS_H
#include "graph/object/graph.h"
#include <phonograph/breaks.h>

typedef struct ph__graph_segment {
    ph_graph *graph; /* its `whole` is the graph with the breaks */
    ph_break_fn fn;  /* after it; NULL: it is the last one */
    void *user;
} ph__graph_segment;
struct ph__segments {
    PH__VEC(ph__graph_segment) list;
    size_t launched; /* segments, by the running replay or the last one */
    /* Called before (2 i) and after (2 i + 1) the launch of segment i; NULL: nobody asks. */
    ph_status (*mark)(void *user, ph_stream *stream, size_t place);
    void *mark_user;
    void (*destroy)(ph_graph *segment); /* the layer above's */
};

/* Destroys the segments. */
void ph__segments_drop(ph_graph *graph);

/* The record of the whole: a graph node for each segment, and a host node for each break. */
ph_status ph__segments_need_record(ph_graph *graph, const char *call);
#endif
