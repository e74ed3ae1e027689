/* SPDX-License-Identifier: MIT */
/* digits/kernels.h: the network's sizes, and the kernels with their argument structs.
 *
 * Every block owns the outputs that it writes and sums in a fixed order, so that no result
 * depends on how blocks are spread over threads. A layer's weights are (inputs + 1) rows of one
 * value per output; the last row is the bias. */
#ifndef DIGITS_KERNELS_H
#define DIGITS_KERNELS_H
#include "data.h"
#include <phonograph/kernel.h>

enum {
    BATCH = 32,
    HIDDEN = 128,
    WEIGHTS1 = (PIXELS + 1) * HIDDEN,
    WEIGHTS2 = (HIDDEN + 1) * CLASSES,
    UPDATE_BLOCK = 128 /* weights that one block updates */
};

typedef enum kernel_id {
    K_GATHER,
    K_HIDDEN,
    K_OUTPUT,
    K_SOFTMAX_LOSS,
    K_HIDDEN_GRADIENT,
    K_WEIGHT1_GRADIENT,
    K_WEIGHT2_GRADIENT,
    K_MEAN_LOSS,
    K_UPDATE,
    K_ADVANCE,
    K_PREDICT,
    KERNELS
} kernel_id;

/* A block an image: the batch of this step, by the step counter and the shuffled order, which
 * both live on the device. That is what lets one captured step serve every batch: a replay's
 * arguments are fixed. */
struct gather_args {
    const float *pixels;
    const uint32_t *labels;
    const uint32_t *order;
    const uint64_t *step;
    float *x;
    uint32_t *y;
};

/* A block an image: h = relu(x w), and o = h w. */
struct layer_args {
    const float *in;
    const float *w;
    float *out;
};

/* A block an image: its loss, and its output turned into the gradient (softmax - label) / BATCH. */
struct softmax_loss_args {
    float *out;
    const uint32_t *y;
    float *loss;
};

/* A block an image: what the hidden layer gets back through w. */
struct hidden_gradient_args {
    const float *dout;
    const float *w;
    const float *h;
    float *dh;
};

/* A block a row of the weights: dw = in' dout, the bias row by an input of 1. */
struct weight_gradient_args {
    const float *in;
    const float *dout;
    float *dw;
};

/* One block: the batch's mean loss into losses[step]. */
struct mean_loss_args {
    const float *loss;
    const uint64_t *step;
    float *losses;
};

/* UPDATE_BLOCK weights a block: SGD with momentum. */
struct update_args {
    uint64_t count;
    float rate, momentum;
    const float *dw;
    float *velocity;
    float *w;
};

/* One block: the next step. */
struct advance_args {
    uint64_t *step;
};

/* A block an image: the most likely class. */
struct predict_args {
    const float *pixels;
    const float *w1, *w2;
    uint32_t *predicted;
};

/* The same kernels for a GPU, and for NVRTC; the threads that a block has there (the host looks
 * at blocks alone). */
extern const char kernels_cuda[], kernels_cuda_options[];
extern const uint32_t kernel_threads[KERNELS];

/* Creates all of them; on failure none is left. */
ph_status kernels_create(ph_kernel *kernels[KERNELS], ph_device *device);
void kernels_release(ph_kernel *kernels[KERNELS]);
#endif
