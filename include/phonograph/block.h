/* SPDX-License-Identifier: MIT */
/* phonograph/block.h: capture by block. Optional; needs __attribute__((cleanup)) of gcc and clang.
 *
 *     ph_status st;
 *     PH_GRAPH(st, graph, stream, NULL) {
 *         st = ph_launch(stream, kernel, &config, &args, sizeof args);
 *         if (st) break;
 *     }
 *
 * - The end of the block ends the capture.
 * - An early exit (break, return, goto) aborts it. st keeps its status, or is CALLER if that was
 *   PH_OK.
 * - Limits: no longjmp out of the block; `continue` means the end of the block; one block in a
 *   source line. */
#ifndef PHONOGRAPH_BLOCK_H
#define PHONOGRAPH_BLOCK_H
#include <phonograph/graph.h>

typedef struct ph_scope {
    ph_status *status;
    ph_graph *graph;
    int stage; /* 0 begun, 1 in the body, 2 done */
} ph_scope;

static inline ph_scope ph_scope_enter(ph_status *status, ph_graph *graph, ph_stream *stream,
                                      const ph_capture_options *options)
{
    ph_scope scope = {status, graph, 0};
    *status = ph_graph_capture_begin(graph, stream, options);
    if (*status != PH_OK)
        scope.stage = 2;
    return scope;
}

static inline bool ph_scope_next(ph_scope *scope)
{
    if (scope->stage == 0) {
        scope->stage = 1;
        return true;
    }
    if (scope->stage == 1) {
        scope->stage = 2;
        *scope->status = ph_graph_capture_end(scope->graph, *scope->status);
    }
    return false;
}

/* Also runs for break, return and goto, with stage 1. */
static inline void ph_scope_leave(ph_scope *scope)
{
    if (scope->stage == 1) {
        scope->stage = 2;
        if (*scope->status == PH_OK)
            *scope->status =
                ph_fail(PH_ERROR_CALLER,
                        "the capture block was left early, with no error in its status: set "
                        "it before leaving, or reach the end of the block");
        *scope->status = ph_graph_capture_end(scope->graph, *scope->status);
    }
}

#define PH_CAT_(a, b) a##b
#define PH_CAT(a, b)  PH_CAT_(a, b)
#define PH_GRAPH(st, graph, stream, ...)                                                           \
    for (ph_scope PH_CAT(ph_scope_, __LINE__) __attribute__((cleanup(ph_scope_leave))) =           \
             ph_scope_enter(&(st), (graph), (stream), __VA_ARGS__);                                \
         ph_scope_next(&PH_CAT(ph_scope_, __LINE__));)
#endif
