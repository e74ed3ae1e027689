/* SPDX-License-Identifier: MIT */
/* gpt/train.h: one training step, the loss on text that is held out, and everything they need. */
#ifndef GPT_TRAIN_H
#define GPT_TRAIN_H
#include "model.h"
#include "text.h"

/* Stretches of the text that a loader takes: the i-th begins at first + i * stride. */
typedef struct stretches {
    const corpus *text;
    int64_t first, stride, count, time;
} stretches;

typedef struct trainer {
    ph_device *device;
    ph_stream *stream;
    ph_tape *tape;
    ph_module *model;
    ph_optimizer *optimizer;
    ph_graph *graph;
    model_shape shape;
    int64_t batch;
    ph_tensor *in, *targets; /* [batch, time]: what the captured steps read, and loaders write */
    ph_tensor *loss;         /* of the last step */
    stretches train, held_out;
    ph_data_loader *loader;
    ph_data_loader *validation; /* NULL: the text is too short to hold some out */
    ph_graph *validation_graph;
    ph_tensor *validation_sum;
} trainer;

/* The last tenth of the text is held out. autocast: of every step and of samples; weights, their
 * gradients and the optimizer's state are f32 in any case. */
ph_status trainer_create(trainer *t, ph_device *device, const corpus *text,
                         const model_shape *shape, int64_t batch, uint64_t seed,
                         ph_autocast autocast);
void trainer_destroy(trainer *t);

/* The next batch into in and targets, in order of the stream. *epoch: its. */
ph_status next_batch(trainer *t, uint64_t *epoch);

/* Runs the network forward and backward on the batch, and changes the weights. The same function
 * runs eagerly and is captured. */
ph_status train_step(ph_stream *stream, void *trainer);

/* The mean loss of the text that is held out, without dropout: by replays of a graph that the
 * first call captures. NAN where there is none. in and targets have other contents then. */
ph_status validate(trainer *t, double *loss);
#endif
