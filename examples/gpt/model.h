/* SPDX-License-Identifier: MIT */
/* gpt/model.h: a GPT-2-shaped network as a module: tokens [batch, time] (i32) in, logits [batch,
 * time, padded vocabulary] out. */
#ifndef GPT_MODEL_H
#define GPT_MODEL_H
#include <phonograph/nn.h>

typedef struct model_shape {
    int64_t vocabulary, time, width, heads, layers;
    double dropout;
} model_shape;

/* The head shares its weights with the token embedding. Both are padded to a multiple of 64
 * rows, since products with odd sizes take several times as long on a GPU; the rows behind the
 * vocabulary mean nothing. */
ph_status model_create(ph_module **out, ph_device *device, const model_shape *shape);
/* The mean loss of its logits: the padding takes no part. targets: [batch, time] (i32). */
ph_tensor *model_loss(ph_tape *tape, const model_shape *shape, ph_tensor *logits,
                      ph_tensor *targets);
#endif
