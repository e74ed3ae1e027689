/* SPDX-License-Identifier: MIT */
/* digits/net.c: the network on modules: its tensors, its step, and what it says of images that
 * it has not seen. */
#include "net.h"
#include <phonograph/nn.h>
#include <stdlib.h>

struct net {
    ph_tape *tape; /* on the trainer's main stream */
    ph_module *module;
    ph_optimizer *optimizer;
    ph_tensor *pixels, *labels, *held_out, *losses; /* the trainer's memory */
    ph_tensor *order, *step;                        /* a batch a row, and the row of this step */
    ph_tensor *one;                                 /* to count steps by */
};

/* ---- making ---- */
static ph_status make_module(struct net *n, ph_device *device)
{
    ph_module *layer[3] = {NULL, NULL, NULL};
    ph_status st = ph_linear_create(&layer[0], device, PIXELS, HIDDEN);
    if (st == PH_OK)
        st = ph_activation_create(&layer[1], device, "relu", ph_relu);
    if (st == PH_OK)
        st = ph_linear_create(&layer[2], device, HIDDEN, CLASSES);
    if (st == PH_OK)
        st = ph_sequential_create(&n->module, layer, 3);
    for (int i = 0; i < 3; i++)
        ph_module_release(layer[i]);
    return st;
}

static ph_status wrap(ph_tensor **out, const trainer *t, ph_dtype dtype, ph_shape shape, void *data)
{
    return ph_tensor_wrap(out, t->device, dtype, shape, NULL, data, NULL, NULL);
}

static ph_status create(struct net *n, const trainer *t)
{
    int64_t train = (int64_t)t->train_count, test = (int64_t)t->test_count,
            steps = (int64_t)t->steps;
    PH_TRY(ph_tape_create(&n->tape, t->main, NULL));
    PH_TRY(make_module(n, t->device));
    PH_TRY(wrap(&n->pixels, t, PH_DTYPE_F32, PH_SHAPE(train, PIXELS), t->pixels));
    PH_TRY(wrap(&n->labels, t, PH_DTYPE_I32, PH_SHAPE(train), t->labels));
    PH_TRY(wrap(&n->held_out, t, PH_DTYPE_F32, PH_SHAPE(test, PIXELS), t->held_out));
    PH_TRY(wrap(&n->losses, t, PH_DTYPE_F32, PH_SHAPE(steps), t->losses));
    PH_TRY(wrap(&n->order, t, PH_DTYPE_I32, PH_SHAPE(steps, BATCH), t->order));
    PH_TRY(wrap(&n->step, t, PH_DTYPE_I64, PH_SHAPE(1), t->step));
    PH_TRY(ph_tensor_create(&n->one, t->device, PH_DTYPE_I64, PH_SHAPE(1)));
    ph_tensor_fill(n->tape, n->one, 1);
    return ph_tape_clear(n->tape);
}

ph_status net_create(trainer *t)
{
    t->net = calloc(1, sizeof *t->net);
    if (!t->net)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the network");
    ph_status st = create(t->net, t);
    if (st != PH_OK)
        net_destroy(t);
    return st;
}

void net_destroy(trainer *t)
{
    struct net *n = t->net;
    if (!n)
        return;
    ph_tape_destroy(n->tape);
    ph_optimizer_destroy(n->optimizer);
    ph_module_release(n->module);
    ph_tensor *tensors[] = {n->pixels, n->labels, n->held_out, n->losses,
                            n->order,  n->step,   n->one};
    for (size_t i = 0; i < sizeof tensors / sizeof tensors[0]; i++)
        ph_tensor_release(tensors[i]);
    free(n);
    t->net = NULL;
}

/* ---- weights ---- the other form has a row for each input and one for the bias, a layer here a
 * row for each output. */
static void turn(float *layer, float *rows, size_t inputs, size_t outputs, bool to_rows)
{
    for (size_t i = 0; i < inputs; i++)
        for (size_t o = 0; o < outputs; o++)
            if (to_rows)
                rows[i * outputs + o] = layer[o * inputs + i];
            else
                layer[o * inputs + i] = rows[i * outputs + o];
}

static ph_status write_layer(struct net *n, const char *weight, const char *bias, float *rows,
                             size_t inputs, size_t outputs)
{
    float *layer = malloc(inputs * outputs * sizeof *layer);
    if (!layer)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for a layer's weights");
    turn(layer, rows, inputs, outputs, false);
    ph_status st = ph_tensor_write(n->tape, ph_module_parameter(n->module, weight), layer,
                                   inputs * outputs * sizeof *layer);
    if (st == PH_OK)
        st = ph_tensor_write(n->tape, ph_module_parameter(n->module, bias), rows + inputs * outputs,
                             outputs * sizeof *rows);
    free(layer);
    return st;
}

static ph_status read_layer(struct net *n, const char *weight, const char *bias, float *rows,
                            size_t inputs, size_t outputs)
{
    float *layer = malloc(inputs * outputs * sizeof *layer);
    if (!layer)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for a layer's weights");
    ph_status st = ph_tensor_read(n->tape, ph_module_parameter(n->module, weight), layer,
                                  inputs * outputs * sizeof *layer);
    if (st == PH_OK)
        st = ph_tensor_read(n->tape, ph_module_parameter(n->module, bias), rows + inputs * outputs,
                            outputs * sizeof *rows);
    turn(layer, rows, inputs, outputs, true);
    free(layer);
    return st;
}

/* ---- steps ---- */
/* The batch of this step, by the counter and the shuffled order, which live on the device: that
 * is what lets one captured step serve every batch. */
static ph_tensor *batch_loss(const struct net *n)
{
    ph_tape *tape = n->tape;
    ph_tensor *rows = ph_flatten(tape, ph_index_select(tape, n->order, 0, n->step), 0, 1);
    ph_tensor *x = ph_index_select(tape, n->pixels, 0, rows),
              *y = ph_index_select(tape, n->labels, 0, rows);
    return ph_cross_entropy(tape, ph_call(tape, n->module, x), y);
}

ph_status net_step(ph_stream *stream, void *user)
{
    const struct net *n = ((trainer *)user)->net;
    ph_tape *tape = n->tape;
    (void)stream;
    ph_tensor *loss = batch_loss(n);
    ph_backward(tape, loss);
    ph_optimizer_step(tape, n->optimizer);
    ph_optimizer_zero_grad(tape, n->optimizer);

    ph_tensor *value = ph_reshape(tape, ph_detach(tape, loss), PH_SHAPE(1));
    ph_tensor_copy(tape, n->losses, ph_scatter(tape, n->losses, 0, n->step, value));
    ph_tensor_add(tape, n->step, n->one, 1);
    return ph_tape_clear(tape);
}

/* A momentum is made by the first step, which must be an eager one: this one's gradients are 0,
 * so that it changes nothing. */
static ph_status warm_up(struct net *n)
{
    ph_backward(n->tape, ph_mul_scalar(n->tape, batch_loss(n), 0));
    ph_optimizer_step(n->tape, n->optimizer);
    ph_optimizer_zero_grad(n->tape, n->optimizer);
    return ph_tape_clear(n->tape);
}

ph_status net_reset(trainer *t)
{
    struct net *n = t->net;
    const ph_sgd_options options = {.lr = 0.2, .momentum = 0.9};
    ph_optimizer_destroy(n->optimizer);
    n->optimizer = NULL;
    PH_TRY(write_layer(n, "0.weight", "0.bias", t->first_w1, PIXELS, HIDDEN));
    PH_TRY(write_layer(n, "2.weight", "2.bias", t->first_w2, HIDDEN, CLASSES));
    PH_TRY(ph_sgd_create(&n->optimizer, n->module, &options));
    return warm_up(n);
}

/* ---- the held-out images ---- */
ph_status net_evaluate(run *r, trainer *t)
{
    struct net *n = t->net;
    int64_t *classes = calloc(t->test_count, sizeof *classes);
    if (!classes)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for %zu predictions", t->test_count);
    bool enabled = ph_tape_set_grad_enabled(n->tape, false);
    ph_tensor *best = ph_argmax(n->tape, ph_call(n->tape, n->module, n->held_out), -1, false);
    ph_status st = ph_tape_status(n->tape);
    if (st == PH_OK)
        st = ph_tensor_read(n->tape, best, classes, t->test_count * sizeof *classes);
    (void)ph_tape_set_grad_enabled(n->tape, enabled);
    for (size_t i = 0; i < t->test_count; i++)
        r->predicted[i] = (uint32_t)classes[i];
    free(classes);
    ph_status cleared = ph_tape_clear(n->tape);
    PH_TRY(st != PH_OK ? st : cleared);
    PH_TRY(read_layer(n, "0.weight", "0.bias", r->weights, PIXELS, HIDDEN));
    return read_layer(n, "2.weight", "2.bias", r->weights + WEIGHTS1, HIDDEN, CLASSES);
}
