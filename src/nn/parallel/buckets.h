/* SPDX-License-Identifier: MIT */
/* nn/parallel/buckets.h: which gradient is where in which bucket. */
#ifndef PH_NN_PARALLEL_BUCKETS_H
#define PH_NN_PARALLEL_BUCKETS_H
#include "nn/parallel/parallel.h"

/* Assigns every part to a bucket: the parameters that come last are in the first one, as backward
 * reaches them first. Then makes the memory, all zeros, and the views. */
ph_status ph__buckets_make(ph_data_parallel *parallel, const ph_data_parallel_options *options,
                           const char *call);
#endif
