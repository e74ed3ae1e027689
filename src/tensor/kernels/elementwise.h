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

#define PH__ELEMENTWISE(name, operands, dtypes, result, let, expression)                           \
    extern const ph__elementwise ph__elementwise_##name;
#include "tensor/kernels/elementwise.def"
#undef PH__ELEMENTWISE

/* The kernels of a copy with another dtype ([from][to], NULL where they are the same), and of a
 * plain one, by the size of an element. */
typedef struct ph__elementwise_pair {
    ph__kernel_def *flat, *strided;
} ph__elementwise_pair;
extern const ph__elementwise_pair ph__elementwise_casts[PH__ELEMENTWISE_DTYPES]
                                                       [PH__ELEMENTWISE_DTYPES],
    ph__elementwise_copies[9];
/* All of them, NULL-terminated. */
extern ph__kernel_def *const ph__elementwise_kernels[];
extern ph__kernel_def *const ph__cast_kernels[];

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

/* ---- host forms ---- elementwise_host.c: what the kernels of a def share. Cores are loops over
 * contiguous arrays of the dtypes that are computed in, one set for each level of the
 * processor's instructions. */
typedef void (*ph__core)(void *out, const void *x, const void *y, const void *z, int64_t n,
                         ph__scalar a, ph__scalar b);
typedef enum ph__core_type {
    PH__CORE_F32,
    PH__CORE_F64,
    PH__CORE_I32,
    PH__CORE_I64,
    PH__CORE_U8,   /* and bool */
    PH__CORE_BOOL, /* casts to it differ from those to u8 */
    PH__CORE_TYPES
} ph__core_type;
enum {
#define PH__ELEMENTWISE(name, operands, dtypes, result, let, expression) PH__CORE_##name,
#include "tensor/kernels/elementwise.def"
#undef PH__ELEMENTWISE
    PH__CORE_CAST, /* + the core type that is cast from; by the type that is cast to */
    /* [0]: f16 to f32, [1]: f32 to f16, [2], [3]: bf16, [4]: f64 to f32, to be rounded again */
    PH__CORE_HALF = PH__CORE_CAST + PH__CORE_TYPES,
    PH__CORE_COPY, /* [0] to [3]: elements of 1, 2, 4, 8 bytes */
    PH__CORES
};
typedef const ph__core (*ph__core_table)[PH__CORE_TYPES];
/* The best set that this processor runs. */
ph__core_table ph__cores(void);

typedef struct ph__elementwise_info {
    uint8_t arity;
    uint8_t dtype[4]; /* of out, x, y, z: a ph_dtype, or PH__ELEMENTWISE_RAW16 */
    uint8_t core;
    uint8_t type;     /* column of the table: a ph__core_type */
    uint8_t out_type; /* PH_DTYPE_F64 where the core gives f64 for an f16 or bf16 result; else 0 */
} ph__elementwise_info;
void ph__elementwise_host_flat(const ph_block_range *range, const void *args,
                               const ph__elementwise_info *info);
void ph__elementwise_host_strided(const ph_block_range *range, const void *args,
                                  const ph__elementwise_info *info);
#endif
