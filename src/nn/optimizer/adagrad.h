/* SPDX-License-Identifier: MIT */
/* nn/optimizer/adagrad.h: Adagrad, Adadelta, RMSprop: kinds and kernels. */
#ifndef PH_NN_OPTIMIZER_ADAGRAD_H
#define PH_NN_OPTIMIZER_ADAGRAD_H
#include "nn/optimizer/update.h"

extern const ph__optimizer_kind ph__optimizer_adagrad, ph__optimizer_adadelta,
    ph__optimizer_rmsprop;
/* NULL-terminated */
extern ph__kernel_def *const ph__adagrad_kernels[];
#endif
