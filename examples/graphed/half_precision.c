/* SPDX-License-Identifier: MIT */
/* graphed/half_precision.c: products in f16 with weights in f32, by autocast, and a loss scale
 * that finds its own size. The casts are part of the graphs; the scale goes in as the gradient
 * that backward begins with, so that it may change without a new capture. */
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
    double scale;
    int64_t skipped;
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
    *t = (struct training){.c = c, .scale = 1 << 24};
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
