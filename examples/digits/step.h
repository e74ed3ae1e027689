/* SPDX-License-Identifier: MIT */
/* digits/step.h: one training step. */
#ifndef DIGITS_STEP_H
#define DIGITS_STEP_H
#include "train.h"

/* Submits one step to stream (the trainer's main one) and to its side stream, which is joined
 * again at the end. `user` is the trainer. It is what the eager run calls for every step, and
 * what the capture calls once. */
ph_status train_step(ph_stream *stream, void *user);
#endif
