/* SPDX-License-Identifier: MIT */
/* tensor/tape/leaf.h: tensors that have a gradient of their own. */
#ifndef PH_TENSOR_TAPE_LEAF_H
#define PH_TENSOR_TAPE_LEAF_H
#include "tensor/core/tensor.h"
#include <phonograph/tape.h>

/* Of a tensor that has, or had, a gradient or hooks of its own. Made while nobody else uses the
 * tensor; several tapes may read it then. */
struct ph__leaf {
    ph_tensor *grad;       /* retained */
    ph_tensor_hook *hooks; /* in order of adding */
    _Atomic(const ph_stream *)
        stream; /* of the tape that used it first; an identity, never followed; NULL: none yet */
};

/* x's own leaf, made at first need; NULL: no host memory. One that requires a
 * gradient has it already. */
ph__leaf *ph__tensor_leaf(ph_tensor *x);
/* Whether functions of the user's are to see its gradient before it is used. */
static inline bool ph__leaf_has_hooks(const ph_tensor *leaf)
{
    return leaf->leaf && leaf->leaf->hooks;
}

/* ARGUMENT, named after call, unless data of x can be the gradient's: same shape, dtype, device. */
ph_status ph__tensor_check_grad(const ph_tensor *x, const ph_tensor *grad, const char *call);
#endif
