/* SPDX-License-Identifier: MIT */
/* graphed/half_precision.c: products in f16 with weights in f32, by autocast, and a gradient
 * scaler that finds its own scale. The casts are part of the graphs; the scale is memory of the
 * device, and so is the decision to skip a step: nobody waits for it. */
#include "common/common.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    BATCH = 32,
    HIDDEN = 128,
    STEPS = 200
};

struct training {
    common *c;
    ph_module *net, *plain, *graphed;
    ph_optimizer *optimizer;
    ph_grad_scaler *scaler;
};

/* Two inputs, images and labels; one output, the loss. Nothing here knows of f16. */
static void forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const struct training *t = self;
    out[0] = ph_cross_entropy(tape, ph_call(tape, t->net, in[0]), in[1]);
}

/* f16 has 11 bits and ends at 65504: enough for products, not for weights that change by little.
 * So the weights stay f32, and autocast casts them where they are multiplied; the loss it
 * computes in f32. Graphs cast their weights at each replay, and keep no cast between two of
 * them: no_cache must say so. */
static ph_status create(struct training *t, common *c, bool graphed)
{
    const int64_t widths[] = {PIXELS, HIDDEN, CLASSES};
    const ph_sgd_options options = {.lr = 0.1, .momentum = 0.9};
    const ph_graphed_options graphs = {.autocast = {.dtype = PH_DTYPE_F16, .no_cache = true}};
    const ph_grad_scaler_options scaling = {.init_scale = 1 << 24}; /* far too large for f16 */
    *t = (struct training){.c = c};
    PH_TRY(ph_grad_scaler_create(&t->scaler, c->device, &scaling));
    PH_TRY(common_network(&t->net, c, widths, 3, 0, 1));
    ph_child children[] = {{"net", t->net}};
    ph_module_desc desc = {.name = "half",
                           .forward = forward,
                           .self = t,
                           .in_count = 2,
                           .children = children,
                           .child_count = 1};
    PH_TRY(ph_module_create(&t->plain, c->device, &desc));
    PH_TRY(ph_sgd_create(&t->optimizer, t->plain, &options));
    if (!graphed) {
        t->graphed = ph_module_retain(t->plain);
        return PH_OK;
    }
    ph_tensor *sample[2] = {ph_tensor_retain(common_batch(c, c->images, 0, BATCH)),
                            ph_tensor_retain(common_batch(c, c->labels, 0, BATCH))};
    ph_status st = ph_tape_clear(c->tape);
    if (st == PH_OK)
        st = ph_make_graphed_callables(&t->graphed, &t->plain,
                                       &(ph_sample){.tensors = sample, .count = 2}, 1, &graphs);
    ph_tensor_release(sample[0]);
    ph_tensor_release(sample[1]);
    return st;
}

/* The plain module and its graphs are called alike, autocast included: graphs that were made
 * with it refuse to be called without. Backward needs none. */
static ph_status train_step(struct training *t, int64_t batch, double *loss)
{
    common *c = t->c;
    ph_tensor *in[2] = {common_batch(c, c->images, batch, BATCH),
                        common_batch(c, c->labels, batch, BATCH)},
              *out = NULL;
    ph_optimizer_zero_grad(c->tape, t->optimizer);
    ph_autocast before = ph_tape_set_autocast(c->tape, (ph_autocast){.dtype = PH_DTYPE_F16});
    ph_call_n(c->tape, t->graphed, &out, 1, in, 2);
    ph_tape_set_autocast(c->tape, before);
    ph_backward(c->tape, ph_grad_scaler_scale(c->tape, t->scaler, out));
    ph_grad_scaler_step(c->tape, t->scaler, t->optimizer);
    ph_grad_scaler_update(c->tape, t->scaler);
    ph_status st = ph_tensor_item(loss, c->tape, out);
    ph_status cleared = ph_tape_clear(c->tape);
    return cleared != PH_OK ? cleared : st;
}

static ph_status train(struct training *t, common *c, bool graphed, double *losses)
{
    PH_TRY(create(t, c, graphed));
    for (int64_t i = 0; i < STEPS; i++)
        PH_TRY(train_step(t, i % (c->train / BATCH), &losses[i]));
    uint64_t steps;
    double scale;
    PH_TRY(ph_optimizer_steps(&steps, c->tape, t->optimizer));
    PH_TRY(ph_grad_scaler_get_scale(&scale, c->tape, t->scaler));
    printf("%s loss %.3f, then %.3f; %d steps were skipped until the scale was 2^%d\n",
           graphed ? "graphed:" : "plain:  ", losses[0], losses[STEPS - 1], STEPS - (int)steps,
           ilogb(scale));
    if (steps == STEPS || losses[STEPS - 1] > 0.5)
        return ph_fail(PH_ERROR_CALLER, "the scale was never too large, or too little was learnt");
    return PH_OK;
}

static void destroy(struct training *t)
{
    ph_optimizer_destroy(t->optimizer);
    ph_grad_scaler_destroy(t->scaler);
    ph_module *modules[] = {t->graphed, t->plain, t->net};
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        ph_module_release(modules[i]);
}

int main(int argc, char **argv)
{
    static double losses[2][STEPS];
    common c;
    ph_status st = common_open(&c, argc, argv);
    for (int graphed = 0; graphed < 2 && st == PH_OK; graphed++) {
        struct training t;
        st = train(&t, &c, graphed, losses[graphed]);
        destroy(&t);
    }
    if (st == PH_OK && memcmp(losses[0], losses[1], sizeof losses[0]) != 0)
        st = ph_fail(PH_ERROR_CALLER, "the two runs had different losses");
    if (st == PH_OK)
        printf("the losses of both runs are the same to the last bit\n");
    int status = common_end("half_precision", st);
    common_close(&c);
    return status;
}
