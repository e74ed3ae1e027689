/* SPDX-License-Identifier: MIT */
/* tensor/tape/node.c: remembered operators: one allocation each, what they keep, and how
 * they end. */
#include "tensor/tape/node.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/status.h"
#include "tensor/core/released.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/hooks.h"
#include "tensor/tape/tape.h"
#include <string.h>

enum {
    MOST_ROOM = 4096 /* of a block that a tape keeps for its next node */
};

/* Each part begins at a multiple of 16, so that the state may be any struct. */
static size_t pad_to_16(size_t bytes)
{
    return (bytes + 15) & ~(size_t)15;
}

/* ---- edges that nodes share ---- */
ph__leaf_edges *ph__leaf_edges_make(size_t count)
{
    ph__leaf_edges *leaf_edges = ph__calloc(1, sizeof *leaf_edges + count * sizeof(ph__edge));
    if (!leaf_edges)
        return NULL;
    atomic_init(&leaf_edges->references, 1);
    leaf_edges->count = count;
    return leaf_edges;
}

void ph__leaf_edges_release(ph__leaf_edges *leaf_edges)
{
    if (!leaf_edges || !ph__drop_reference(&leaf_edges->references))
        return;
    for (size_t i = 0; i < leaf_edges->count; i++)
        ph_tensor_release(leaf_edges->at[i].leaf);
    ph__free(leaf_edges);
}

void ph__leaf_edges_end(ph__leaf_edges *leaf_edges)
{
    if (leaf_edges)
        ph__references_return(&leaf_edges->references, &leaf_edges->ahead);
    ph__leaf_edges_release(leaf_edges);
}

bool ph__node_own_edges(ph__node *node)
{
    ph__edge *edges = node->leaf_edges ? ph__calloc(node->in_count, sizeof *edges) : NULL;
    if (!edges)
        return !node->leaf_edges;
    for (size_t i = 0; i < node->in_count; i++)
        edges[i] = *ph__node_edge(node, i);
    for (size_t i = node->own_count; i < node->in_count; i++)
        edges[i].leaf = ph_tensor_retain(edges[i].leaf);
    ph__leaf_edges_release(node->leaf_edges);
    node->leaf_edges = NULL;
    node->edges = node->apart = edges;
    node->own_count = node->in_count;
    return true;
}

/* ---- nodes ---- */
/* *room: at least so many bytes, and how many there are. malloc is faster than calloc, which passes
 * the thread's own blocks by. */
static char *acquire_node_block(ph__spare_tensors *spares, size_t *room)
{
    char *block = spares->node;
    if (!block || spares->node_room < *room)
        return ph__alloc(*room);
    if (!ph__alloc_reuse_by(spares->tally))
        return NULL;
    *room = spares->node_room;
    spares->node = NULL;
    return block;
}

ph__node *ph__node_make(ph_tape *tape, const char *name, const ph__grad_def *def, size_t in_count,
                        size_t saved_count, ph__leaf_edges *leaf_edges)
{
    size_t edges = pad_to_16(sizeof(ph__node)), saved, versions, state, total;
    size_t own_count = in_count - (leaf_edges ? leaf_edges->count : 0);
    if (in_count > UINT32_MAX || saved_count > UINT32_MAX)
        return NULL;
    saved = edges + pad_to_16(own_count * sizeof(ph__edge));
    versions = saved + pad_to_16(saved_count * sizeof(ph_tensor *));
    state = versions + pad_to_16(saved_count * sizeof(uint64_t));
    if (!ph__add(state, def->state_bytes, &total) || !ph__vec_reserve(&tape->nodes, 1))
        return NULL;
    size_t room = total;
    char *at = acquire_node_block(&tape->spares, &room);
    if (!at)
        return NULL;
    memset(at, 0, total);
    ph__node *node = (ph__node *)at;
    node->room = room;
    atomic_init(&node->references, 1);
    node->alive = true;
    node->filled = !tape->hollow;
    node->name = name;
    node->def = def;
    node->tape = tape;
    node->index = tape->nodes.count;
    node->region = tape->region;
    node->in_count = (uint32_t)in_count;
    node->own_count = (uint32_t)own_count;
    node->leaf_edges = leaf_edges;
    if (leaf_edges)
        ph__reference_give(&leaf_edges->references, &leaf_edges->ahead);
    node->saved_count = (uint32_t)saved_count;
    node->edges = (ph__edge *)(at + edges);
    node->saved = (ph_tensor **)(at + saved);
    node->versions = (uint64_t *)(at + versions);
    node->state = at + state;
    node->pending = &node->pending_one;
    node->mark = ph_annotation_current();
    tape->nodes.at[tape->nodes.count++] = node;
    return node;
}

bool ph__node_set_outputs(ph__node *node, size_t out_count)
{
    if (out_count > 1) {
        ph_tensor **pending = ph__calloc(out_count, sizeof(ph_tensor *));
        if (!pending)
            return false;
        node->pending = pending;
    }
    node->out_count = (uint32_t)out_count;
    return true;
}

void ph__node_drop_saved(ph__node *node)
{
    node->filled = false;
    for (size_t i = 0; i < node->saved_count; i++) {
        ph_tensor *x = node->saved[i];
        if (!x)
            continue;
        node->saved[i] = NULL;
        node->tape->saved--;
        ph_tensor_release(x);
    }
}

void ph__node_consume(ph__node *node)
{
    if (node->released || node->shared)
        return;
    node->released = true;
    ph__node_drop_saved(node);
    if (node->def->release)
        node->def->release(node->state);
}

void ph__node_drop_pending(ph__node *node)
{
    for (size_t i = 0; i < node->out_count; i++) {
        ph_tensor *x = node->pending[i];
        node->pending[i] = NULL;
        ph_tensor_release(x);
    }
    node->wanted = node->reached = node->captured = false;
}

/* Tensors that the node keeps go here, and not with its last reference: they may be those that keep
 * it. */
static void kill_node(ph__node *node)
{
    ph__node_drop_pending(node);
    ph__node_consume(node);
    for (size_t i = 0; i < node->own_count; i++) {
        ph_tensor *leaf = node->edges[i].leaf;
        node->edges[i].leaf = NULL;
        node->edges[i].node = NULL;
        ph_tensor_release(leaf);
    }
    ph__leaf_edges_release(node->leaf_edges);
    node->leaf_edges = NULL;
    node->in_count = node->own_count;
    ph__hooks_release(node->hooks);
    node->hooks = NULL;
    if (node->mark)
        ph_annotation_release(node->mark);
    node->mark = NULL;
    node->region = NULL;
    node->tape = NULL;
    node->alive = false;
    ph__node_release(node);
}

void ph__tape_kill_nodes(ph_tape *tape, size_t first)
{
    while (tape->nodes.count > first)
        kill_node(tape->nodes.at[--tape->nodes.count]);
}

ph__node *ph__node_retain(ph__node *node)
{
    atomic_fetch_add_explicit(&node->references, 1, memory_order_relaxed);
    return node;
}

void ph__node_release_to(ph__node *node, ph__spare_tensors *spares)
{
    if (!node || !ph__drop_reference(&node->references))
        return;
    if (node->pending != &node->pending_one)
        ph__free(node->pending);
    ph__free(node->apart);
    if (!PH__RECYCLES || !spares || spares->node || node->room > MOST_ROOM) {
        ph__free(node);
        return;
    }
    ph__alloc_set_aside_by(spares->tally);
    spares->node_room = node->room;
    spares->node = node;
}

void ph__node_release(ph__node *node)
{
    ph__node_release_to(node, NULL);
}
