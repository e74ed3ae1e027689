/* SPDX-License-Identifier: MIT */
/* nn/parallel/backward.h: gradients go into their buckets in the middle of a pass. */
#ifndef PH_NN_PARALLEL_BACKWARD_H
#define PH_NN_PARALLEL_BACKWARD_H
#include "nn/parallel/parallel.h"

/* A hook on a parameter; user: its ph__bucket_part. */
ph_tensor *ph__bucket_part_arrives(ph_tape *tape, ph_tensor *grad, void *user);
#endif
