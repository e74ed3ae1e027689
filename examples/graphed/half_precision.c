/* SPDX-License-Identifier: MIT */
/* graphed/half_precision.c: products in f16 with weights in f32, and a loss scale that finds its own size. The casts are part of the graphed module; the
 * scale goes in as the gradient that backward begins with, so that it may change without a new capture. */
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
    ph_module *layer[2], *plain, *graphed;
    ph_optimizer *optimizer;
    double scale;
    int64_t skipped;
};

/* f16 has 11 bits and ends at 65504: enough for products, not for weights that change by little. So a layer casts its weight at each call, and
 * the gradient of a cast brings the weight's gradient back to f32. */
static ph_tensor *half_linear(ph_tape *tape, const ph_module *layer, ph_tensor *x)
{
    ph_tensor *weight = ph_cast(tape, ph_module_parameter(layer, "0.weight"), PH_DTYPE_F16);
    ph_tensor *bias = ph_cast(tape, ph_module_parameter(layer, "0.bias"), PH_DTYPE_F16);
    return ph_linear(tape, x, weight, bias);
}

/* Two inputs, images and labels; one output, the loss, which is computed in f32. */
static void forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    const struct training *t = self;
    ph_tensor *x = ph_cast(tape, in[0], PH_DTYPE_F16);
    ph_tensor *h = ph_relu(tape, half_linear(tape, t->layer[0], x));
    ph_tensor *logits = half_linear(tape, t->layer[1], h);
    out[0] = ph_cross_entropy(tape, ph_cast(tape, logits, PH_DTYPE_F32), in[1]);
}

static ph_status create(struct training *t, common *c, bool graphed)
{
    const int64_t first[] = {PIXELS, HIDDEN}, last[] = {HIDDEN, CLASSES};
    const ph_sgd_options options = {.lr = 0.1, .momentum = 0.9};
    *t = (struct training){.c = c, .scale = 1 << 24};
    PH_TRY(common_network(&t->layer[0], c, first, 2, 0, 1));
    PH_TRY(common_network(&t->layer[1], c, last, 2, 0, 2));
    ph_child children[] = {{"first", t->layer[0]}, {"last", t->layer[1]}};
    ph_module_desc desc = {
        .name = "half", .forward = forward, .self = t, .in_count = 2, .children = children, .child_count = 2};
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
        st = ph_make_graphed_callables(&t->graphed, &t->plain, &(ph_sample){.tensors = sample, .count = 2}, 1,
                                       NULL);
    ph_tensor_release(sample[0]);
    ph_tensor_release(sample[1]);
    return st;
}

/* Adds up the sizes of all gradients: anything that is not finite stays so in the sum. */
struct look {
    ph_tape *tape;
    ph_tensor *sum;
};
static bool add_size(const char *name, ph_tensor *parameter, void *user)
{
    struct look *look = user;
    (void)name;
    ph_tensor *size = ph_sum(look->tape, ph_abs(look->tape, ph_tensor_grad(parameter)));
    look->sum = look->sum ? ph_add(look->tape, look->sum, size) : size;
    return true;
}
struct division {
    ph_tape *tape;
    double by;
};
static bool divide(const char *name, ph_tensor *parameter, void *user)
{
    const struct division *d = user;
    (void)name;
    ph_tensor_scale(d->tape, ph_tensor_grad(parameter), 1 / d->by);
    return true;
}

/* Whether to step at all is decided here, by the host, from what the graphs computed. */
static ph_status step_if_finite(struct training *t)
{
    ph_tape *tape = t->c->tape;
    struct look look = {.tape = tape};
    double size = 0;
    bool before = ph_tape_set_grad_enabled(tape, false);
    ph_module_parameters(t->plain, add_size, &look);
    ph_status st = ph_tensor_item(&size, tape, look.sum);
    if (st == PH_OK && isfinite(size)) {
        ph_module_parameters(t->plain, divide, &(struct division){tape, t->scale});
        ph_optimizer_step(tape, t->optimizer);
    } else if (st == PH_OK) {
        t->scale /= 2;
        t->skipped++;
    }
    ph_tape_set_grad_enabled(tape, before);
    return st;
}

static ph_status train_step(struct training *t, int64_t batch, double *loss)
{
    common *c = t->c;
    ph_tensor *in[2] = {common_batch(c, c->images, batch, BATCH), common_batch(c, c->labels, batch, BATCH)},
              *out = NULL;
    ph_optimizer_zero_grad(c->tape, t->optimizer);
    ph_call_n(c->tape, t->graphed, &out, 1, in, 2);
    ph_tensor *scale = ph_full(c->tape, PH_DTYPE_F32, PH_SCALAR, t->scale);
    ph_backward_from(c->tape, &out, &scale, 1, NULL);
    ph_status st = step_if_finite(t);
    if (st == PH_OK)
        st = ph_tensor_item(loss, c->tape, out);
    ph_status cleared = ph_tape_clear(c->tape);
    return cleared != PH_OK ? cleared : st;
}

static ph_status train(struct training *t, common *c, bool graphed, double *losses)
{
    PH_TRY(create(t, c, graphed));
    for (int64_t i = 0; i < STEPS; i++)
        PH_TRY(train_step(t, i % (c->train / BATCH), &losses[i]));
    printf("%s loss %.3f, then %.3f; %lld steps were skipped until the scale was 2^%d\n",
           graphed ? "graphed:" : "plain:  ", losses[0], losses[STEPS - 1], (long long)t->skipped,
           ilogb(t->scale));
    if (t->skipped == 0 || losses[STEPS - 1] > 0.5)
        return ph_fail(PH_ERROR_CALLER, "the scale was never too large, or too little was learnt");
    return PH_OK;
}

static void destroy(struct training *t)
{
    ph_optimizer_destroy(t->optimizer);
    ph_module *modules[] = {t->graphed, t->plain, t->layer[0], t->layer[1]};
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
