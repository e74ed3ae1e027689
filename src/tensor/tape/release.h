/* SPDX-License-Identifier: MIT */
/* tensor/tape/release.h: the end of a tensor. */
#ifndef PH_TENSOR_TAPE_RELEASE_H
#define PH_TENSOR_TAPE_RELEASE_H
#include "tensor/core/tensor.h"

/* As ph_tensor_release, by the tape, with its stream and key: cheaper where the memory is its
 * own. */
void ph__tensor_release_on(ph_tensor *x, ph_tape *tape);
#endif
