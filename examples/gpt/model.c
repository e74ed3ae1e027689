/* SPDX-License-Identifier: MIT */
/* gpt/model.c: embeddings, transformer blocks, a norm, and a head that is the token embedding
 * again. */
#include "model.h"
#include <stdio.h>
#include <stdlib.h>

enum {
    MOST_LAYERS = 48,
    PADDING = 64
};

typedef struct model {
    model_shape shape;
    ph_module *token, *position, *dropout, *norm;
    ph_module *block[MOST_LAYERS];
} model;

static void forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self)
{
    model *m = self;
    ph_tensor *places = ph_arange(tape, PH_DTYPE_I32, 0, 1, ph_tensor_dim(in[0], 1));
    ph_tensor *x = ph_add(tape, ph_call(tape, m->token, in[0]), ph_call(tape, m->position, places));
    x = ph_call(tape, m->dropout, x);
    for (int64_t i = 0; i < m->shape.layers; i++)
        x = ph_call(tape, m->block[i], x);
    out[0] =
        ph_linear(tape, ph_call(tape, m->norm, x), ph_module_parameter(m->token, "weight"), NULL);
}

/* The module retains its children: the model's own references go at once. */
static void release_layers(model *m)
{
    ph_module_release(m->token);
    ph_module_release(m->position);
    ph_module_release(m->dropout);
    ph_module_release(m->norm);
    for (int64_t i = 0; i < m->shape.layers; i++)
        ph_module_release(m->block[i]);
}

static ph_status create_layers(model *m, ph_device *device)
{
    const model_shape *s = &m->shape;
    ph_block_options options = {.dropout = s->dropout};
    int64_t rows = (s->vocabulary + PADDING - 1) / PADDING * PADDING;
    PH_TRY(ph_embedding_create(&m->token, device, rows, s->width, NULL));
    PH_TRY(ph_embedding_create(&m->position, device, s->time, s->width, NULL));
    PH_TRY(ph_dropout_create(&m->dropout, device, s->dropout));
    PH_TRY(ph_layer_norm_create(&m->norm, device, s->width, NULL));
    for (int64_t i = 0; i < s->layers; i++)
        PH_TRY(ph_transformer_block_create(&m->block[i], device, s->width, s->heads, &options));
    return PH_OK;
}

static ph_status assemble(ph_module **out, ph_device *device, model *m)
{
    ph_child children[MOST_LAYERS + 4] = {
        {"token", m->token}, {"position", m->position}, {"dropout", m->dropout}, {"norm", m->norm}};
    char names[MOST_LAYERS][16];
    for (int64_t i = 0; i < m->shape.layers; i++) {
        snprintf(names[i], sizeof names[i], "block%d", (int)i);
        children[4 + i] = (ph_child){names[i], m->block[i]};
    }
    ph_module_desc desc = {.name = "gpt",
                           .forward = forward,
                           .self = m,
                           .destroy = free,
                           .children = children,
                           .child_count = 4 + (size_t)m->shape.layers};
    return ph_module_create(out, device, &desc);
}

/* As GPT-2 does: normal values of a small deviation, where the layers' own start is that of
 * PyTorch's layers. */
static ph_status start_small(ph_module *embedding, ph_device *device)
{
    ph_tape *tape;
    ph_tape_options options = {.no_grad = true};
    PH_TRY(ph_tape_create(&tape, ph_device_default_stream(device), &options));
    ph_tensor_normal(tape, ph_module_parameter(embedding, "weight"), 0, 0.02);
    ph_status status = ph_tape_clear(tape);
    if (status == PH_OK)
        status = ph_stream_synchronize(ph_device_default_stream(device));
    ph_tape_destroy(tape);
    return status;
}

ph_status model_create(ph_module **out, ph_device *device, const model_shape *shape)
{
    *out = NULL;
    if (shape->layers < 1 || shape->layers > MOST_LAYERS)
        return ph_fail(PH_ERROR_ARGUMENT, "a model has 1 to %d layers", MOST_LAYERS);
    model *m = calloc(1, sizeof *m);
    if (!m)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the model");
    m->shape = *shape;
    ph_status status = create_layers(m, device);
    if (status == PH_OK)
        status = start_small(m->token, device);
    if (status == PH_OK)
        status = start_small(m->position, device);
    if (status == PH_OK)
        status = assemble(out, device, m);
    release_layers(m);
    if (status != PH_OK)
        free(m);
    return status;
}

ph_tensor *model_loss(ph_tape *tape, const model_shape *shape, ph_tensor *logits,
                      ph_tensor *targets)
{
    ph_cross_entropy_options options = {.classes = shape->vocabulary};
    return ph_cross_entropy_with(tape, logits, targets, &options);
}
