/* SPDX-License-Identifier: MIT */
/* nn/training/part_data_loader.h: data loaders as parts of trainings. */
#ifndef PH_NN_TRAINING_PART_DATA_LOADER_H
#define PH_NN_TRAINING_PART_DATA_LOADER_H
#include "nn/training/training.h"

extern const ph__part_kind ph__part_data_loader;
#endif
