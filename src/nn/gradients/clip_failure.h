/* SPDX-License-Identifier: MIT */
/* nn/gradients/clip_failure.h: norms that were not finite, which the device counts in pinned
 * memory and the next call tells of. */
#ifndef PH_NN_GRADIENTS_CLIP_FAILURE_H
#define PH_NN_GRADIENTS_CLIP_FAILURE_H
#include <phonograph/tape.h>

/* *nonfinite, which the caller keeps with its module or optimizer: i64 [2], pinned: how many the
 * device has met, and of how many somebody has been told. Makes it where it is NULL, which a
 * capture cannot (STATE). A failure that nobody was told of fails the tape. In a capture each
 * replay asks as well. False: the tape has failed. */
bool ph__clip_failure_begin(ph_tape *tape, ph_tensor **nonfinite, const char *call);
#endif
