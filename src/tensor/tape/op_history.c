/* SPDX-License-Identifier: MIT */
/* tensor/tape/op_history.c: how an operator is remembered: its node, where gradients of its
 * operands go, and what it keeps for backward. */
#include "tensor/tape/op_history.h"
#include "base/map.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/node.h"
#include "tensor/tape/op.h"
#include "tensor/tape/tape.h"

#define UNLIKELY(x) __builtin_expect(!!(x), 0)

/* The first tape that a leaf is used on gives it its stream. */
static void note_leaf_stream(const ph_tape *tape, ph_tensor *x)
{
    const ph_stream *none = NULL;
    if (x->leaf && !atomic_load_explicit(&x->leaf->stream, memory_order_relaxed))
        (void)atomic_compare_exchange_strong_explicit(&x->leaf->stream, &none, tape->stream,
                                                      memory_order_relaxed, memory_order_relaxed);
}

static void set_edge(ph__edge *edge, const ph_tape *tape, ph_tensor *x)
{
    edge->dtype = x->dtype;
    edge->shape = x->shape;
    if (ph__node_is_alive(x->node)) {
        edge->node = x->node;
        edge->output = x->output;
    } else if (x->requires_grad) {
        edge->leaf = ph_tensor_retain(x);
        note_leaf_stream(tape, x);
    }
}

ph__leaf_edges *ph__op_leaf_edges(const ph_tape *tape, ph_tensor *const *leaves, size_t count)
{
    ph__map seen = {0};
    ph__leaf_edges *leaf_edges = ph__leaf_edges_make(count);
    if (!leaf_edges)
        return NULL;
    leaf_edges->distinct = true;
    for (size_t i = 0; i < count; i++) {
        uintptr_t key = (uintptr_t)leaves[i];
        leaf_edges->distinct =
            leaf_edges->distinct && !ph__map_get(&seen, key) && ph__map_put(&seen, key, leaves[i]);
        set_edge(&leaf_edges->at[i], tape, leaves[i]);
    }
    ph__map_free(&seen);
    return leaf_edges;
}

void *ph__op_track_leaves(ph__op *op, const ph__grad_def *def, size_t saved_count,
                          ph__leaf_edges *leaf_edges)
{
    ph_tape *tape = op->tape;
    if (UNLIKELY(ph__tape_failed(tape)))
        return NULL;
    ph__node *node = ph__node_make(tape, op->name, def, op->in_count, saved_count, leaf_edges);
    if (UNLIKELY(!node))
        return ph__op_fail(op, PH_ERROR_HOST_MEMORY, "no host memory for its history");
    for (size_t i = 0; i < node->own_count; i++)
        if (op->in[i])
            set_edge(&node->edges[i], tape, op->in[i]);
    op->node = node;
    return node->state;
}

void *ph__op_track(ph__op *op, const ph__grad_def *def, size_t saved_count)
{
    return ph__op_track_leaves(op, def, saved_count, NULL);
}

void ph__op_save(ph__op *op, size_t index, ph_tensor *x)
{
    ph__node *node = op->node;
    if (!node || !x)
        return;
    node->versions[index] = atomic_load_explicit(&x->storage->version, memory_order_relaxed);
    if (op->tape->hollow)
        return;
    node->saved[index] = ph_tensor_retain(x);
    op->tape->saved++;
}
