/* SPDX-License-Identifier: MIT */
/* nn/optimizer/sgd.c: SGD, ASGD, Rprop, Lion: kinds, kernels, and host forms, whose
 * formulas are those of cuda/update_sgd.cu. */
#include "nn/optimizer/sgd.h"

#define FN(type) static inline __attribute__((always_inline)) type

#define T       float
#define ROOT(x) sqrtf(x)
#define SGD
#define NAME(x) x##_sgd_f32
#include "tensor/cuda/update_sgd.cu"
PH__UPDATE_HOST_FORM
#undef SGD
#undef NAME
#undef T
#undef ROOT

#define T       double
#define ROOT(x) sqrt(x)
#define SGD
#define NAME(x) x##_sgd_f64
#include "tensor/cuda/update_sgd.cu"
PH__UPDATE_HOST_FORM
#undef SGD
#undef NAME
#undef T
#undef ROOT

/* ---- kernels ---- */
PH__UPDATE_KERNELS(sgd, "#define SGD\n", ph__text_update_sgd, 1)
ph__kernel_def *const ph__sgd_kernels[] = {&sgd_f32, &sgd_f64, NULL};

/* ---- kinds ---- */
const ph__optimizer_kind ph__optimizer_sgd = {.name = "sgd",
                                              .state_names = {"momentum_buffer"},
                                              .rule = PH__COUNT_FIRST,
                                              .update = {&sgd_f32, &sgd_f64}};
