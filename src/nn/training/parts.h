/* SPDX-License-Identifier: MIT */
/* nn/training/parts.h: the kinds of parts that there are. */
#ifndef PH_NN_TRAINING_PARTS_H
#define PH_NN_TRAINING_PARTS_H
#include "nn/training/training.h"

/* 64 bits without a sign, which are no integer of ph_values. */
ph_status ph__part_set_bits(ph_values *values, const char *name, uint64_t bits);
ph_status ph__part_get_bits(uint64_t *out, const ph_values *values, const char *name);

extern const ph__part_kind ph__part_module;
extern const ph__part_kind ph__part_optimizer;
extern const ph__part_kind ph__part_generator;
extern const ph__part_kind ph__part_lr_schedule;
extern const ph__part_kind ph__part_integer;
extern const ph__part_kind ph__part_real;
extern const ph__part_kind ph__part_user;
#endif
