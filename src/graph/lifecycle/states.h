/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/states.h: the table of states.def in C. */
#ifndef PH_GRAPH_LIFECYCLE_STATES_H
#define PH_GRAPH_LIFECYCLE_STATES_H
#include <phonograph/graph.h>

typedef enum ph__graph_call {
#define PH__STATE_ROW(id, ...) PH__CALL_##id,
#include "graph/lifecycle/states.def"
#undef PH__STATE_ROW
    PH__CALL_COUNT
} ph__graph_call;

typedef enum ph__answer {
#define PH__ANSWER_ROW(id, ...) PH__ANSWER_##id,
#include "graph/lifecycle/states.def"
#undef PH__ANSWER_ROW
    PH__ANSWER_COUNT
} ph__answer;

enum {
    PH__GRAPH_STATES = 5
};

typedef struct ph__state_row {
    const char *name;                    /* the public call */
    bool busy;                           /* refused inside hooks of the same graph */
    ph__answer answer[PH__GRAPH_STATES]; /* by ph_graph_state */
} ph__state_row;
typedef struct ph__answer_row {
    const char *id, *brief, *why, *remedy;
} ph__answer_row;

extern const ph__state_row ph__graph_calls[PH__CALL_COUNT];
extern const ph__answer_row ph__answers[PH__ANSWER_COUNT];
const char *ph__graph_state_name(ph_graph_state state);
#endif
