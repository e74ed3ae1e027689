/* SPDX-License-Identifier: MIT */
/* graph/inputs/input_state.h: whether one input still lives. */
#ifndef PH_GRAPH_INPUTS_INPUT_STATE_H
#define PH_GRAPH_INPUTS_INPUT_STATE_H
#include "graph/object/graph.h"

/* Whether it is still there; asks the driver about memory of other code's. */
ph_status ph__foreign_ask(ph__foreign *foreign, ph_graph *graph, const char *call);
ph_input_state ph__input_state(const ph_graph *graph, const ph__input *input);
bool ph__input_is_proved(const ph_graph *graph, const ph__input *input); /* also by a slot */
#endif
