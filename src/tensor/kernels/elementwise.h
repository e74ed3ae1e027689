/* SPDX-License-Identifier: MIT */
/* tensor/kernels/elementwise.h: functions applied element by element (elementwise.def):
 * launching one over tensors of any strides. */
#ifndef PH_TENSOR_KERNELS_ELEMENTWISE_H
#define PH_TENSOR_KERNELS_ELEMENTWISE_H
#include "tensor/tape/op.h"

/* A scalar of a call: f for floating dtypes, i for the others. */
typedef union ph__scalar {
    double f;
    int64_t i;
} ph__scalar;

/* ---- arguments of the kernels ---- the addresses out, x, y, z (as many as there are) come
 * first, then one of these. flat: one dimension; out steps by 1, an operand by 1 or 0. */
typedef struct ph__elementwise_flat {
    ph__scalar a, b;
    int64_t n;
    uint32_t step[4]; /* of out, x, y, z */
} ph__elementwise_flat;
/* Any strides. Index i of the launch is made into one for each dimension, the last one running
 * fastest: where n < 2^31 (small), i / dim is (high word of i * magic + i) >> shift. vec: so
 * many elements, 1, 2, 4 or 8, lie side by side in every tensor at each index (or are one and
 * the same); n and the last dim count them as one. */
typedef struct ph__elementwise_strided {
    ph__scalar a, b;
    int64_t n;
    int64_t dim[PH_MAX_RANK];
    int64_t stride[4][PH_MAX_RANK]; /* of out, x, y, z, in elements */
    uint32_t magic[PH_MAX_RANK], shift[PH_MAX_RANK];
    uint32_t rank, small, vec, reserved;
} ph__elementwise_strided;

enum {
    PH__ELEMENTWISE_ITEMS = 2048, /* elements of a block */
    PH__ELEMENTWISE_THREADS = 256,
    PH__ELEMENTWISE_DTYPES = PH_DTYPE_BOOL + 1,
    PH__ELEMENTWISE_RAW16 =
        PH__ELEMENTWISE_DTYPES /* two bytes of whatever, in ph__elementwise_info */
};

/* A function of elementwise.def with its kernels; NULL where it does not take the dtype (that of
 * its V operands; of the result for fill). */
typedef struct ph__elementwise {
    const char *name;
    uint32_t arity;
    uint32_t bools; /* bit i: operand i is bool */
    bool gives_bool;
    ph__kernel_def *flat[PH__ELEMENTWISE_DTYPES], *strided[PH__ELEMENTWISE_DTYPES];
} ph__elementwise;

/* ---- launching ---- out has the shape; the operands broadcast to it. False: the tape has
 * failed. in holds elementwise->arity tensors. */
bool ph__elementwise_launch(ph__op *op, const ph__elementwise *elementwise, ph_tensor *out,
                            ph_tensor *const *in, double a, double b);
bool ph__elementwise_launch_kernels(ph__op *op, ph__kernel_def *flat, ph__kernel_def *strided,
                                    ph_tensor *out, ph_tensor *const *in, size_t arity,
                                    ph__scalar a, ph__scalar b);
/* A new tensor of the operands' broadcast shape, filled element by element: what most operators and
 * gradients are. Checks that the operands are of one dtype (or bool, where the function says so),
 * which it takes. NULL: the tape has failed. */
ph_tensor *ph__elementwise_new(ph__op *op, const ph__elementwise *elementwise, ph_tensor *const *in,
                               double a, double b);
/* As an operator of its own, without history; for gradients. */
ph_tensor *ph__elementwise_call(ph_tape *tape, const ph__elementwise *elementwise,
                                ph_tensor *const *in, double a, double b);
/* out = in, cast where the dtypes differ; in broadcasts to out. */
bool ph__elementwise_copy(ph__op *op, ph_tensor *out, ph_tensor *in);
/* value as dtype takes it, as in ph_cast: integers are cut and saturate, bool is "not 0". */
ph__scalar ph__scalar_of(ph_dtype dtype, double value);

#endif
