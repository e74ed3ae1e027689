/* SPDX-License-Identifier: MIT */
/* tensor/autograd/region_call.h: calls a checkpointed function. */
#ifndef PH_TENSOR_AUTOGRAD_REGION_CALL_H
#define PH_TENSOR_AUTOGRAD_REGION_CALL_H
#include "tensor/tape/region.h"
#include <phonograph/tape.h>

#define PH__CHECKPOINT "checkpoint" /* in messages */

typedef struct ph__region_run {
    ph_checkpoint_fn fn;
    void *user;
    ph_tensor **out;
    size_t out_count;
    ph_tensor *const *in;
} ph__region_run;

/* Calls the function. Its tensors stay the tape's. False: the tape has failed. */
bool ph__region_call_fn(ph_tape *tape, const ph__region_run *r);
/* The same as a part of region; hollow: nodes save no values. Restores the tape's modes. */
bool ph__region_call(ph_tape *tape, ph__region *region, bool hollow, const ph__region_run *r);
#endif
