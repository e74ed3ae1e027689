/* SPDX-License-Identifier: MIT */
/* graph/object/states.h: the table of states.def in C. */
#ifndef PH_GRAPH_OBJECT_STATES_H
#define PH_GRAPH_OBJECT_STATES_H
#include <phonograph/graph.h>

typedef enum ph__graph_call {
#define PH__STATE_ROW(id, ...) PH__CALL_##id,
#include "graph/object/states.def"
#undef PH__STATE_ROW
    PH__CALL_COUNT
} ph__graph_call;

typedef enum ph__answer {
#define PH__ANSWER_ROW(id, ...) PH__ANSWER_##id,
#include "graph/object/states.def"
#undef PH__ANSWER_ROW
    PH__ANSWER_COUNT
} ph__answer;

enum {
    PH__GRAPH_STATES = 5,
    PH__GRAPH_GONE = PH__GRAPH_STATES /* destroyed, and its memory kept (base/ended.h) */
};

typedef struct ph__state_row {
    const char *name;                    /* the public call */
    bool busy;                           /* refused inside hooks of the same graph */
    ph__answer answer[PH__GRAPH_STATES]; /* by ph_graph_state */
} ph__state_row;
typedef struct ph__answer_row {
    const char *id, *summary, *why, *remedy;
} ph__answer_row;

extern const ph__state_row ph__graph_calls[PH__CALL_COUNT];
extern const ph__answer_row ph__answers[PH__ANSWER_COUNT];
const char *ph__graph_state_name(ph_graph_state state);
/* PH_OK, or the table's refusal. graph may be NULL (ARGUMENT). Makes the record where the call
 * reads it. */
ph_status ph__graph_check(const ph_graph *graph, ph__graph_call call);
/* Keeps the thread's record as the graph's own failure; FAILED. Returns status. */
ph_status ph__graph_fail(ph_graph *graph, ph_status status);
#endif
