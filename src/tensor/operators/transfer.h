/* SPDX-License-Identifier: MIT */
/* tensor/operators/transfer.h: tensors and memory of other devices, and of the host. */
#ifndef PH_TENSOR_OPERATORS_TRANSFER_H
#define PH_TENSOR_OPERATORS_TRANSFER_H
#include "tensor/core/tensor.h"

/* dst, contiguous, of the tape, takes what src, contiguous, of another
 * device or pinned, has: of the same dtype and count. */
ph_status ph__tensor_copy_contents(ph_tape *tape, ph_tensor *dst, const ph_tensor *src,
                                   const char *call);
/* ph_tensor_write in the name of call; x is the tape's to use. A failure is the tape's, and
 * nobody has been told of it. */
ph_status ph__tensor_write(ph_tape *tape, ph_tensor *x, const void *data, size_t bytes,
                           const char *call);
/* CAPTURE, 900, when the tape's stream is in a capture: for calls that wait for it. */
ph_status ph__refuse_in_capture(const ph_tape *tape, const char *call);
#endif
