/* SPDX-License-Identifier: MIT */
/* nn/graphed/trial_tensors.h: tensors of a capture. */
#ifndef PH_NN_GRAPHED_TRIAL_TENSORS_H
#define PH_NN_GRAPHED_TRIAL_TENSORS_H
#include "nn/graphed/capture.h"

#define PH__TRIAL "a capture" /* in messages about host memory */

/* A tensor that stands for what calls bind. A copied binding has memory of its own, the same in a
 * probe. */
ph_status ph__trial_stand_in(ph_tensor **out, const ph__trial *trial, ph__binding *binding,
                             const ph__stand_in *memory, const char *call);
/* Copies of the bindings that are not rebound, from the stage to `to`. False: the tape has failed.
 * */
bool ph__trial_copy_in(const ph__trial *trial, const ph__binding *bindings, const ph__stage *stage,
                       ph_tensor *const *to, size_t count);
/* x, or a copy in memory of the graph's own that nobody else has: an output may be an input, a
 * parameter, or a buffer. */
ph_tensor *ph__trial_own(const ph__trial *trial, ph_tensor *x);
/* A gradient of something that is neither input nor parameter would be lost: nobody hands it out.
 */
ph_status ph__trial_check_leaves(const ph__trial *trial, const char *call);
/* Of what the pass has used, forgets the stand-ins for tensors that calls bring. */
void ph__trial_forget_brought(ph__trial *trial, bool backward);
#endif
