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
    ph_grad_scaler *scaler;   /* disabled, but in f16 */
    ph_lr_schedule *schedule; /* of the optimizer */
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

/* rate: the learning rate at its highest, behind a warm-up of a twentieth of the steps; a cosine
 * takes it down to a tenth. autocast: of every step and of samples; weights, their gradients and
 * the optimizer's state are f32 in any case. In f16 a gradient scaler is at work. */
typedef struct trainer_options {
    int64_t batch, steps;
    double rate;
    double scale; /* the scaler's first; 0: its default */
    uint64_t seed;
    ph_autocast autocast;
} trainer_options;

/* The last tenth of the text is held out. */
ph_status trainer_create(trainer *t, ph_device *device, const corpus *text,
                         const model_shape *shape, const trainer_options *options);
void trainer_destroy(trainer *t);

/* The next batch into in and targets, in order of the stream. *epoch: its. */
ph_status next_batch(trainer *t, uint64_t *epoch);

/* Runs the network forward and backward on the batch, and changes the weights, unless the scaler
 * skips that on the device. The same function runs eagerly and is captured. */
ph_status train_step(ph_stream *stream, void *trainer);

/* The mean loss of the text that is held out, without dropout: by replays of a graph that the
 * first call captures. NAN where there is none. in and targets have other contents then. */
ph_status validate(trainer *t, double *loss);
#endif
