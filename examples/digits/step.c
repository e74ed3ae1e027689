/* SPDX-License-Identifier: MIT */
/* digits/step.c: one training step on two streams, with its activations allocated inside. */
#include "step.h"

/* What lives for one step only. In the eager run each step takes this from the caching allocator
 * and gives it back; in a capture it comes from the graph's private pool once, and replays find
 * it in place. */
struct activations {
    float *x, *h, *out, *loss, *dh, *dw1, *dw2;
    uint32_t *y;
};

static ph_status allocate(struct activations *a, ph_stream *stream)
{
    PH_TRY(PH_NEW(&a->x, BATCH * PIXELS, stream));
    PH_TRY(PH_NEW(&a->y, BATCH, stream));
    PH_TRY(PH_NEW(&a->h, BATCH * HIDDEN, stream));
    PH_TRY(PH_NEW(&a->out, BATCH * CLASSES, stream));
    PH_TRY(PH_NEW(&a->loss, BATCH, stream));
    PH_TRY(PH_NEW(&a->dh, BATCH * HIDDEN, stream));
    PH_TRY(PH_NEW(&a->dw1, WEIGHTS1, stream));
    return PH_NEW(&a->dw2, WEIGHTS2, stream);
}

/* After the join: the main stream is behind everything that the side stream read. */
static void release(struct activations *a, ph_stream *stream)
{
    ph_free(a->dw2, stream);
    ph_free(a->dw1, stream);
    ph_free(a->dh, stream);
    ph_free(a->loss, stream);
    ph_free(a->out, stream);
    ph_free(a->h, stream);
    ph_free(a->y, stream);
    ph_free(a->x, stream);
}

static ph_status launch(trainer *t, ph_stream *stream, kernel_id id, size_t blocks,
                        const void *args, size_t args_size)
{
    ph_launch_config config = {.grid = {(uint32_t)blocks}, .block = {kernel_threads[id]}};
    return ph_launch(stream, t->kernels[id], &config, args, args_size);
}

static ph_status forward(trainer *t, const struct activations *a, ph_stream *stream)
{
    struct gather_args batch = {t->pixels, t->labels, t->order, t->step, a->x, a->y};
    struct layer_args first = {a->x, t->w1, a->h};
    struct layer_args second = {a->h, t->w2, a->out};
    struct softmax_loss_args loss = {a->out, a->y, a->loss};
    PH_TRY(launch(t, stream, K_GATHER, BATCH, &batch, sizeof batch));
    PH_TRY(launch(t, stream, K_HIDDEN, BATCH, &first, sizeof first));
    PH_TRY(launch(t, stream, K_OUTPUT, BATCH, &second, sizeof second));
    return launch(t, stream, K_SOFTMAX_LOSS, BATCH, &loss, sizeof loss);
}

static ph_status update(trainer *t, ph_stream *stream, size_t count, const float *dw,
                        float *velocity, float *w)
{
    struct update_args args = {count, 0.2f, 0.9f, dw, velocity, w};
    return launch(t, stream, K_UPDATE, (count + UPDATE_BLOCK - 1) / UPDATE_BLOCK, &args,
                  sizeof args);
}

/* On the side stream, beside the first layer's gradients: the second layer's, and the batch's
 * mean loss. */
static ph_status backward_side(trainer *t, const struct activations *a)
{
    struct weight_gradient_args gradient = {a->h, a->out, a->dw2};
    struct mean_loss_args mean = {a->loss, t->step, t->losses};
    PH_TRY(ph_event_record(t->loss_ready, t->main));
    PH_TRY(ph_stream_wait_event(t->side, t->loss_ready));
    PH_TRY(launch(t, t->side, K_WEIGHT2_GRADIENT, HIDDEN + 1, &gradient, sizeof gradient));
    return launch(t, t->side, K_MEAN_LOSS, 1, &mean, sizeof mean);
}

static ph_status backward_main(trainer *t, const struct activations *a)
{
    struct hidden_gradient_args through = {a->out, t->w2, a->h, a->dh};
    struct weight_gradient_args gradient = {a->x, a->dh, a->dw1};
    PH_TRY(launch(t, t->main, K_HIDDEN_GRADIENT, BATCH, &through, sizeof through));
    PH_TRY(ph_event_record(t->weights_read, t->main));
    PH_TRY(launch(t, t->main, K_WEIGHT1_GRADIENT, PIXELS + 1, &gradient, sizeof gradient));
    return update(t, t->main, WEIGHTS1, a->dw1, t->velocity1, t->w1);
}

static ph_status submit(trainer *t, struct activations *a, ph_stream *stream)
{
    PH_TRY(allocate(a, stream));
    PH_TRY(forward(t, a, stream));
    PH_TRY(backward_side(t, a));
    PH_TRY(backward_main(t, a));

    /* The hidden gradient reads the second layer's weights: only then may the side stream change
     * them. */
    PH_TRY(ph_stream_wait_event(t->side, t->weights_read));
    PH_TRY(update(t, t->side, WEIGHTS2, a->dw2, t->velocity2, t->w2));
    PH_TRY(ph_event_record(t->side_done, t->side));
    PH_TRY(ph_stream_wait_event(stream, t->side_done));

    struct advance_args next = {t->step};
    return launch(t, stream, K_ADVANCE, 1, &next, sizeof next);
}

ph_status train_step(ph_stream *stream, void *user)
{
    trainer *t = user;
    struct activations a = {0};
    ph_status st = submit(t, &a, stream);
    release(&a, stream);
    return st;
}
