/* SPDX-License-Identifier: MIT */
/* nn/optimizer/adam.h: Adam, AdamW, NAdam, RAdam, Adamax: kinds and kernels. */
#ifndef PH_NN_OPTIMIZER_ADAM_H
#define PH_NN_OPTIMIZER_ADAM_H
#include "nn/optimizer/update.h"

extern const ph__optimizer_kind ph__optimizer_adam, ph__optimizer_adamw, ph__optimizer_nadam,
    ph__optimizer_radam, ph__optimizer_adamax;
/* NULL-terminated */
extern ph__kernel_def *const ph__adam_kernels[];
#endif
