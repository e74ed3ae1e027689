/* SPDX-License-Identifier: MIT */
/* nn/optimizer/adam.c: Adam, AdamW, NAdam, RAdam, Adamax: kinds, kernels, and host forms, whose
 * formulas are those of cuda/update_adam.cu. */
#include "nn/optimizer/adam.h"

#define FN(type) static inline __attribute__((always_inline)) type

#define T       float
#define ROOT(x) sqrtf(x)
#define ADAM
#define NAME(x) x##_adam_f32
#include "tensor/cuda/update_adam.cu"
PH__UPDATE_HOST_FORM
#undef ADAM
#undef NAME
#define ADAM
#define AMSGRAD
#define NAME(x) x##_amsgrad_f32
#include "tensor/cuda/update_adam.cu"
PH__UPDATE_HOST_FORM
#undef ADAM
#undef AMSGRAD
#undef NAME
#define NADAM
#define NAME(x) x##_nadam_f32
#include "tensor/cuda/update_adam.cu"
PH__UPDATE_HOST_FORM
#undef NADAM
#undef NAME
#define RADAM
#define NAME(x) x##_radam_f32
#include "tensor/cuda/update_adam.cu"
PH__UPDATE_HOST_FORM
#undef RADAM
#undef NAME
#define ADAMAX
#define NAME(x) x##_adamax_f32
#include "tensor/cuda/update_adam.cu"
PH__UPDATE_HOST_FORM
#undef ADAMAX
#undef NAME
#undef T
#undef ROOT

#define T       double
#define ROOT(x) sqrt(x)
#define ADAM
#define NAME(x) x##_adam_f64
#include "tensor/cuda/update_adam.cu"
PH__UPDATE_HOST_FORM
#undef ADAM
#undef NAME
#define ADAM
#define AMSGRAD
#define NAME(x) x##_amsgrad_f64
#include "tensor/cuda/update_adam.cu"
PH__UPDATE_HOST_FORM
#undef ADAM
#undef AMSGRAD
#undef NAME
#define NADAM
#define NAME(x) x##_nadam_f64
#include "tensor/cuda/update_adam.cu"
PH__UPDATE_HOST_FORM
#undef NADAM
#undef NAME
#define RADAM
#define NAME(x) x##_radam_f64
#include "tensor/cuda/update_adam.cu"
PH__UPDATE_HOST_FORM
#undef RADAM
#undef NAME
#define ADAMAX
#define NAME(x) x##_adamax_f64
#include "tensor/cuda/update_adam.cu"
PH__UPDATE_HOST_FORM
#undef ADAMAX
#undef NAME
#undef T
#undef ROOT

/* ---- kernels ---- */
PH__UPDATE_KERNELS(adam, "#define ADAM\n", ph__text_update_adam, 2)
PH__UPDATE_KERNELS(amsgrad, "#define ADAM\n#define AMSGRAD\n", ph__text_update_adam, 3)
PH__UPDATE_KERNELS(nadam, "#define NADAM\n", ph__text_update_adam, 2)
PH__UPDATE_KERNELS(radam, "#define RADAM\n", ph__text_update_adam, 2)
PH__UPDATE_KERNELS(adamax, "#define ADAMAX\n", ph__text_update_adam, 2)
ph__kernel_def *const ph__adam_kernels[] = {&adam_f32,   &adam_f64,   &amsgrad_f32, &amsgrad_f64,
                                            &nadam_f32,  &nadam_f64,  &radam_f32,   &radam_f64,
                                            &adamax_f32, &adamax_f64, NULL};

/* ---- kinds ---- */
#define ADAM_KIND(NAME)                                                                            \
    {                                                                                              \
        .name = NAME, .state_names = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}, .counts = true,  \
        .rule = PH__COUNT_ADAM, .update = {&adam_f32, &adam_f64}, .amsgrad = {                     \
            &amsgrad_f32,                                                                          \
            &amsgrad_f64                                                                           \
        }                                                                                          \
    }
const ph__optimizer_kind ph__optimizer_adam = ADAM_KIND("adam");
const ph__optimizer_kind ph__optimizer_adamw = ADAM_KIND("adamw");
const ph__optimizer_kind ph__optimizer_nadam = {.name = "nadam",
                                                .state_names = {"exp_avg", "exp_avg_sq"},
                                                .kept_names = {"mu_product"},
                                                .counts = true,
                                                .rule = PH__COUNT_NADAM,
                                                .filled = 3,
                                                .update = {&nadam_f32, &nadam_f64}};
const ph__optimizer_kind ph__optimizer_radam = {.name = "radam",
                                                .state_names = {"exp_avg", "exp_avg_sq"},
                                                .counts = true,
                                                .rule = PH__COUNT_RADAM,
                                                .filled = 3,
                                                .update = {&radam_f32, &radam_f64}};
const ph__optimizer_kind ph__optimizer_adamax = {.name = "adamax",
                                                 .state_names = {"exp_avg", "exp_inf"},
                                                 .counts = true,
                                                 .rule = PH__COUNT_ADAMAX,
                                                 .filled = 3,
                                                 .update = {&adamax_f32, &adamax_f64}};
