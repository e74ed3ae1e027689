/* SPDX-License-Identifier: MIT */
/* tensor/operators/attention_cudnn.h: attention by cuDNN, where that is faster. */
#ifndef PH_TENSOR_OPERATORS_ATTENTION_CUDNN_H
#define PH_TENSOR_OPERATORS_ATTENTION_CUDNN_H
#include "tensor/operators/attention.h"
#include "tensor/tape/op.h"

typedef enum ph__attention_outcome {
    PH__ATTENTION_DONE,
    PH__ATTENTION_ELSEWHERE, /* nothing was done: our kernels are to do it */
    PH__ATTENTION_FAILED     /* so has the tape */
} ph__attention_outcome;

/* Forward: o and lse from q, k and v. Backward: dq, dk, dv and delta from them and g.
 * - Whether cuDNN does it depends on the device, the dtype, shapes, strides and whether addresses
 *   are multiples of 16 alone; so eager and captured calls are done alike, to the bit.
 * - lse is that of our kernels: either may do the backward of the other's forward. */
ph__attention_outcome ph__attention_by_cudnn(ph__op *op, const ph__attention_args *args,
                                             ph_dtype dtype, int64_t batch, bool backward);
#endif
