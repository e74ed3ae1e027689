/* SPDX-License-Identifier: MIT */
/* nn/gradients/kernels.h: the kernels over gradients. */
#ifndef PH_NN_GRADIENTS_KERNELS_H
#define PH_NN_GRADIENTS_KERNELS_H
#include "tensor/backend/kernels.h"

enum {
    PH__GRADIENT_TENSORS = 64, /* of one launch; gradients.cu knows it too, and the next one */
    PH__GRADIENT_CHUNK = 8192, /* elements of one block */
    PH__GRADIENT_THREADS = 256
};

/* Flags: work of a launch on its gradients. */
enum {
    PH__GRADIENTS_WRITE = 1, /* unscale: writes the quotients, else it only looks */
    PH__NORM_LARGEST = 1,    /* norm: the largest absolute value */
    PH__NORM_SUM = 2,        /* of absolute values */
    PH__NORM_SQUARES = 4     /* of squares; none of these: of powers */
};

/* Of every kernel over many tensors: the blocks of tensor i from first[i] on. */
typedef struct ph__gradients_args {
    void *grad[PH__GRADIENT_TENSORS];
    const float *scale, *scale2; /* unscale: divided by both; NULL: 1 */
    float *found_inf;            /* unscale: 1 where an element is not finite; NULL: nobody asks */
    double *partial;             /* norm: one for each block, the first one's */
    const double *factor;        /* multiply */
    int64_t count[PH__GRADIENT_TENSORS];
    double number; /* norm: p; clamp: the bound */
    uint32_t first[PH__GRADIENT_TENSORS];
    uint32_t tensors, flags;
} ph__gradients_args;

/* The end of a norm: one block. */
typedef struct ph__norm_args {
    const double *partial;
    void *norm;     /* f32 or f64 */
    double *factor; /* for multiply */
    /* counts a norm that is not finite, whose factor is 1 then; pinned; NULL: none */
    int64_t *nonfinite;
    int64_t count;
    double p, max_norm;
    uint64_t flags;
} ph__norm_args;

/* A scaler's update: one thread. */
typedef struct ph__scaler_args {
    float *scale;
    int64_t *tracker;
    float *found_inf;  /* count of them: summed up, and cleared */
    const float *from; /* of the new scale; NULL: value */
    double growth_factor, backoff_factor, value;
    int64_t growth_interval;
    uint32_t count, sets; /* sets: there is a new scale */
} ph__scaler_args;

extern ph__kernel_def ph__unscale_f32, ph__unscale_f64, ph__norm_f32, ph__norm_f64,
    ph__multiply_f32, ph__multiply_f64, ph__clamp_f32, ph__clamp_f64, ph__norm_end_f32,
    ph__norm_end_f64, ph__scaler_update;
extern ph__kernel_def *const ph__gradient_kernels[]; /* all of them, NULL-terminated */
#endif
