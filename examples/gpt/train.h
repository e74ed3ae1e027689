/* SPDX-License-Identifier: MIT */
/* gpt/train.h: one training step, and everything it needs. */
#ifndef GPT_TRAIN_H
#define GPT_TRAIN_H
#include "model.h"
#include "text.h"

typedef struct trainer {
    ph_device *device;
    ph_stream *stream;
    ph_tape *tape;
    ph_module *model;
    ph_optimizer *optimizer;
    ph_graph *graph;
    model_shape shape;
    int64_t batch;
    ph_tensor *tokens, *steps_in; /* the whole text; 0, 1, ... time - 1 */
    ph_tensor *loss;              /* of the last step */
} trainer;

/* autocast: of every step and of samples; weights, their gradients and the optimizer's state are
 * f32 in any case. */
ph_status trainer_create(trainer *t, ph_device *device, const corpus *text,
                         const model_shape *shape, int64_t batch, uint64_t seed,
                         ph_autocast autocast);
void trainer_destroy(trainer *t);

/* Draws a batch from anywhere in the text, runs the network forward and backward, and changes
 * the weights. The same function runs eagerly and is captured: the places in the text come from
 * the device's generator, so that each replay draws anew. */
ph_status train_step(ph_stream *stream, void *trainer);

/* Begins with the text's first character and writes count more; each is given to put as a byte. */
ph_status write_sample(trainer *t, const corpus *text, int64_t count, double temperature,
                       uint64_t seed, void (*put)(int byte));
#endif
