/* SPDX-License-Identifier: MIT */
/* tensor/autograd/tape.h: the tape, its nodes and leaves, as tape.c, node.c, backward.c and op.c
 * share them. Operators see op.h. */
#ifndef PH_TENSOR_AUTOGRAD_TAPE_H
#define PH_TENSOR_AUTOGRAD_TAPE_H
#include "base/vec.h"
#include "tensor/autograd/op.h"
#include "tensor/autograd/unasked.h"
#include "tensor/core/quarantine.h"

typedef struct ph__region ph__region;       /* checkpoint.c */
typedef struct ph__casts ph__casts;         /* autocast.c */
typedef struct ph__sightings ph__sightings; /* sightings.h */
typedef struct ph__called ph__called; /* nn/module/module.c: a call of a module that is under way */

/* The module that is being called, with its name: for those that it calls. Made by who knows
 * modules. */
typedef struct ph__place {
    size_t references;
    void (*destroy)(struct ph__place *place);
} ph__place;
static inline ph__place *ph__place_retain(ph__place *place)
{
    if (place)
        place->references++;
    return place;
}
static inline void ph__place_release(ph__place *place)
{
    if (place && --place->references == 0)
        place->destroy(place);
}

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
    /* saved values are there: not so after the first run of a checkpointed function */
    bool filled;
    /* In a pass of backward, false between: it leads to what gradients are asked for; gradients
     * can reach it; one of its outputs is asked for. */
    bool wanted, reached, captured;
    const char *name;
    const ph__grad_def *def;
    ph_tape *tape;      /* while alive */
    size_t index;       /* in tape->nodes */
    ph__region *region; /* innermost checkpoint that it was made in; NULL: none */
    uint32_t in_count, out_count, saved_count;
    ph__edge *edges;
    ph_tensor **saved;  /* the handles themselves, retained */
    uint64_t *versions; /* that they had */
    void *state;
    /* gradients of its outputs in a pass; retained; all NULL between passes */
    ph_tensor **pending;
    ph_tensor *pending_one; /* where there is one output */
    ph_tensor_hook *hooks;  /* of its outputs, in order of adding */
    /* the scope that it was made in, which its backward is in; retained; NULL: none */
    ph_annotation_scope *mark;
};

/* Of a tensor that has, or had, a gradient or hooks of its own. Made while nobody else uses the
 * tensor; several tapes may read it then. */
struct ph__leaf {
    ph_tensor *grad;       /* retained */
    ph_tensor_hook *hooks; /* in order of adding */
    _Atomic(const ph_stream *)
        stream; /* of the tape that used it first; an identity, never followed; NULL: none yet */
};

enum {
    PH__OWNED_INLINE = 32
};
struct ph_tape {
    ph_stream *stream;
    ph__backend *backend;      /* retained */
    uint64_t key;              /* unique in the process: stands for the stream in ph__storage */
    ph_generator *generator;   /* retained; NULL: the default */
    ph_generator *default_one; /* retained once it has been asked for */
    bool grad_enabled, refuse_other_streams, mark_modules;
    ph_autocast autocast; /* dtype 0: off */
    ph__casts *casts;     /* of weights, kept; NULL: none yet */
    /* where mark_modules: the innermost call that is under way, which holds it; NULL: none */
    ph__place *place;
    const ph__called *called; /* the innermost; NULL: none */
    /* borrowed: notes what operators use that is not the tape's own; NULL: nobody asks */
    ph__sightings *sightings;
    bool placed; /* the failure's message says in which module it was */
    /* history is gone through once more for a capture: what it saved may have other versions,
     * and no hooks of leaves run */
    bool recaptures;
    bool hollow;          /* nodes get no saved values: the first run of a checkpointed function */
    ph__going going;      /* why it lets go of tensors now */
    unsigned callbacks;   /* of the user's, under way: clear is refused */
    size_t floor;         /* nodes below it belong to a pass of backward that is under way */
    unsigned passes;      /* under way, one inside the other */
    size_t leaves;        /* that the last pass reached */
    ph__region *region;   /* innermost that is under way */
    ph_error error;       /* the first failure; status PH_OK: none */
    ph__unasked *unasked; /* of it; NULL: there is none, or no host memory for it */
    ph_tensor **owned;    /* a reference each; owned_inline until there are more */
    size_t owned_count, owned_capacity;
    PH__VEC(ph__node *) nodes; /* retained, in order of creation, which is a topological one */
    PH__VEC(ph__region *) regions;
    ph_tape *next, **link; /* in the backend's list; under its lock */
    unsigned lookers;      /* threads that ask after its stream; under that lock */
    size_t depth;
    size_t saved;
    ph_tensor *owned_inline[PH__OWNED_INLINE];
};

static inline uint64_t ph__tape_key(const ph_tape *tape)
{
    return tape->key;
}
static inline bool ph__tape_failed(const ph_tape *tape)
{
    return tape->error.status != PH_OK;
}

/* ---- tape.c ---- */
/* Gives the caller's reference to the tape; on failure it is released, and the tape has failed. */
bool ph__tape_own(ph_tape *tape, ph_tensor *x);
/* Drops what was made since mark and is not marked x->kept; those of keep that the tape owns
 * since then are spared. */
void ph__tape_drop(ph_tape *tape, size_t mark, ph_tensor *const *keep, size_t count);
/* For calls that are no operators: fails the tape in the name of call. */
void ph__tape_fail_host_memory(ph_tape *tape, const char *call, const char *what_for);
/* The tape has failed with what this thread's record says. */
void ph__tape_take_error(ph_tape *tape);
/* Puts text behind the message of the tape's failure, where there is room for all of it. */
void ph__tape_add_to_error(ph_tape *tape, const char *text);
/* Drops the tape's failure, which has been told; what it owns and remembers stays. */
void ph__tape_forgive(ph_tape *tape);
/* An operator of a tape that has failed does nothing: see unasked.h. */
void ph__tape_skip(const ph_tape *tape);
/* For calls that give the tape's failure back as their status, and so tell it. refuse: PH_OK, or
 * the failure that the tape had before the call, whose message says so. tell: `status` is what
 * the call itself has come to. */
ph_status ph__tape_refuse(const ph_tape *tape, const char *call);
ph_status ph__tape_tell(const ph_tape *tape, ph_status status);

/* ---- left.c ---- around a function of the user's, or a pass: what of the tape it may have
 * changed when it is left by unwinding (base/unwind.h). begin at entry; left puts it back, and
 * the tape has failed with "<what> did not return", unless it had before. */
typedef struct ph__tape_state {
    ph_tape *tape;
    const char *what; /* borrowed */
    ph__region *region;
    ph_autocast autocast;
    bool grad_enabled, hollow;
    unsigned callbacks, passes;
    size_t floor, depth, marks;
} ph__tape_state;
void ph__tape_state_begin(ph__tape_state *state, ph_tape *tape, const char *what);
void ph__tape_state_left(const ph__tape_state *state);

/* ---- marks.c ---- the scopes of annotation.h in backward, and what callbacks leave of theirs */
/* Opens the scope of mark (NULL: none, there is the phase alone) for backward's work. False: the
 * tape has failed, and nothing is open. */
bool ph__tape_resume(ph_tape *tape, ph_annotation_scope *mark);
/* Ends it, which is the one above `depth`, and first those that callbacks left open in it. */
void ph__tape_end_mark(ph_tape *tape, size_t depth);
/* After a function of the user's, which may have left early because the tape has failed: ends
 * what it left open above `depth`. */
static inline void ph__tape_unwind_marks(const ph_tape *tape, size_t depth)
{
    if (ph__tape_failed(tape))
        ph_annotation_unwind(depth);
}

/* ---- node.c ---- */
/* NULL: no host memory. Kept by the tape, which has it as its newest; edges, saved values and
 * state are zero. */
ph__node *ph__node_make(ph_tape *tape, const char *name, const ph__grad_def *def, size_t in_count,
                        size_t saved_count);
/* Room for the gradients of so many outputs; false: no host memory. */
bool ph__node_set_outputs(ph__node *node, size_t out_count);
void ph__node_drop_saved(ph__node *node); /* values alone: it is not filled any more */
/* values and state: a pass through it is an error from now on */
void ph__node_consume(ph__node *node);
void ph__node_drop_pending(ph__node *node); /* and the marks of the pass */
void ph__tape_kill_nodes(
    /* newest first: they are dead, and tensors that they made are leaves */
    ph_tape *tape, size_t first);
ph__node *ph__node_retain(ph__node *node);
void ph__node_release(ph__node *node); /* takes NULL */
/* Its tape still has it. Takes NULL. */
static inline bool ph__node_is_alive(const ph__node *node)
{
    return node && node->alive;
}
static inline bool ph__needs_grad(const ph_tensor *x)
{
    return x->requires_grad || ph__node_is_alive(x->node);
}

/* ---- tensor.c ---- x's own leaf, made at first need; NULL: no host memory. One that requires a
 * gradient has it already. */
ph__leaf *ph__tensor_leaf(ph_tensor *x);
/* Whether functions of the user's are to see its gradient before it is used. */
static inline bool ph__leaf_has_hooks(const ph_tensor *leaf)
{
    return leaf->leaf && leaf->leaf->hooks;
}

/* ---- hooks.c ---- */
struct ph_tensor_hook {
    ph_tensor_hook *next, **link; /* in its list; link NULL: x, or its history, is gone */
    ph_tensor_hook_fn fn;
    void *user;
    uint32_t output; /* of a node */
    bool removed;    /* while it runs */
    unsigned running;
};
/* Those of x, or of its node's output, in order, on a gradient: gives what they make of it,
 * retained (the reference to grad is the caller's still). NULL: the tape has failed. */
ph_tensor *ph__tensor_hooks_run(ph_tape *tape, ph_tensor_hook *const *list, uint32_t output,
                                ph_tensor *grad);
void ph__hooks_release(
    ph_tensor_hook *list); /* what they are on goes; the handles stay the user's. Takes NULL */

/* ---- checkpoint.c ---- */
/* Makes the saved values of node, which is not filled, by running its checkpointed function
 * again. False: the tape has failed. */
bool ph__region_fill(ph_tape *tape, ph__node *node);
/* A pass has come below node: values that checkpoints which begin there made again are dropped;
 * with consume their inputs too. */
void ph__region_leave(ph_tape *tape, const ph__node *node, bool consume);
void ph__tape_drop_regions(ph_tape *tape, size_t first);
/* Inputs that its regions keep: see ph__tensor_move. */
void ph__regions_move(ph_tape *tape, const ph__storage *from, char *to);
#endif
