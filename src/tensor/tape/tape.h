/* SPDX-License-Identifier: MIT */
/* tensor/tape/tape.h: the tape. Operators see op.h. */
#ifndef PH_TENSOR_TAPE_TAPE_H
#define PH_TENSOR_TAPE_TAPE_H
#include "base/vec.h"
#include "tensor/core/fresh.h"
#include "tensor/core/quarantine.h"
#include "tensor/tape/deferred_failure.h"
#include "tensor/tape/leaf.h"
#include "tensor/tape/node.h"
#include "tensor/tape/op.h"
#include "tensor/tape/place.h"

typedef struct ph__casts ph__casts;         /* autocast.h */
typedef struct ph__sightings ph__sightings; /* sightings.h */
typedef struct ph__called ph__called; /* nn/module/called.h: a call of a module that is under way */

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
    /* under autocast: what norms give is read by products alone, and may be of the mode's dtype */
    bool norms_for_products;
    ph__casts *casts; /* of weights, kept; NULL: none yet */
    /* where mark_modules: the innermost call that is under way, which holds it; NULL: none */
    ph__tensor_place *place;
    const ph__called *called; /* the innermost; NULL: none */
    /* borrowed: notes what operators use that is not the tape's own; NULL: nobody asks */
    ph__sightings *sightings;
    bool placed; /* the failure's message says in which module it was */
    /* history is gone through once more for a capture: what it saved may have other versions,
     * leaves may require no gradient for now, and no hooks of leaves run */
    bool recaptures;
    bool hollow;        /* nodes get no saved values: the first run of a checkpointed function */
    ph__going going;    /* why it lets go of tensors now */
    unsigned callbacks; /* of the user's, under way: clear is refused */
    size_t floor;       /* nodes below it belong to a pass of backward that is under way */
    unsigned passes;    /* under way, one inside the other */
    size_t leaves;      /* leaves that the last pass reached */
    ph__region *region; /* innermost that is under way */
    ph_error error;     /* the first failure; status PH_OK: none */
    ph__deferred_failure *deferred; /* of it; NULL: there is none, or no host memory for it */
    ph_tensor **owned;              /* a reference each; owned_inline until there are more */
    size_t owned_count, owned_capacity;
    ph__spare_tensors spares;  /* of tensors that it let go */
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

/* Gives the caller's reference to the tape; on failure it is released, and the tape has failed. */
bool ph__tape_own_more(ph_tape *tape, ph_tensor *x);
static inline bool ph__tape_own(ph_tape *tape, ph_tensor *x)
{
    if (__builtin_expect(tape->owned_count == tape->owned_capacity, 0))
        return ph__tape_own_more(tape, x);
    x->tape = tape;
    tape->owned[tape->owned_count++] = x;
    return true;
}
/* Whether x is all that was made since mark and is still the tape's. NULL: nothing is. */
static inline bool ph__tape_is_newest(const ph_tape *tape, size_t mark, const ph_tensor *x)
{
    return tape->owned_count <= mark || (tape->owned_count == mark + 1 && tape->owned[mark] == x);
}
/* Drops what was made since mark and is not marked x->kept; those of keep that the tape owns
 * since then are spared. */
void ph__tape_drop(ph_tape *tape, size_t mark, ph_tensor *const *keep, size_t count);
/* The generator of the tape: its own or the device's default one; borrowed. NULL: the tape has
 * failed. */
ph_generator *ph__tape_generator(ph_tape *tape);
#endif
