/* SPDX-License-Identifier: MIT */
/* bench/nn_mlp.c: an MLP of 8 x (Linear + ReLU), batch 32: forward, forward and backward, and a
 * training step with SGD; eager and as one graph. Width 256 on a GPU, 64 on the host.
 * bench/torch_nn.py has PyTorch's side of the GPU's. */
#include "nn/timing.h"

enum {
    LAYERS = 8,
    BATCH = 32
};

typedef struct mlp {
    ph_tape *tape;
    ph_module *net;
    ph_optimizer *optimizer;
    ph_tensor *x, *y;
} mlp;

static ph_status forward(ph_stream *stream, void *user)
{
    mlp *m = user;
    (void)stream;
    bool before = ph_tape_set_grad_enabled(m->tape, false);
    (void)ph_call(m->tape, m->net, m->x);
    ph_tape_set_grad_enabled(m->tape, before);
    return ph_tape_clear(m->tape);
}

static ph_status forward_backward(ph_stream *stream, void *user)
{
    mlp *m = user;
    (void)stream;
    ph_module_zero_grad(m->net);
    ph_backward(m->tape, ph_mse(m->tape, ph_call(m->tape, m->net, m->x), m->y));
    return ph_tape_clear(m->tape);
}

static ph_status step(ph_stream *stream, void *user)
{
    mlp *m = user;
    (void)stream;
    ph_optimizer_zero_grad(m->tape, m->optimizer);
    ph_backward(m->tape, ph_mse(m->tape, ph_call(m->tape, m->net, m->x), m->y));
    ph_optimizer_step(m->tape, m->optimizer);
    return ph_tape_clear(m->tape);
}

static void create(mlp *m, timing *t, int64_t width)
{
    ph_module *layers[2 * LAYERS];
    ph_sgd_options options = {.lr = 1e-3};
    m->tape = t->tape;
    for (int i = 0; i < LAYERS; i++) {
        OK(ph_linear_create(&layers[2 * i], t->device, width, width));
        OK(ph_activation_create(&layers[2 * i + 1], t->device, "relu", ph_relu));
    }
    OK(ph_sequential_create(&m->net, layers, 2 * LAYERS));
    for (int i = 0; i < 2 * LAYERS; i++)
        ph_module_release(layers[i]);
    OK(ph_sgd_create(&m->optimizer, m->net, &options));
    m->x = ph_tensor_retain(ph_randn(m->tape, PH_DTYPE_F32, PH_SHAPE(BATCH, width)));
    m->y = ph_tensor_retain(ph_randn(m->tape, PH_DTYPE_F32, PH_SHAPE(BATCH, width)));
    OK(ph_tape_clear(m->tape));
}

int main(int argc, char **argv)
{
    timing t;
    mlp m;
    timing_open(&t, "nn_mlp", 301, argc, argv);
    create(&m, &t, t.gpu ? 256 : 64);
    struct {
        const char *what;
        ph_status (*body)(ph_stream *stream, void *user);
    } parts[] = {
        {"forward", forward}, {"forward + backward", forward_backward}, {"training step", step}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        timing_line(&t, parts[i].what, "eager", timing_run(&t, 20, t.rounds, 1, parts[i].body, &m));
        timing_line(&t, parts[i].what, "graph", timing_replays(&t, t.rounds, 1, parts[i].body, &m));
    }
    ph_optimizer_destroy(m.optimizer);
    ph_module_release(m.net);
    ph_tensor_release(m.x);
    ph_tensor_release(m.y);
    return timing_close(&t);
}
