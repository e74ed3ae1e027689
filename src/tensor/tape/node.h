/* SPDX-License-Identifier: MIT */
/* tensor/tape/node.h: operators that were remembered. */
#ifndef PH_TENSOR_TAPE_NODE_H
#define PH_TENSOR_TAPE_NODE_H
#include "tensor/core/fresh.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/grad_def.h"
#include <phonograph/annotation.h>
#include <phonograph/tape.h>

typedef struct ph__region ph__region; /* region.h */

/* Where an operand's gradient goes: an output of an earlier node of the same tape (which keeps
 * it), or a leaf (retained); neither: nowhere. */
typedef struct ph__edge {
    ph__node *node;
    ph_tensor *leaf;
    uint32_t output; /* of node */
    uint32_t slot;   /* of leaf, in the pass that is under way */
    ph_dtype dtype;  /* and shape of the operand: what its gradient must have */
    ph_shape shape;
} ph__edge;

/* Edges to leaves that many nodes have, as the parameters of one graphed callable: made once. A
 * pass of backward keeps its slots in them: a node of another pass that is under way gets its
 * own. */
typedef struct ph__leaf_edges {
    atomic_int references;
    int ahead;                   /* of its maker, which makes the nodes (ph__reference_give) */
    bool distinct;               /* no leaf is there twice */
    void *pass;                  /* the pass that has its slots here; NULL: none */
    struct ph__leaf_edges *next; /* of that pass */
    size_t count;
    ph__edge at[]; /* leaves are retained */
} ph__leaf_edges;

/* An operator that was remembered. One allocation: edges, saved values, their versions and the
 * state lie behind it. Retained by its tape and by the tensors that it made; what it keeps goes
 * when backward has used it, or its tape is cleared: so no two of them keep each other. */
struct ph__node {
    atomic_int references;
    bool alive;    /* its tape has it: else the tensors that it made are leaves */
    bool released; /* backward has been here, and what it needs is gone */
    /* a cast (autocast.c) whose uses do not know of each other: each may have a pass of its own,
     * and gradients are as if each had cast */
    bool shared;
    /* a cast that autocast has made of f32: operators may give its output's gradient in f32 too,
     * where a rounding to the output's dtype would only cost */
    bool wide;
    /* saved values are there: not so after the first run of a checkpointed function */
    bool filled;
    /* In a pass of backward, false between: it leads to what gradients are asked for; gradients
     * can reach it; one of its outputs is asked for. */
    bool wanted, reached, captured;
    const char *name;
    const ph__grad_def *def;
    ph_tape *tape;      /* while alive */
    size_t index;       /* in tape->nodes */
    size_t room;        /* bytes of the allocation */
    ph__region *region; /* innermost checkpoint that it was made in; NULL: none */
    uint32_t in_count, out_count, saved_count;
    uint32_t own_count; /* of the edges: the others are those of leaf_edges */
    ph__edge *edges;
    ph__leaf_edges *leaf_edges; /* retained; NULL: all are its own */
    void *apart;                /* edges that it was given later, in an allocation of theirs */
    ph_tensor **saved;          /* the handles themselves, retained */
    uint64_t *versions;         /* versions of those tensors when they were saved */
    void *state;
    /* gradients of its outputs in a pass; retained; all NULL between passes */
    ph_tensor **pending;
    ph_tensor *pending_one; /* where there is one output */
    ph_tensor_hook *hooks;  /* of its outputs, in order of adding */
    /* the scope that it was made in, which its backward is in; retained; NULL: none */
    ph_annotation_scope *mark;
};

/* NULL: no host memory. Kept by the tape, which has it as its newest; edges, saved values and
 * state are zero. leaf_edges: those of its last operands, which it retains, or NULL. */
ph__node *ph__node_make(ph_tape *tape, const char *name, const ph__grad_def *def, size_t in_count,
                        size_t saved_count, ph__leaf_edges *leaf_edges);
static inline ph__edge *ph__node_edge(const ph__node *node, size_t i)
{
    return i < node->own_count ? &node->edges[i] : &node->leaf_edges->at[i - node->own_count];
}
/* Room for the gradients of so many outputs; false: no host memory. */
bool ph__node_set_outputs(ph__node *node, size_t out_count);
void ph__node_drop_saved(ph__node *node); /* values alone: it is not filled any more */
/* values and state: a pass through it is an error from now on */
void ph__node_consume(ph__node *node);
void ph__node_drop_pending(ph__node *node); /* and the marks of the pass */
void ph__tape_kill_nodes(
    /* newest first: they are dead, and tensors that they made are leaves */
    ph_tape *tape, size_t first);
/* All edges are its own from now on. False: no host memory, and nothing has changed. */
bool ph__node_own_edges(ph__node *node);
/* Room for so many edges, which are zero. NULL: no host memory. release: takes NULL. end: by the
 * maker, whose reference it releases; takes NULL. */
ph__leaf_edges *ph__leaf_edges_make(size_t count);
void ph__leaf_edges_release(ph__leaf_edges *leaf_edges);
void ph__leaf_edges_end(ph__leaf_edges *leaf_edges);
ph__node *ph__node_retain(ph__node *node);
/* The same while no other thread can know it. */
static inline ph__node *ph__node_retain_new(ph__node *node)
{
    atomic_store_explicit(&node->references,
                          atomic_load_explicit(&node->references, memory_order_relaxed) + 1,
                          memory_order_relaxed);
    return node;
}
void ph__node_release(ph__node *node); /* takes NULL */
/* Its block may go to the next node of that tape; spares may be NULL. */
void ph__node_release_to(ph__node *node, ph__spare_tensors *spares);
/* Its tape still has it. Takes NULL. */
static inline bool ph__node_is_alive(const ph__node *node)
{
    return node && node->alive;
}
static inline bool ph__needs_grad(const ph_tensor *x)
{
    return x->requires_grad || ph__node_is_alive(x->node);
}
#endif
