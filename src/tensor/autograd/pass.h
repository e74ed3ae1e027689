/* SPDX-License-Identifier: MIT */
/* tensor/autograd/pass.h: one pass of backward over a tape: which nodes and leaves it reaches,
 * and what it has found for them. */
#ifndef PH_TENSOR_AUTOGRAD_PASS_H
#define PH_TENSOR_AUTOGRAD_PASS_H
#include "base/map.h"
#include "tensor/tape/tape.h"

#define PH__NO_SLOT UINT32_MAX

/* A leaf that the pass reaches. It is complete, and its gradient is used, once no node is to
 * come that would add to it. */
typedef struct ph__gradient_slot {
    ph_tensor *leaf; /* retained */
    ph_tensor *grad; /* the sum so far, retained; NULL: none */
    size_t uses;     /* contributions to come */
} ph__gradient_slot;

typedef struct ph__pass {
    ph_tape *tape;
    const char *call;
    bool retain, allow_unused;
    /* Gradients are asked for these; NULL: they are accumulated into all leaves. found: one
     * each, retained. */
    ph_tensor *const *inputs;
    ph_tensor **found;
    size_t input_count;
    ph_tensor *const *outputs;
    ph_tensor *const *grads; /* may be NULL, and have NULLs */
    size_t output_count;
    size_t floor, top; /* the nodes that it may reach */
    PH__VEC(ph__gradient_slot) slots;
    ph__map by_leaf; /* index in slots, + 1; of those from `unindexed` on */
    /* the first slots, of one node's leaf_edges: not in the map while no other leaf has come, and
     * not retained */
    size_t unindexed, borrowed;
    ph__leaf_edges *leaf_edges; /* which have slots of this pass */
    size_t widest;              /* operands of a node that it reaches */
    ph_tensor **in_grads;       /* scratch of widest elements; the others lie behind it */
    ph_tensor **leaves, **sums;
    bool *needed, *sole, *wide, *summed;
    ph_annotation_scope *mark; /* whose scope is open, borrowed from a node; NULL: none */
    bool own;                  /* one is open that says why the pass adds nodes by itself */
    size_t depth;              /* of the thread's scopes when the pass began */
    /* at the first node that has a mark: outside captures no scope is opened */
    bool asked, capturing;
} ph__pass;

/* Marks nodes, makes slots, counts what is to come. False: the tape has failed, and nothing was
 * launched. */
bool ph__pass_plan(ph__pass *pass);
/* PH__NO_SLOT: the pass has no use for it. */
uint32_t ph__pass_slot(const ph__pass *pass, const ph_tensor *leaf);
/* Whether the gradient for this operand is of use: after plan, of a node that is reached. */
bool ph__pass_needs(const ph__pass *pass, const ph__edge *edge);
/* The node's gradients go to the inputs that are outputs of it. */
void ph__pass_capture(ph__pass *pass, const ph__node *node);
void ph__pass_found(ph__pass *pass, const ph_tensor *leaf, ph_tensor *grad);
/* Unmarks the nodes below `below`, releases everything. */
void ph__pass_end(ph__pass *pass, size_t below);

static inline bool ph__pass_runs(const ph__pass *pass, const ph__node *node)
{
    return node->reached && (!pass->inputs || node->wanted);
}
#endif
