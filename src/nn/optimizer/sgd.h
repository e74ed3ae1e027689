/* SPDX-License-Identifier: MIT */
/* nn/optimizer/sgd.h: SGD, ASGD, Rprop, Lion: kinds and kernels. */
#ifndef PH_NN_OPTIMIZER_SGD_H
#define PH_NN_OPTIMIZER_SGD_H
#include "nn/optimizer/update.h"

extern const ph__optimizer_kind ph__optimizer_sgd, ph__optimizer_asgd, ph__optimizer_rprop,
    ph__optimizer_lion;
/* NULL-terminated */
extern ph__kernel_def *const ph__sgd_kernels[];
#endif
