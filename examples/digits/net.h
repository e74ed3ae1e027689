/* SPDX-License-Identifier: MIT */
/* digits/net.h: the same network on modules: tensors over the trainer's memory, layers, an
 * optimizer; its step is written with operators and backward, where step.c launches kernels of
 * its own. */
#ifndef DIGITS_NET_H
#define DIGITS_NET_H
#include "train.h"

/* Makes trainer.net; on failure there is none. */
ph_status net_create(trainer *t);
void net_destroy(trainer *t);

/* The first weights, and an optimizer without momentum yet. */
ph_status net_reset(trainer *t);

/* As train_step (step.h). */
ph_status net_step(ph_stream *stream, void *user);

/* The classes of the held-out images, and the weights in the order of the other form. */
ph_status net_evaluate(run *r, trainer *t);
#endif
