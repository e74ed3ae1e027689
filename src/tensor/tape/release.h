/* SPDX-License-Identifier: MIT */
/* tensor/tape/release.h: the end of a tensor. */
#ifndef PH_TENSOR_TAPE_RELEASE_H
#define PH_TENSOR_TAPE_RELEASE_H
#include "tensor/core/tensor.h"

/* As ph_tensor_release, by the tape, with its stream and key: cheaper where the memory is its
 * own. */
void ph__tensor_release_on(ph_tensor *x, ph_tape *tape);

/* As ph_tensor_release, of many tensors one behind the other, as the gradients of a network: what
 * those of one batch hold of it goes at once, by `end` at the latest. Zero is empty. */
typedef struct ph__releases {
    ph__tensor_batch *batch; /* NULL: nothing is left to do */
    int count;
} ph__releases;
void ph__tensor_release_among(ph_tensor *x, ph__releases *releases);
void ph__releases_end(ph__releases *releases);
/* As ph_tensor_set_grad(x, NULL), one of many. */
void ph__tensor_drop_grad_among(ph_tensor *x, ph__releases *releases);
#endif
