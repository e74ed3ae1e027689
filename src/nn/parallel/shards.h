/* SPDX-License-Identifier: MIT */
/* nn/parallel/shards.h: the part of every parameter that this rank's optimizer steps. */
#ifndef PH_NN_PARALLEL_SHARDS_H
#define PH_NN_PARALLEL_SHARDS_H
#include "nn/parallel/parallel.h"

/* Behind the buckets. */
ph_status ph__shards_make(ph_data_parallel *parallel, const char *call);
void ph__shards_free(ph_data_parallel *parallel);
/* The tape fails where a step was not gathered, or gradients of the last pass are still there. */
void ph__shards_check(ph_tape *tape, const ph_data_parallel *parallel, const char *call);
/* The segments get their gradients. One that is not finite, on any rank, makes one of every rank's
 * NaN. */
void ph__shards_agree(ph_tape *tape, const ph_data_parallel *parallel);
#endif
