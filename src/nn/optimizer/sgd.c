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
#define ASGD
#define NAME(x) x##_asgd_f32
#include "tensor/cuda/update_sgd.cu"
PH__UPDATE_HOST_FORM
#undef ASGD
#undef NAME
#define RPROP
#define NAME(x) x##_rprop_f32
#include "tensor/cuda/update_sgd.cu"
PH__UPDATE_HOST_FORM
#undef RPROP
#undef NAME
#define LION
#define NAME(x) x##_lion_f32
#include "tensor/cuda/update_sgd.cu"
PH__UPDATE_HOST_FORM
#undef LION
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
#define ASGD
#define NAME(x) x##_asgd_f64
#include "tensor/cuda/update_sgd.cu"
PH__UPDATE_HOST_FORM
#undef ASGD
#undef NAME
#define RPROP
#define NAME(x) x##_rprop_f64
#include "tensor/cuda/update_sgd.cu"
PH__UPDATE_HOST_FORM
#undef RPROP
#undef NAME
#define LION
#define NAME(x) x##_lion_f64
#include "tensor/cuda/update_sgd.cu"
PH__UPDATE_HOST_FORM
#undef LION
#undef NAME
#undef T
#undef ROOT

/* ---- kernels ---- */
PH__UPDATE_KERNELS(sgd, "#define SGD\n", ph__text_update_sgd, 1)
PH__UPDATE_KERNELS(asgd, "#define ASGD\n", ph__text_update_sgd, 1)
PH__UPDATE_KERNELS(rprop, "#define RPROP\n", ph__text_update_sgd, 2)
PH__UPDATE_KERNELS(lion, "#define LION\n", ph__text_update_sgd, 1)
ph__kernel_def *const ph__sgd_kernels[] = {&sgd_f32,   &sgd_f64,  &asgd_f32, &asgd_f64, &rprop_f32,
                                           &rprop_f64, &lion_f32, &lion_f64, NULL};

/* ---- kinds ---- */
const ph__optimizer_kind ph__optimizer_sgd = {.name = "sgd",
                                              .state_names = {"momentum_buffer"},
                                              .rule = PH__COUNT_FIRST,
                                              .update = {&sgd_f32, &sgd_f64}};
const ph__optimizer_kind ph__optimizer_asgd = {.name = "asgd",
                                               .state_names = {"ax"},
                                               .kept_names = {"eta", "mu"},
                                               .kept_with_lr = 1,
                                               .counts = true,
                                               .rule = PH__COUNT_ASGD,
                                               .filled = 1,
                                               .update = {&asgd_f32, &asgd_f64}};
const ph__optimizer_kind ph__optimizer_rprop = {.name = "rprop",
                                                .state_names = {"prev", "step_size"},
                                                .counts = true,
                                                .filled = 3,
                                                .filled_with_lr = 2,
                                                .update = {&rprop_f32, &rprop_f64}};
const ph__optimizer_kind ph__optimizer_lion = {
    .name = "lion", .state_names = {"exp_avg"}, .filled = 1, .update = {&lion_f32, &lion_f64}};
