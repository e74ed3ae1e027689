/* SPDX-License-Identifier: MIT */
/* digits/kernels.c: the kernels of the network: forward, loss, backward, update, prediction. */
#include "kernels.h"
#include <float.h>
#include <math.h>
#include <string.h>

/* Products are added four at a time, so that a sum is read and written once for four of them, in
 * the order of one at a time. */
enum {
    AT_ONCE = 4
};
_Static_assert(PIXELS % AT_ONCE == 0 && HIDDEN % AT_ONCE == 0 && BATCH % AT_ONCE == 0,
               "rows are multiplied four at a time");

/* The widths are constants where these are called, so that the compiler unrolls and vectorises
 * each copy. */
static inline void add_products(float *restrict sum, const float factor[AT_ONCE],
                                const float *restrict rows, size_t width)
{
    for (size_t o = 0; o < width; o++)
        sum[o] = sum[o] + factor[0] * rows[o] + factor[1] * rows[width + o] +
                 factor[2] * rows[2 * width + o] + factor[3] * rows[3 * width + o];
}

static inline void multiply_row(float *restrict out, const float *restrict in,
                                const float *restrict w, size_t inputs, size_t outputs)
{
    for (size_t o = 0; o < outputs; o++)
        out[o] = w[inputs * outputs + o];
    for (size_t i = 0; i < inputs; i += AT_ONCE)
        add_products(out, in + i, w + i * outputs, outputs);
}

static inline void outer_row(float *restrict dw, const float *restrict in,
                             const float *restrict dout, size_t row, size_t inputs, size_t outputs)
{
    for (size_t o = 0; o < outputs; o++)
        dw[o] = 0;
    for (size_t image = 0; image < BATCH; image += AT_ONCE) {
        float x[AT_ONCE];
        for (size_t k = 0; k < AT_ONCE; k++)
            x[k] = row < inputs ? in[(image + k) * inputs + row] : 1;
        add_products(dw, x, dout + image * outputs, outputs);
    }
}

static inline void relu_row(float *out)
{
    for (size_t o = 0; o < HIDDEN; o++)
        out[o] = out[o] > 0 ? out[o] : 0;
}

static void gather(const ph_block_range *range, const void *args)
{
    const struct gather_args *a = args;
    const uint32_t *order = a->order + *a->step * BATCH;
    for (size_t image = range->begin; image < range->end; image++) {
        memcpy(a->x + image * PIXELS, a->pixels + (size_t)order[image] * PIXELS,
               PIXELS * sizeof *a->x);
        a->y[image] = a->labels[order[image]];
    }
}

static void hidden(const ph_block_range *range, const void *args)
{
    const struct layer_args *a = args;
    for (size_t image = range->begin; image < range->end; image++) {
        multiply_row(a->out + image * HIDDEN, a->in + image * PIXELS, a->w, PIXELS, HIDDEN);
        relu_row(a->out + image * HIDDEN);
    }
}

static void output(const ph_block_range *range, const void *args)
{
    const struct layer_args *a = args;
    for (size_t image = range->begin; image < range->end; image++)
        multiply_row(a->out + image * CLASSES, a->in + image * HIDDEN, a->w, HIDDEN, CLASSES);
}

static void softmax_loss(const ph_block_range *range, const void *args)
{
    const struct softmax_loss_args *a = args;
    for (size_t image = range->begin; image < range->end; image++) {
        float *out = a->out + image * CLASSES;
        float most = out[0], sum = 0;
        for (size_t o = 1; o < CLASSES; o++)
            most = out[o] > most ? out[o] : most;
        float label = out[a->y[image]] - most;
        for (size_t o = 0; o < CLASSES; o++)
            sum += out[o] = expf(out[o] - most);
        a->loss[image] = logf(sum) - label;
        for (size_t o = 0; o < CLASSES; o++)
            out[o] = (out[o] / sum - (o == a->y[image] ? 1.0f : 0.0f)) / BATCH;
    }
}

static void hidden_gradient(const ph_block_range *range, const void *args)
{
    const struct hidden_gradient_args *a = args;
    for (size_t image = range->begin; image < range->end; image++) {
        const float *dout = a->dout + image * CLASSES;
        for (size_t i = 0; i < HIDDEN; i++) {
            float sum = 0;
            for (size_t o = 0; o < CLASSES; o++)
                sum += dout[o] * a->w[i * CLASSES + o];
            a->dh[image * HIDDEN + i] = a->h[image * HIDDEN + i] > 0 ? sum : 0;
        }
    }
}

static void weight1_gradient(const ph_block_range *range, const void *args)
{
    const struct weight_gradient_args *a = args;
    for (size_t row = range->begin; row < range->end; row++)
        outer_row(a->dw + row * HIDDEN, a->in, a->dout, row, PIXELS, HIDDEN);
}

static void weight2_gradient(const ph_block_range *range, const void *args)
{
    const struct weight_gradient_args *a = args;
    for (size_t row = range->begin; row < range->end; row++)
        outer_row(a->dw + row * CLASSES, a->in, a->dout, row, HIDDEN, CLASSES);
}

static void mean_loss(const ph_block_range *range, const void *args)
{
    const struct mean_loss_args *a = args;
    (void)range;
    float sum = 0;
    for (size_t image = 0; image < BATCH; image++)
        sum += a->loss[image];
    a->losses[*a->step] = sum / BATCH;
}

/* A weight that gets no gradient any more, as those of units that never are positive, has a
 * velocity that falls to subnormal numbers and stays there. Many processors take a hundred times as
 * long for these, so it becomes 0 instead. */
static inline void update_weights(float *restrict w, float *restrict velocity,
                                  const float *restrict dw, size_t count, float rate,
                                  float momentum)
{
    for (size_t i = 0; i < count; i++) {
        const float next = momentum * velocity[i] + dw[i];
        velocity[i] = fabsf(next) < FLT_MIN ? 0 : next;
        w[i] -= rate * velocity[i];
    }
}

/* Whole blocks have a constant number of weights, as rows above have a constant width. */
static void update(const ph_block_range *range, const void *args)
{
    const struct update_args *a = args;
    for (size_t block = range->begin; block < range->end; block++) {
        const size_t at = block * UPDATE_BLOCK, left = a->count - at;
        float *w = a->w + at, *velocity = a->velocity + at;
        if (left >= UPDATE_BLOCK)
            update_weights(w, velocity, a->dw + at, UPDATE_BLOCK, a->rate, a->momentum);
        else
            update_weights(w, velocity, a->dw + at, left, a->rate, a->momentum);
    }
}

static void advance(const ph_block_range *range, const void *args)
{
    const struct advance_args *a = args;
    (void)range;
    ++*a->step;
}

static void predict(const ph_block_range *range, const void *args)
{
    const struct predict_args *a = args;
    for (size_t image = range->begin; image < range->end; image++) {
        float h[HIDDEN], out[CLASSES];
        multiply_row(h, a->pixels + image * PIXELS, a->w1, PIXELS, HIDDEN);
        relu_row(h);
        multiply_row(out, h, a->w2, HIDDEN, CLASSES);
        uint32_t best = 0;
        for (uint32_t o = 1; o < CLASSES; o++)
            best = out[o] > out[best] ? o : best;
        a->predicted[image] = best;
    }
}

/* Which parameters are device addresses: known, not guessed, in the record and in its dumps. */
#define ADDRESS(type, member) PH_PARAM(struct type, member, PH_PARAM_ADDRESS)
#define VALUE(type, member)   PH_PARAM(struct type, member, PH_PARAM_VALUE)

static const ph_param gather_params[] = {ADDRESS(gather_args, pixels), ADDRESS(gather_args, labels),
                                         ADDRESS(gather_args, order),  ADDRESS(gather_args, step),
                                         ADDRESS(gather_args, x),      ADDRESS(gather_args, y)};
static const ph_param layer_params[] = {ADDRESS(layer_args, in), ADDRESS(layer_args, w),
                                        ADDRESS(layer_args, out)};
static const ph_param softmax_loss_params[] = {ADDRESS(softmax_loss_args, out),
                                               ADDRESS(softmax_loss_args, y),
                                               ADDRESS(softmax_loss_args, loss)};
static const ph_param hidden_gradient_params[] = {
    ADDRESS(hidden_gradient_args, dout), ADDRESS(hidden_gradient_args, w),
    ADDRESS(hidden_gradient_args, h), ADDRESS(hidden_gradient_args, dh)};
static const ph_param weight_gradient_params[] = {ADDRESS(weight_gradient_args, in),
                                                  ADDRESS(weight_gradient_args, dout),
                                                  ADDRESS(weight_gradient_args, dw)};
static const ph_param mean_loss_params[] = {
    ADDRESS(mean_loss_args, loss), ADDRESS(mean_loss_args, step), ADDRESS(mean_loss_args, losses)};
static const ph_param update_params[] = {VALUE(update_args, count),      VALUE(update_args, rate),
                                         VALUE(update_args, momentum),   ADDRESS(update_args, dw),
                                         ADDRESS(update_args, velocity), ADDRESS(update_args, w)};
static const ph_param advance_params[] = {ADDRESS(advance_args, step)};
static const ph_param predict_params[] = {ADDRESS(predict_args, pixels), ADDRESS(predict_args, w1),
                                          ADDRESS(predict_args, w2),
                                          ADDRESS(predict_args, predicted)};

#define KERNEL(function, type, parameters)                                                         \
    {                                                                                              \
        .name = #function, .cuda = kernels_cuda, .host = function,                                 \
        .args_size = sizeof(struct type), .params = parameters,                                    \
        .param_count = sizeof parameters / sizeof parameters[0],                                   \
        .cuda_options = kernels_cuda_options                                                       \
    }

static const ph_kernel_source sources[KERNELS] = {
    [K_GATHER] = KERNEL(gather, gather_args, gather_params),
    [K_HIDDEN] = KERNEL(hidden, layer_args, layer_params),
    [K_OUTPUT] = KERNEL(output, layer_args, layer_params),
    [K_SOFTMAX_LOSS] = KERNEL(softmax_loss, softmax_loss_args, softmax_loss_params),
    [K_HIDDEN_GRADIENT] = KERNEL(hidden_gradient, hidden_gradient_args, hidden_gradient_params),
    [K_WEIGHT1_GRADIENT] = KERNEL(weight1_gradient, weight_gradient_args, weight_gradient_params),
    [K_WEIGHT2_GRADIENT] = KERNEL(weight2_gradient, weight_gradient_args, weight_gradient_params),
    [K_MEAN_LOSS] = KERNEL(mean_loss, mean_loss_args, mean_loss_params),
    [K_UPDATE] = KERNEL(update, update_args, update_params),
    [K_ADVANCE] = KERNEL(advance, advance_args, advance_params),
    [K_PREDICT] = KERNEL(predict, predict_args, predict_params),
};

ph_status kernels_create(ph_kernel *kernels[KERNELS], ph_device *device)
{
    ph_status st = PH_OK;
    for (size_t i = 0; i < KERNELS && st == PH_OK; i++)
        st = ph_kernel_create(&kernels[i], device, &sources[i]);
    if (st != PH_OK)
        kernels_release(kernels);
    return st;
}

void kernels_release(ph_kernel *kernels[KERNELS])
{
    for (size_t i = 0; i < KERNELS; i++) {
        ph_kernel_release(kernels[i]);
        kernels[i] = NULL;
    }
}
