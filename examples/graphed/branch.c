/* SPDX-License-Identifier: MIT */
/* graphed/branch.c: a network that looks at its own values to decide how it goes on. A graph
 * cannot decide, so the parts on both sides of the decision are graphed callables, and the
 * decision itself stays ordinary code between them. */
#include "common/common.h"
#include <stdio.h>
#include <string.h>

enum {
    BATCH = 32,
    HIDDEN = 128,
    EPOCHS = 16,
    PARTS = 3, /* a stem, and a head for each side of the branch */
    MOST_STEPS = EPOCHS * 64
};

/* part[] is what forward calls: the plain modules, or the graphed ones that were made from them.
 * The network has no idea which. */
struct net {
    ph_module *whole, *plain[PARTS], *graphed[PARTS], *const *part;
    double level;
    int64_t taken[2];
};

static void forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    struct net *n = self;
    double mean = 0;
    ph_tensor *h = ph_call(tape, n->part[0], in[0]);
    /* This waits for the device, which is why it cannot be inside a graph. A failure is the
     * tape's too: the step's end reports it. */
    if (ph_tensor_item(&mean, tape, ph_mean(tape, h)) != PH_OK)
        return;
    int side = mean > n->level;
    n->level += 0.1 * (mean - n->level);
    n->taken[side]++;
    out[0] = ph_call(tape, n->part[1 + side], h);
}

static ph_status create(struct net *n, const common *c)
{
    const int64_t stem[] = {PIXELS, HIDDEN, HIDDEN}, small[] = {HIDDEN, CLASSES},
                  large[] = {HIDDEN, HIDDEN, CLASSES};
    PH_TRY(common_network(&n->plain[0], c, stem, 3, 0, 1));
    PH_TRY(common_network(&n->plain[1], c, small, 2, 0, 2));
    PH_TRY(common_network(&n->plain[2], c, large, 3, 0, 3));
    n->part = n->plain;
    ph_child children[] = {{"stem", n->plain[0]}, {"small", n->plain[1]}, {"large", n->plain[2]}};
    ph_module_desc desc = {.name = "branching",
                           .forward = forward,
                           .self = n,
                           .children = children,
                           .child_count = PARTS};
    return ph_module_create(&n->whole, c->device, &desc);
}

/* One call for all of them, in the order in which a step calls them. A sample says what the
 * inputs will look like: shape, dtype, and whether a gradient is wanted. The stem's input is
 * data; the heads' input comes from the stem and needs one. */
static ph_status make_graphed(struct net *n, const common *c)
{
    ph_tensor *x = ph_tensor_retain(common_batch(c, c->images, 0, BATCH));
    ph_tensor *h = ph_tensor_retain(ph_randn(c->tape, PH_DTYPE_F32, PH_SHAPE(BATCH, HIDDEN)));
    ph_status st = ph_tape_clear(c->tape);
    if (st == PH_OK)
        st = ph_tensor_set_requires_grad(h, true);
    if (st == PH_OK) {
        const ph_sample samples[PARTS] = {
            {.tensors = &x, .count = 1}, {.tensors = &h, .count = 1}, {.tensors = &h, .count = 1}};
        st = ph_make_graphed_callables(n->graphed, n->plain, samples, PARTS, NULL);
    }
    if (st == PH_OK)
        n->part = n->graphed;
    ph_tensor_release(x);
    ph_tensor_release(h);
    return st;
}

/* An ordinary training step. Each call of a graphed part is one launch forward and one launch
 * backward. */
static ph_status train_step(struct net *n, const common *c, ph_optimizer *optimizer, int64_t batch,
                            double *loss)
{
    ph_tape *tape = c->tape;
    ph_optimizer_zero_grad(tape, optimizer);
    ph_tensor *logits = ph_call(tape, n->whole, common_batch(c, c->images, batch, BATCH));
    ph_tensor *l = ph_cross_entropy(tape, logits, common_batch(c, c->labels, batch, BATCH));
    ph_backward(tape, l);
    ph_optimizer_step(tape, optimizer);
    ph_status read = ph_tensor_item(loss, tape, l), cleared = ph_tape_clear(tape);
    return cleared != PH_OK ? cleared : read;
}

static ph_status share_right(struct net *n, const common *c, int64_t begin, int64_t end,
                             double *right)
{
    ph_tensor *logits = ph_call(c->tape, n->whole, ph_slice(c->tape, c->images, 0, begin, end));
    ph_tensor *share = common_right(c->tape, logits, ph_slice(c->tape, c->labels, 0, begin, end));
    ph_status read = ph_tensor_item(right, c->tape, share), cleared = ph_tape_clear(c->tape);
    return cleared != PH_OK ? cleared : read;
}

/* In evaluation, a graphed module calls the module that it was made from, as a graph holds what
 * training does. So batches may have another size, and another one at the end. */
static ph_status evaluate(struct net *n, const common *c, double *right)
{
    ph_status st = PH_OK;
    double all = 0;
    bool before = ph_tape_set_grad_enabled(c->tape, false);
    for (int i = 0; i < PARTS; i++)
        ph_module_train(n->part[i], false);
    for (int64_t begin = c->train; begin < c->count && st == PH_OK; begin += 50) {
        int64_t end = begin + 50 < c->count ? begin + 50 : c->count;
        double share = 0;
        st = share_right(n, c, begin, end, &share);
        all += share * (double)(end - begin);
    }
    ph_tape_set_grad_enabled(c->tape, before);
    *right = all / (double)(c->count - c->train);
    return st;
}

static ph_status train(struct net *n, const common *c, bool graphed, double *losses)
{
    const ph_sgd_options options = {.lr = 0.05, .momentum = 0.9};
    ph_optimizer *optimizer = NULL;
    double right = 0;
    int64_t batches = c->train / BATCH < 64 ? c->train / BATCH : 64;
    PH_TRY(create(n, c));
    if (graphed)
        PH_TRY(make_graphed(n, c));
    PH_TRY(ph_sgd_create(&optimizer, n->whole, &options));
    ph_status st = PH_OK;
    for (int64_t i = 0; i < EPOCHS * batches && st == PH_OK; i++)
        st = train_step(n, c, optimizer, i % batches, &losses[i]);
    int64_t small = n->taken[0], large = n->taken[1];
    if (st == PH_OK)
        st = evaluate(n, c, &right);
    ph_optimizer_destroy(optimizer);
    PH_TRY(st);
    printf("%-8s %lld batches through the small head, %lld through the large one; %.1f %% of the "
           "held-out "
           "digits right\n",
           graphed ? "graphed:" : "plain:", (long long)small, (long long)large, 100 * right);
    if (small == 0 || large == 0 || right < 0.9)
        return ph_fail(PH_ERROR_CALLER,
                       "one side of the branch was never taken, or too little was learnt");
    return PH_OK;
}

static void destroy(struct net *n)
{
    ph_module_release(n->whole);
    for (int i = 0; i < PARTS; i++) {
        ph_module_release(n->graphed[i]);
        ph_module_release(n->plain[i]);
    }
}

int main(int argc, char **argv)
{
    static double losses[2][MOST_STEPS];
    common c;
    ph_status st = common_open(&c, argc, argv);
    for (int graphed = 0; graphed < 2 && st == PH_OK; graphed++) {
        struct net n = {0};
        st = train(&n, &c, graphed, losses[graphed]);
        destroy(&n);
    }
    if (st == PH_OK && memcmp(losses[0], losses[1], sizeof losses[0]) != 0)
        st = ph_fail(PH_ERROR_CALLER, "the two runs had different losses");
    if (st == PH_OK)
        printf("the losses of both runs are the same to the last bit\n");
    int status = common_end("branch", st);
    common_close(&c);
    return status;
}
