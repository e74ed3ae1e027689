/* SPDX-License-Identifier: MIT */
/* nn/graphed/depends.c: what outputs of a callable depend on, as the making finds it out. */
#include "nn/graphed/depends.h"
#include "base/alloc.h"
#include "base/status.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/capture.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/node.h"
#include "tensor/tape/tape.h"
#include <string.h>

enum {
    DEFAULT_BACKWARDS = 8
};

size_t ph__callable_most_backwards(const ph__callable *callable)
{
    size_t most = callable->set->options.max_backwards;
    return most ? most : DEFAULT_BACKWARDS;
}

static void note_leaf(const ph__callable *callable, bool *row, ph_tensor *const *in,
                      const ph_tensor *leaf)
{
    size_t i = 0;
    while (i < callable->in_count && in[i] != leaf)
        i++;
    row[i] = true;
}

/* Down from the output's node, newest first. reached: a flag for each node of the trial, false on
 * entry. */
static void note_row(const ph__trial *trial, const ph_tensor *out, bool *row, bool *reached)
{
    size_t first = trial->first_node;
    reached[out->node->index - first] = true;
    for (size_t n = out->node->index + 1; n-- > first;) {
        const ph__node *node = trial->tape->nodes.at[n];
        for (size_t k = 0; reached[n - first] && k < node->in_count; k++) {
            const ph__edge *edge = ph__node_edge(node, k);
            if (edge->leaf)
                note_leaf(trial->callable, row, trial->in, edge->leaf);
            else if (edge->node)
                reached[edge->node->index - first] = true;
        }
    }
}

static ph_status note_depends(const ph__trial *trial, const char *call)
{
    const ph__callable *callable = trial->callable;
    size_t nodes = trial->tape->nodes.count - trial->first_node;
    for (size_t o = 0; o < callable->out_count; o++) {
        bool *row = callable->depends + o * (callable->in_count + 1);
        memset(row, 0, (callable->in_count + 1) * sizeof *row);
        if (!callable->grad_outputs[o].used)
            continue;
        bool *reached = ph__calloc(nodes, sizeof *reached);
        if (!reached)
            return ph__fail_host_memory(call, "what its outputs depend on");
        note_row(trial, callable->outputs[o], row, reached);
        ph__free(reached);
    }
    return PH_OK;
}

bool ph__callable_has_history(const ph__callable *callable, size_t output, ph_tensor *const *in)
{
    const bool *row = callable->depends + output * (callable->in_count + 1);
    if (row[callable->in_count])
        return true;
    for (size_t i = 0; i < callable->in_count; i++)
        if (row[i] && ph__needs_grad(in[i]))
            return true;
    return false;
}

/* With one output there is one set. */
static bool may_need_others(const ph__callable *callable)
{
    size_t used = 0;
    for (size_t i = 0; i < callable->out_count; i++)
        used += callable->grad_outputs[i].used;
    return callable->backward.graph && used > 1 && ph__callable_most_backwards(callable) > 1;
}

ph_status ph__making_keep(ph__making *making, const char *call)
{
    ph__callable *callable = making->callable;
    PH_TRY(note_depends(&making->real, call));
    if (!may_need_others(callable))
        return PH_OK;
    for (size_t i = 0; i < callable->in_count; i++)
        callable->inputs[i].stood = making->real.in[i]->data;
    callable->stand_ins = making->real.in;
    callable->stand_key = 0;
    making->real.in = NULL;
    return PH_OK;
}
