/* SPDX-License-Identifier: MIT */
/* bench/nn_graphed.c: an MLP of 8 x (Linear + ReLU), batch 32, as one graphed callable: forward,
 * forward and backward, and a training step with inputs in a new buffer at each call, beside the
 * eager network and beside one graph of the whole step. Width 256 on a GPU, 64 on the host.
 * bench/torch_graphed.py has PyTorch's side of the GPU's. */
#include "clock.h"
#include "nn/timing.h"
#include <phonograph/graphed.h>

enum {
    LAYERS = 8,
    BATCH = 32,
    BUFFERS = 64, /* that inputs are taken from in turn */
    MAKINGS = 5
};

typedef struct bench {
    timing *t;
    ph_tape *tape;
    ph_module *net, *called; /* called: the net itself, or graphed */
    ph_optimizer *optimizer;
    ph_tensor *x[BUFFERS], *y[BUFFERS], *grad;
    ph_tensor *fixed_x, *fixed_y; /* what a whole graph reads */
    size_t at;                    /* the buffer of this call */
    ph_graph *graph;
} bench;

/* ---- what is measured ---- */
static ph_status forward_no_grad(ph_stream *stream, void *user)
{
    bench *b = user;
    (void)stream;
    bool before = ph_tape_set_grad_enabled(b->tape, false);
    (void)ph_call(b->tape, b->called, b->fixed_x);
    ph_tape_set_grad_enabled(b->tape, before);
    return ph_tape_clear(b->tape);
}

static ph_status forward(ph_stream *stream, void *user)
{
    bench *b = user;
    (void)stream;
    (void)ph_call(b->tape, b->called, b->fixed_x);
    return ph_tape_clear(b->tape);
}

static ph_status forward_backward(ph_stream *stream, void *user)
{
    bench *b = user;
    (void)stream;
    ph_module_zero_grad(b->net);
    ph_tensor *y = ph_call(b->tape, b->called, b->fixed_x);
    ph_backward_from(b->tape, &y, &b->grad, 1, NULL);
    return ph_tape_clear(b->tape);
}

static ph_status step_on(bench *b, ph_tensor *x, ph_tensor *y)
{
    ph_optimizer_zero_grad(b->tape, b->optimizer);
    ph_backward(b->tape, ph_mse(b->tape, ph_call(b->tape, b->called, x), y));
    ph_optimizer_step(b->tape, b->optimizer);
    return ph_tape_clear(b->tape);
}

static ph_status step_fixed(ph_stream *stream, void *user)
{
    bench *b = user;
    (void)stream;
    return step_on(b, b->fixed_x, b->fixed_y);
}

static ph_status step_new(ph_stream *stream, void *user)
{
    bench *b = user;
    (void)stream;
    b->at = (b->at + 1) % BUFFERS;
    return step_on(b, b->x[b->at], b->y[b->at]);
}

/* What a user of a whole graph does with inputs in new buffers. */
static ph_status copy_and_replay(ph_stream *stream, void *user)
{
    bench *b = user;
    b->at = (b->at + 1) % BUFFERS;
    ph_tensor_copy(b->tape, b->fixed_x, b->x[b->at]);
    ph_tensor_copy(b->tape, b->fixed_y, b->y[b->at]);
    PH_TRY(ph_tape_clear(b->tape));
    return ph_graph_replay(b->graph, stream);
}

/* ---- one network ---- */
static void create_net(ph_module **out, timing *t, int64_t width)
{
    ph_module *layers[2 * LAYERS];
    for (int i = 0; i < LAYERS; i++) {
        OK(ph_linear_create(&layers[2 * i], t->device, width, width));
        OK(ph_activation_create(&layers[2 * i + 1], t->device, "relu", ph_relu));
    }
    OK(ph_sequential_create(out, layers, 2 * LAYERS));
    for (int i = 0; i < 2 * LAYERS; i++)
        ph_module_release(layers[i]);
}

static ph_tensor *random_rows(timing *t, int64_t rows, int64_t width)
{
    ph_tensor *x = ph_tensor_retain(ph_randn(t->tape, PH_DTYPE_F32, PH_SHAPE(rows, width)));
    OK(ph_tape_clear(t->tape));
    return x;
}

static void create(bench *b, timing *t, int64_t width)
{
    const ph_sgd_options options = {.lr = 1e-3};
    *b = (bench){.t = t, .tape = t->tape};
    create_net(&b->net, t, width);
    OK(ph_sgd_create(&b->optimizer, b->net, &options));
    for (int i = 0; i < BUFFERS; i++) {
        b->x[i] = random_rows(t, BATCH, width);
        b->y[i] = random_rows(t, BATCH, width);
    }
    b->grad = random_rows(t, BATCH, width);
    b->fixed_x = random_rows(t, BATCH, width);
    b->fixed_y = random_rows(t, BATCH, width);
    b->called = ph_module_retain(b->net);
}

static void destroy(bench *b)
{
    for (int i = 0; i < BUFFERS; i++) {
        ph_tensor_release(b->x[i]);
        ph_tensor_release(b->y[i]);
    }
    ph_tensor_release(b->grad);
    ph_tensor_release(b->fixed_x);
    ph_tensor_release(b->fixed_y);
    ph_optimizer_destroy(b->optimizer);
    ph_module_release(b->called);
    ph_module_release(b->net);
}

/* options NULL: from now on the network itself is called. */
static void call_graphed(bench *b, const ph_graphed_options *options)
{
    ph_module *graphed = NULL;
    if (options)
        OK(ph_make_graphed_callables(&graphed, &b->net,
                                     &(ph_sample){.tensors = &b->fixed_x, .count = 1}, 1, options));
    ph_module_zero_grad(b->net);
    ph_module_release(b->called);
    b->called = graphed ? graphed : ph_module_retain(b->net);
}

static timing_result middle(double *times, int count)
{
    clock_sort(times, count);
    return (timing_result){times[count / 2], times[count / 2]};
}

static void measure_making(bench *b)
{
    double times[MAKINGS];
    for (int i = 0; i < MAKINGS; i++) {
        ph_module *graphed;
        OK(ph_device_synchronize(b->t->device));
        double start = clock_now();
        OK(ph_make_graphed_callables(&graphed, &b->net,
                                     &(ph_sample){.tensors = &b->fixed_x, .count = 1}, 1, NULL));
        times[i] = clock_now() - start;
        ph_module_release(graphed);
    }
    timing_line(b->t, "making the callable", "graphed", middle(times, MAKINGS));
}

static void measure_calls(bench *b)
{
    static const struct {
        const char *what;
        ph_status (*body)(ph_stream *stream, void *user);
    } parts[] = {{"forward, no grad", forward_no_grad},
                 {"forward", forward},
                 {"forward + backward", forward_backward}};
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        call_graphed(b, NULL);
        timing_line(b->t, parts[i].what, "eager",
                    timing_run(b->t, 20, b->t->rounds, 1, parts[i].body, b));
        timing_line(b->t, parts[i].what, "one graph",
                    timing_replays(b->t, b->t->rounds, 1, parts[i].body, b));
        call_graphed(b, &(ph_graphed_options){0});
        timing_line(b->t, parts[i].what, "graphed",
                    timing_run(b->t, 20, b->t->rounds, 1, parts[i].body, b));
    }
}

static void measure_whole_step(bench *b)
{
    call_graphed(b, NULL);
    timing_line(b->t, "training step", "eager", timing_run(b->t, 20, b->t->rounds, 1, step_new, b));
    OK(ph_graph_create(&b->graph, NULL));
    OK(ph_graph_capture(b->graph, b->t->stream, NULL, step_fixed, b));
    timing_line(b->t, "training step", "one graph",
                timing_run(b->t, 20, b->t->rounds, 1, copy_and_replay, b));
    ph_graph_destroy(b->graph);
    b->graph = NULL;
    ph_module_zero_grad(b->net);
    timing_line(b->t, "training step, inputs where they were", "one graph",
                timing_replays(b->t, b->t->rounds, 1, step_fixed, b));
}

static void mode_line(bench *b, const char *part, const char *mode,
                      ph_status (*body)(ph_stream *stream, void *user))
{
    char what[64];
    snprintf(what, sizeof what, "%s%s", part, mode);
    timing_line(b->t, what, "graphed", timing_run(b->t, 20, b->t->rounds, 1, body, b));
}

static void measure_steps(bench *b)
{
    static const struct {
        const char *name;
        ph_graphed_options options;
    } modes[] = {
        {", accumulate", {.gradients = PH_GRAPHED_ACCUMULATE}},
        {", borrow", {.gradients = PH_GRAPHED_BORROW}},
        {", inputs copied", {.inputs = PH_GRAPHED_COPY_INPUTS}},
        {", accumulate, inputs copied",
         {.gradients = PH_GRAPHED_ACCUMULATE, .inputs = PH_GRAPHED_COPY_INPUTS}},
        {", borrow, inputs copied",
         {.gradients = PH_GRAPHED_BORROW, .inputs = PH_GRAPHED_COPY_INPUTS}},
    };
    measure_whole_step(b);
    call_graphed(b, &(ph_graphed_options){0});
    mode_line(b, "training step", "", step_new);
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        call_graphed(b, &modes[i].options);
        mode_line(b, "forward + backward", modes[i].name, forward_backward);
        mode_line(b, "training step", modes[i].name, step_new);
    }
}

int main(int argc, char **argv)
{
    timing t;
    bench b;
    timing_open(&t, "nn_graphed", 301, argc, argv);
    int64_t width = t.gpu ? 256 : 64;
    create(&b, &t, width);
    measure_making(&b);
    measure_calls(&b);
    measure_steps(&b);
    destroy(&b);
    return timing_close(&t);
}
