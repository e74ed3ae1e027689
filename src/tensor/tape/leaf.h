/* SPDX-License-Identifier: MIT */
/* tensor/tape/leaf.h: tensors that have a gradient of their own. */
#ifndef PH_TENSOR_TAPE_LEAF_H
#define PH_TENSOR_TAPE_LEAF_H
#include "tensor/core/tensor.h"
#include <phonograph/tape.h>

/* Whose gradient the leaf's is, where several ranks train one network. */
typedef enum ph__leaf_part {
    PH__LEAF_WHOLE = 0,
    PH__LEAF_SHARDED = 1, /* no gradient of its own: its shards have theirs */
    PH__LEAF_SHARD = 2    /* of a part of the parameter; other ranks have the others */
} ph__leaf_part;

/* Of a tensor that has, or had, a gradient or hooks of its own. Made while nobody else uses the
 * tensor; several tapes may read it then. */
struct ph__leaf {
    ph_tensor *grad;       /* retained */
    ph_tensor_hook *hooks; /* in order of adding */
    ph__leaf_part part;
    _Atomic(const ph_stream *)
        stream; /* of the tape that used it first; an identity, never followed; NULL: none yet */
};

/* x's own leaf, made at first need; NULL: no host memory. One that requires a
 * gradient has it already. */
ph__leaf *ph__tensor_leaf(ph_tensor *x);
static inline ph__leaf_part ph__leaf_part_of(const ph_tensor *leaf)
{
    return leaf->leaf ? leaf->leaf->part : PH__LEAF_WHOLE;
}
/* Whether functions of the user's are to see its gradient before it is used. */
static inline bool ph__leaf_has_hooks(const ph_tensor *leaf)
{
    return leaf->leaf && leaf->leaf->hooks;
}

/* ARGUMENT, named after call, unless data of x can be the gradient's: same shape, dtype, device. */
ph_status ph__tensor_check_grad(const ph_tensor *x, const ph_tensor *grad, const char *call);
#endif
