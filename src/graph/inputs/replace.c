/* SPDX-License-Identifier: MIT */
/* graph/inputs/replace.c: the inputs of one node in the place of those that it had. */
#include "graph/inputs/replace.h"
#include "base/alloc.h"
#include "graph/inputs/inputs.h"
#include "graph/object/graph.h"
#include <string.h>

bool ph__graph_reserve_inputs(ph_graph *graph, size_t extra)
{
    return ph__vec_reserve(&graph->inputs, extra);
}

void ph__graph_replace_inputs(ph_graph *graph, size_t node, ph__inputs *inputs)
{
    ph__inputs old = {0};
    size_t kept = 0, place = 0;
    for (size_t i = 0; i < graph->inputs.count; i++)
        if (graph->inputs.at[i].node == node) {
            old.at = &graph->inputs.at[i];
            old.count = 1;
            ph__inputs_let_go(&old, graph);
        } else {
            place += graph->inputs.at[i].node < node;
            graph->inputs.at[kept++] = graph->inputs.at[i];
        }
    if (inputs->count) {
        ph__input *at = graph->inputs.at + place;
        memmove(at + inputs->count, at, (kept - place) * sizeof *at);
        memcpy(at, inputs->at, inputs->count * sizeof *at);
    }
    graph->inputs.count = kept + inputs->count;
    ph__vec_free(inputs);
    graph->free_count = UINT64_MAX;
}
