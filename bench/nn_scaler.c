/* SPDX-License-Identifier: MIT */
/* bench/nn_scaler.c: the cost of a gradient scaler: a training step of examples/gpt's model at the
 * shape of GPT-2 124M (autocast to f16, f32 parameters, AdamW, batch 4 x 1024), captured whole,
 * without a scaler, with one, and with one that divides in the optimizer's kernels (fused). The
 * graphs are replayed in turn, in one run. On the host device a model of a hundredth.
 * Without a scaler many gradients are 0 in f16, and products of zeros take a GPU less power, hence
 * less time. The loss times the scale's first value, without a scaler, has the gradients of the
 * others.
 * bench/torch_scaler.py has PyTorch's side. */
#include "../examples/gpt/model.h"
#include "clock.h"
#include "nn/timing.h"
#include <stdlib.h>

enum {
    FORMS = 4,
    WARM_UP = 5
};

static const char *const sides[FORMS] = {"no scaler", "no scaler, loss times 65536", "scaler",
                                         "scaler, fused"};

typedef struct training {
    ph_tape *tape;
    ph_module *model;
    ph_optimizer *optimizer;
    ph_grad_scaler *scaler; /* NULL: none */
    double factor;          /* of the loss, without a scaler */
    ph_graph *graph;
    const model_shape *shape;
    ph_tensor *x, *y;
    double *cpu, *whole; /* a time for each round */
} training;

static ph_status step(ph_stream *stream, void *user)
{
    training *g = user;
    (void)stream;
    ph_optimizer_zero_grad(g->tape, g->optimizer);
    ph_tensor *loss = model_loss(g->tape, g->shape, ph_call(g->tape, g->model, g->x), g->y);
    if (g->scaler) {
        ph_backward(g->tape, ph_grad_scaler_scale(g->tape, g->scaler, loss));
        ph_grad_scaler_step(g->tape, g->scaler, g->optimizer);
        ph_grad_scaler_update(g->tape, g->scaler);
    } else {
        ph_backward(g->tape, g->factor == 1 ? loss : ph_mul_scalar(g->tape, loss, g->factor));
        ph_optimizer_step(g->tape, g->optimizer);
    }
    return ph_tape_clear(g->tape);
}

/* Each form has a model of its own, of the same shape. */
static void make(training *g, timing *t, const model_shape *shape, int form)
{
    ph_adam_options options = {.lr = 3e-4, .weight_decay = 0.1};
    ph_grad_scaler_options scaling = {.fused = form == 3};
    int64_t batch = 4, time = t->gpu ? 1024 : 128;
    *g = (training){.tape = t->tape, .shape = shape, .factor = form == 1 ? 65536 : 1};
    g->cpu = malloc((size_t)t->rounds * sizeof *g->cpu);
    g->whole = malloc((size_t)t->rounds * sizeof *g->whole);
    if (!g->cpu || !g->whole)
        exit(1);
    OK(model_create(&g->model, t->device, shape));
    OK(ph_adamw_create(&g->optimizer, g->model, &options));
    if (form > 1)
        OK(ph_grad_scaler_create(&g->scaler, t->device, &scaling));
    g->x = ph_tensor_retain(
        ph_randint(t->tape, PH_DTYPE_I32, PH_SHAPE(batch, time), 0, shape->vocabulary));
    g->y = ph_tensor_retain(
        ph_randint(t->tape, PH_DTYPE_I32, PH_SHAPE(batch, time), 0, shape->vocabulary));
    OK(ph_tape_clear(t->tape));
    for (int i = 0; i < 3; i++)
        OK(step(t->stream, g));
    OK(ph_graph_create(&g->graph, NULL));
    OK(ph_graph_capture(g->graph, t->stream, NULL, step, g));
    OK(ph_stream_synchronize(t->stream));
}

static void end(training *g)
{
    ph_graph_destroy(g->graph);
    ph_grad_scaler_destroy(g->scaler);
    ph_optimizer_destroy(g->optimizer);
    ph_module_release(g->model);
    ph_tensor_release(g->x);
    ph_tensor_release(g->y);
    free(g->cpu);
    free(g->whole);
}

static void replay(training *g, timing *t, int round)
{
    double start = clock_now();
    OK(ph_graph_replay(g->graph, t->stream));
    double submitted = clock_now();
    OK(ph_stream_synchronize(t->stream));
    if (round >= 0) {
        g->cpu[round] = submitted - start;
        g->whole[round] = clock_now() - start;
    }
}

static timing_result medians(training *g, int rounds)
{
    clock_sort(g->cpu, rounds);
    clock_sort(g->whole, rounds);
    return (timing_result){g->cpu[rounds / 2], g->whole[rounds / 2]};
}

int main(int argc, char **argv)
{
    timing t;
    training forms[FORMS];
    timing_result results[FORMS];
    char what[64];
    timing_open(&t, "nn_scaler", 51, argc, argv);
    model_shape shape =
        t.gpu ? (model_shape){50257, 1024, 768, 12, 12, 0} : (model_shape){1000, 128, 128, 4, 2, 0};
    (void)ph_tape_set_autocast(t.tape, (ph_autocast){.dtype = PH_DTYPE_F16});
    for (int form = 0; form < FORMS; form++)
        make(&forms[form], &t, &shape, form);
    for (int round = -WARM_UP; round < t.rounds; round++)
        for (int i = 0; i < FORMS; i++)
            replay(&forms[(round + WARM_UP + i) % FORMS], &t, round);
    (void)snprintf(what, sizeof what, "GPT-2 step, f16, batch 4 x %d", t.gpu ? 1024 : 128);
    for (int form = 0; form < FORMS; form++) {
        results[form] = medians(&forms[form], t.rounds);
        timing_line(&t, what, sides[form], results[form]);
        end(&forms[form]);
    }
    for (int base = 0; base < 2; base++)
        printf("with a scaler %.3f, fused %.3f of the step with %s (to reach: 1.03)\n",
               results[2].whole / results[base].whole, results[3].whole / results[base].whole,
               sides[base]);
    return timing_close(&t);
}
