/* SPDX-License-Identifier: MIT */
/* nn/optimizer/adagrad.c: Adagrad, Adadelta, RMSprop: kinds, kernels, and host forms, whose
 * formulas are those of cuda/update_adagrad.cu. */
#include "nn/optimizer/adagrad.h"

#define FN(type) static inline __attribute__((always_inline)) type

#define T       float
#define ROOT(x) sqrtf(x)
#define ADAGRAD
#define NAME(x) x##_adagrad_f32
#include "tensor/cuda/update_adagrad.cu"
PH__UPDATE_HOST_FORM
#undef ADAGRAD
#undef NAME
#define ADADELTA
#define NAME(x) x##_adadelta_f32
#include "tensor/cuda/update_adagrad.cu"
PH__UPDATE_HOST_FORM
#undef ADADELTA
#undef NAME
#define RMSPROP
#define NAME(x) x##_rmsprop_f32
#include "tensor/cuda/update_adagrad.cu"
PH__UPDATE_HOST_FORM
#undef RMSPROP
#undef NAME
#undef T
#undef ROOT

#define T       double
#define ROOT(x) sqrt(x)
#define ADAGRAD
#define NAME(x) x##_adagrad_f64
#include "tensor/cuda/update_adagrad.cu"
PH__UPDATE_HOST_FORM
#undef ADAGRAD
#undef NAME
#define ADADELTA
#define NAME(x) x##_adadelta_f64
#include "tensor/cuda/update_adagrad.cu"
PH__UPDATE_HOST_FORM
#undef ADADELTA
#undef NAME
#define RMSPROP
#define NAME(x) x##_rmsprop_f64
#include "tensor/cuda/update_adagrad.cu"
PH__UPDATE_HOST_FORM
#undef RMSPROP
#undef NAME
#undef T
#undef ROOT

/* ---- kernels ---- */
PH__UPDATE_KERNELS(adagrad, "#define ADAGRAD\n", ph__text_update_adagrad, 1)
PH__UPDATE_KERNELS(adadelta, "#define ADADELTA\n", ph__text_update_adagrad, 2)
PH__UPDATE_KERNELS(rmsprop, "#define RMSPROP\n", ph__text_update_adagrad, 3)
ph__kernel_def *const ph__adagrad_kernels[] = {
    &adagrad_f32, &adagrad_f64, &adadelta_f32, &adadelta_f64, &rmsprop_f32, &rmsprop_f64, NULL};

/* ---- kinds ---- */
const ph__optimizer_kind ph__optimizer_adagrad = {.name = "adagrad",
                                                  .state_names = {"sum"},
                                                  .counts = true,
                                                  .rule = PH__COUNT_ADAGRAD,
                                                  .filled = 1,
                                                  .update = {&adagrad_f32, &adagrad_f64}};
const ph__optimizer_kind ph__optimizer_adadelta = {.name = "adadelta",
                                                   .state_names = {"square_avg", "acc_delta"},
                                                   .counts = true,
                                                   .filled = 3,
                                                   .update = {&adadelta_f32, &adadelta_f64}};
const ph__optimizer_kind ph__optimizer_rmsprop = {
    .name = "rmsprop",
    .state_names = {"square_avg", "momentum_buffer", "grad_avg"},
    .counts = true,
    .filled = 7,
    .update = {&rmsprop_f32, &rmsprop_f64}};
