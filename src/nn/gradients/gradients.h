/* SPDX-License-Identifier: MIT */
/* nn/gradients/gradients.h: the gradients of a module or an optimizer, gathered for kernels that
 * run over all of them. */
#ifndef PH_NN_GRADIENTS_GRADIENTS_H
#define PH_NN_GRADIENTS_GRADIENTS_H
#include "base/vec.h"
#include "nn/gradients/kernels.h"
#include "nn/optimizer/optimizer.h"
#include "tensor/tape/op.h"

/* The gradient of one parameter, and the contiguous tensor that kernels get: itself, or a copy
 * of the tape's. */
typedef struct ph__gradient {
    ph_tensor *tensor, *flat;
} ph__gradient;

typedef struct ph__gradients {
    bool writes; /* set before begin: a run will change gradients */
    bool whole;  /* set before begin: the result is of all gradients, those of other ranks too */
    const char *call;
    ph__op op;
    PH__VEC(ph__gradient) list; /* each memory once */
    PH__VEC(ph_tensor *) operands;
    PH__VEC(const ph_tensor *) params; /* all that have one of them as their gradient */
    size_t wide;                       /* how many are f64 */
    uint64_t blocks;                   /* of all launches of one run */
    bool all_wide;                     /* none is of another dtype; false where there is none */
    bool grad_enabled;                 /* of the tape, before */
    bool written;                      /* a launch was submitted that writes gradients */
} ph__gradients;

/* Gathers, checks, and begins an operation of the tape in the name of call: gradients off, until
 * end. exactly one of module and optimizer is not NULL. more: other tensors that the kernels
 * address; NULL entries are none. False: the tape has failed; end is called in any case. */
bool ph__gradients_begin(ph__gradients *g, ph_tape *tape, const ph_module *module,
                         const ph_optimizer *optimizer, ph_tensor *const *more, size_t count,
                         const char *call);
/* The kernels of a run that comes later: one that lacks them would leave some gradients as they
 * were, and others not. */
bool ph__gradients_make(ph__gradients *g, ph__kernel_def *const defs[2]);
/* One run over all gradients, in launches of up to PH__GRADIENT_TENSORS of a dtype: defs of f32
 * and f64. with: all but the gradients; where its partial is not NULL, it goes on by the blocks
 * of the launches before. writes: the kernels change gradients. */
bool ph__gradients_run(ph__gradients *g, ph__kernel_def *const defs[2],
                       const ph__gradients_args *with, bool writes);
/* changed: the kernels wrote. out: the operation's tensor, or NULL. Gives out, or NULL when the
 * tape has failed. After a failure behind a launch that wrote, some gradients would be changed and
 * others not: all are dropped then, but in a capture, where nothing has run. */
ph_tensor *ph__gradients_end(ph__gradients *g, bool changed, ph_tensor *out);
#endif
