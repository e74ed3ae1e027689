/* SPDX-License-Identifier: MIT */
/* nn/training/part_grad_scaler.h: gradient scalers as parts of trainings. */
#ifndef PH_NN_TRAINING_PART_GRAD_SCALER_H
#define PH_NN_TRAINING_PART_GRAD_SCALER_H
#include "nn/training/training.h"

extern const ph__part_kind ph__part_grad_scaler;
#endif
