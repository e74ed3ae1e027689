/* SPDX-License-Identifier: MIT */
/* graphed/micro_batches.c: a large batch in small pieces: each piece is one launch forward and
 * one backward, and the graph itself adds its gradients to those of the pieces before. */
#include "common/common.h"
#include <stdio.h>

enum {
    BATCH = 128,
    PIECE = 16,
    PIECES = BATCH / PIECE,
    STEPS = 30
};

/* Two networks from one seed: one steps over whole batches, eagerly; the other over pieces,
 * graphed. */
struct app {
    common c;
    ph_module *large, *small; /* the networks */
    /* small with its loss: two inputs, one output; and the same, graphed */
    ph_module *piece, *graphed;
    ph_optimizer *of_large, *of_small;
};

/* The loss is part of what is graphed. It is the mean over a piece, so the pieces' gradients are
 * scaled for their sum to be the mean over all. */
static void piece_loss(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    struct app *a = self;
    ph_tensor *loss = ph_cross_entropy(tape, ph_call(tape, a->small, in[0]), in[1]);
    out[0] = ph_mul_scalar(tape, loss, 1.0 / PIECES);
}

static ph_status make_graphed(struct app *a)
{
    const common *c = &a->c;
    ph_child children[] = {{"net", a->small}};
    ph_module_desc desc = {.name = "piece",
                           .forward = piece_loss,
                           .self = a,
                           .in_count = 2,
                           .children = children,
                           .child_count = 1};
    PH_TRY(ph_module_create(&a->piece, c->device, &desc));
    ph_tensor *sample[2] = {ph_tensor_retain(common_batch(c, c->images, 0, PIECE)),
                            ph_tensor_retain(common_batch(c, c->labels, 0, PIECE))};
    const ph_graphed_options options = {.gradients = PH_GRAPHED_ACCUMULATE};
    ph_status st = ph_tape_clear(c->tape);
    if (st == PH_OK)
        st = ph_make_graphed_callables(&a->graphed, &a->piece,
                                       &(ph_sample){.tensors = sample, .count = 2}, 1, &options);
    ph_tensor_release(sample[0]);
    ph_tensor_release(sample[1]);
    return st;
}

/* What became of the inputs: rebound, or copied and why. */
static ph_status describe(const struct app *a)
{
    char *text;
    PH_TRY(ph_graphed_callable_describe(&text, a->graphed));
    printf("%s", text);
    ph_string_free(text);
    return PH_OK;
}

/* Pieces are views of the images, so every call brings another address: nothing is copied where
 * the library proved that it may tell the graph the new address instead. */
static ph_status gradient_in_pieces(struct app *a, int64_t batch)
{
    const common *c = &a->c;
    ph_optimizer_zero_grad(c->tape, a->of_small);
    for (int64_t i = 0; i < PIECES; i++) {
        ph_tensor *in[2] = {common_batch(c, c->images, batch * PIECES + i, PIECE),
                            common_batch(c, c->labels, batch * PIECES + i, PIECE)};
        ph_tensor *loss = NULL;
        ph_call_n(c->tape, a->graphed, &loss, 1, in, 2);
        ph_backward(c->tape, loss);
        PH_TRY(ph_tape_clear(c->tape)); /* the gradients are the leaves': they stay */
    }
    return PH_OK;
}

static ph_status gradient_at_once(struct app *a, int64_t batch)
{
    const common *c = &a->c;
    ph_optimizer_zero_grad(c->tape, a->of_large);
    ph_tensor *logits = ph_call(c->tape, a->large, common_batch(c, c->images, batch, BATCH));
    ph_backward(c->tape,
                ph_cross_entropy(c->tape, logits, common_batch(c, c->labels, batch, BATCH)));
    return ph_tape_clear(c->tape);
}

/* Sums of another order round otherwise: the gradients are equal within a bound, not to the bit. */
struct comparison {
    const struct app *app;
    ph_status status;
    double worst;
};
static bool compare_gradient(const char *name, ph_tensor *mine, void *user)
{
    struct comparison *to = user;
    ph_tensor *other = ph_module_parameter(to->app->large, name);
    double apart = 0;
    to->status =
        common_distance(&apart, to->app->c.tape, ph_tensor_grad(mine), ph_tensor_grad(other));
    to->worst = apart > to->worst ? apart : to->worst;
    return to->status == PH_OK;
}

static ph_status run(struct app *a, int argc, char **argv)
{
    const int64_t widths[] = {PIXELS, 128, 128, CLASSES};
    const ph_sgd_options options = {.lr = 0.1, .momentum = 0.9};
    struct comparison all = {.app = a};
    PH_TRY(common_open(&a->c, argc, argv));
    PH_TRY(common_network(&a->large, &a->c, widths, 4, 0, 1));
    PH_TRY(common_network(&a->small, &a->c, widths, 4, 0, 1));
    PH_TRY(make_graphed(a));
    PH_TRY(describe(a));
    PH_TRY(ph_sgd_create(&a->of_large, a->large, &options));
    PH_TRY(ph_sgd_create(&a->of_small, a->small, &options));
    int64_t batches = a->c.train / BATCH;
    for (int64_t step = 0; step < STEPS; step++) {
        PH_TRY(gradient_at_once(a, step % batches));
        PH_TRY(gradient_in_pieces(a, step % batches));
        ph_module_parameters(a->small, compare_gradient, &all);
        ph_optimizer_step(a->c.tape, a->of_large);
        ph_optimizer_step(a->c.tape, a->of_small);
        PH_TRY(ph_tape_clear(a->c.tape));
        PH_TRY(all.status);
    }
    printf("%d steps of %d pieces: gradients within %.1e of those of the whole batch\n", STEPS,
           PIECES, all.worst);
    return all.worst < 1e-4 ? PH_OK
                            : ph_fail(PH_ERROR_CALLER, "the gradients differ by %g", all.worst);
}

int main(int argc, char **argv)
{
    struct app a = {0};
    int status = common_end("micro_batches", run(&a, argc, argv));
    ph_optimizer_destroy(a.of_large);
    ph_optimizer_destroy(a.of_small);
    ph_module *modules[] = {a.graphed, a.piece, a.small, a.large};
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++)
        ph_module_release(modules[i]);
    common_close(&a.c);
    return status;
}
