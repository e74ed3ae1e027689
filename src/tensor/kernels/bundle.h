/* SPDX-License-Identifier: MIT */
/* tensor/kernels/bundle.h: many contiguous pairs of memory copied, or added, in one launch. */
#ifndef PH_TENSOR_KERNELS_BUNDLE_H
#define PH_TENSOR_KERNELS_BUNDLE_H
#include "tensor/backend/kernels.h"
#include <phonograph/tape.h>

enum {
    PH__BUNDLE_MAX = 96,      /* pairs of one launch; bundle.cu knows it too, and the next one */
    PH__BUNDLE_CHUNK = 16384, /* bytes of one block */
    PH__BUNDLE_THREADS = 256
};
typedef enum ph__bundle_op {
    PH__BUNDLE_COPY = 0,
    /* dst += src, in f32 for f16 and bf16; of dtypes that are not floating: COPY */
    PH__BUNDLE_ADD = 1,
    /* nothing is touched: for captured launches, where the addresses may be those of memory that
     * is gone */
    PH__BUNDLE_SKIP = 2
} ph__bundle_op;
typedef struct ph__bundle_pair {
    const void *src;
    void *dst;
    int64_t count; /* elements; 0: nothing is touched, and the addresses may be anything */
    ph_dtype dtype;
    ph__bundle_op op;
} ph__bundle_pair;

/* The kernel's parameters. The grid depends on counts and dtypes alone, so that src, dst and op
 * may be changed in a captured launch: pair i of a call is entry i % PH__BUNDLE_MAX of launch i
 * / PH__BUNDLE_MAX. */
typedef struct ph__bundle_args {
    const void *src[PH__BUNDLE_MAX];
    void *dst[PH__BUNDLE_MAX];
    uint64_t count[PH__BUNDLE_MAX];
    /* block that pair i begins with; first[used]: blocks of the launch */
    uint32_t first[PH__BUNDLE_MAX + 1];
    uint32_t used;
    uint8_t dtype[PH__BUNDLE_MAX], op[PH__BUNDLE_MAX];
} ph__bundle_args;
#define PH__BUNDLE_KERNEL "ph_nn_bundle"
extern ph__kernel_def *const ph__bundle_kernels[];

/* Launches on the tape's stream: ceil(count / PH__BUNDLE_MAX) launches, in order, less those
 * whose pairs are all empty. What a pair writes must overlap nothing of another pair of the
 * call, nor its own source. The allocator is told nothing: the memory must be of use on the
 * tape's stream. Any addresses that the dtype may have will do; those that are multiples of 16
 * are faster. False: the tape has failed. */
bool ph__bundle_launch(ph_tape *tape, const ph__bundle_pair *pairs, size_t count);
#endif
