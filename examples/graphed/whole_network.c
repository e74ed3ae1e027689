/* SPDX-License-Identifier: MIT */
/* graphed/whole_network.c: a whole training step, forward, backward and optimizer, as one graph;
 * with momentum, dropout and a learning rate that changes. It must give the losses of the same
 * step without a graph, to the last bit. */
#include "common/common.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    BATCH = 32,
    EPOCHS = 8,
    MOST_STEPS = EPOCHS * 64,
    WARM_UP = 3
};

struct training {
    common *c;
    ph_module *net;
    ph_optimizer *optimizer;
    ph_generator *generator;
    ph_graph *graph;
    /* a replay reads where the capture read: each batch is copied to here first */
    ph_tensor *x, *y;
    ph_tensor *loss; /* of the last step */
};

/* What runs eagerly, and what is captured: the same function. The gradients are dropped first,
 * so that the captured backward makes them anew in the graph's own memory, at each replay. */
static ph_status step(ph_stream *stream, void *user)
{
    struct training *t = user;
    ph_tape *tape = t->c->tape;
    (void)stream; /* the tape has it */
    ph_optimizer_zero_grad(tape, t->optimizer);
    ph_tensor *loss = ph_cross_entropy(tape, ph_call(tape, t->net, t->x), t->y);
    ph_backward(tape, loss);
    ph_optimizer_step(tape, t->optimizer);
    ph_tensor_release(t->loss);
    t->loss = ph_tensor_retain(loss);
    return ph_tape_clear(tape);
}

static ph_status create(struct training *t, common *c)
{
    const int64_t widths[] = {PIXELS, 128, 128, CLASSES};
    const ph_sgd_options options = {.lr = 0.1, .momentum = 0.9};
    t->c = c;
    PH_TRY(common_network(&t->net, c, widths, 4, 0.1, 1));
    PH_TRY(ph_sgd_create(&t->optimizer, t->net, &options));
    PH_TRY(ph_generator_create(&t->generator, c->device, 7)); /* of the dropout */
    ph_tape_set_generator(c->tape, t->generator);
    PH_TRY(ph_graph_create(&t->graph, NULL));
    PH_TRY(ph_tensor_create(&t->x, c->device, PH_DTYPE_F32, PH_SHAPE(BATCH, PIXELS)));
    return ph_tensor_create(&t->y, c->device, PH_DTYPE_I64, PH_SHAPE(BATCH));
}

/* The first steps are eager: kernels are compiled and momenta made, which has no place in a
 * graph. Then one capture, and only replays. */
static ph_status one_step(struct training *t, int64_t i, bool graphed)
{
    common *c = t->c;
    int64_t batches = c->train / BATCH;
    ph_tensor_copy(c->tape, t->x, common_batch(c, c->images, i % batches, BATCH));
    ph_tensor_copy(c->tape, t->y, common_batch(c, c->labels, i % batches, BATCH));
    PH_TRY(ph_tape_clear(c->tape));
    PH_TRY(
        ph_optimizer_set_lr(t->optimizer, 0.05 * (1 + cos(3.14159265 * (double)i / MOST_STEPS))));
    if (!graphed || i < WARM_UP)
        return step(c->stream, t);
    if (i == WARM_UP)
        PH_TRY(ph_graph_capture(t->graph, c->stream, NULL, step, t));
    return ph_graph_replay(t->graph, c->stream);
}

static ph_status evaluate(struct training *t, double *right)
{
    common *c = t->c;
    ph_tape *tape = c->tape;
    bool before = ph_tape_set_grad_enabled(tape, false);
    ph_module_train(t->net, false);
    ph_tensor *logits = ph_call(tape, t->net, ph_slice(tape, c->images, 0, c->train, c->count));
    ph_status st = ph_tensor_item(
        right, tape, common_right(tape, logits, ph_slice(tape, c->labels, 0, c->train, c->count)));
    ph_tape_set_grad_enabled(tape, before);
    ph_status cleared = ph_tape_clear(tape);
    return cleared != PH_OK ? cleared : st;
}

static ph_status train(struct training *t, common *c, bool graphed, double *losses)
{
    double right = 0;
    PH_TRY(create(t, c));
    int64_t steps = EPOCHS * (c->train / BATCH);
    steps = steps < MOST_STEPS ? steps : MOST_STEPS;
    for (int64_t i = 0; i < steps; i++) {
        PH_TRY(one_step(t, i, graphed));
        PH_TRY(ph_tensor_item(&losses[i], c->tape, t->loss));
    }
    PH_TRY(evaluate(t, &right));
    printf("%s: loss %.3f, then %.3f after %lld steps; %.1f %% of the held-out digits right\n",
           graphed ? "one graph" : "eager", losses[0], losses[steps - 1], (long long)steps,
           100 * right);
    return right > 0.9 ? PH_OK
                       : ph_fail(PH_ERROR_CALLER, "too little was learnt: %.1f %%", 100 * right);
}

static void destroy(struct training *t)
{
    ph_graph_destroy(t->graph);
    ph_optimizer_destroy(t->optimizer);
    ph_module_release(t->net);
    ph_generator_release(t->generator);
    ph_tensor_release(t->x);
    ph_tensor_release(t->y);
    ph_tensor_release(t->loss);
}

int main(int argc, char **argv)
{
    static double losses[2][MOST_STEPS];
    common c;
    ph_status st = common_open(&c, argc, argv);
    for (int graphed = 0; graphed < 2 && st == PH_OK; graphed++) {
        struct training t = {0};
        st = train(&t, &c, graphed, losses[graphed]);
        destroy(&t);
    }
    if (st == PH_OK && memcmp(losses[0], losses[1], sizeof losses[0]) != 0)
        st = ph_fail(PH_ERROR_CALLER, "the replayed steps had other losses than the eager ones");
    if (st == PH_OK)
        printf("the losses of both are the same to the last bit\n");
    int status = common_end("whole_network", st);
    common_close(&c);
    return status;
}
