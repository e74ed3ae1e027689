/* SPDX-License-Identifier: MIT */
/* gpt/train.c: the step, as it runs eagerly and as it is captured. */
#include "train.h"
#include <math.h>
#include <stdlib.h>

ph_status trainer_create(trainer *t, ph_device *device, const corpus *text,
                         const model_shape *shape, int64_t batch, uint64_t seed,
                         ph_autocast autocast)
{
    const ph_tape_options how = {.mark_modules = true, .autocast = autocast};
    ph_adam_options options = {.lr = 1e-3, .beta2 = 0.99, .weight_decay = 0.1};
    ph_generator *generator;
    *t = (trainer){.device = device, .shape = *shape, .batch = batch};
    PH_TRY(ph_generator_default(&generator, device));
    ph_status status = ph_generator_seed(generator, seed);
    if (status == PH_OK)
        status = model_create(&t->model, device, shape);
    ph_generator_release(generator);
    PH_TRY(status);
    PH_TRY(ph_adamw_create(&t->optimizer, t->model, &options));
    PH_TRY(ph_stream_create(&t->stream, device, NULL));
    PH_TRY(ph_tape_create(&t->tape, t->stream, &how));
    PH_TRY(ph_graph_create(&t->graph, NULL));
    t->tokens =
        ph_tensor_retain(ph_from_memory(t->tape, PH_DTYPE_I32, PH_SHAPE(text->count), text->token));
    t->steps_in = ph_tensor_retain(ph_arange(t->tape, PH_DTYPE_I64, 0, 1, shape->time));
    return ph_tape_clear(t->tape);
}

void trainer_destroy(trainer *t)
{
    ph_graph_destroy(t->graph);
    ph_tape_destroy(t->tape);
    ph_optimizer_destroy(t->optimizer);
    ph_module_release(t->model);
    ph_tensor_release(t->tokens);
    ph_tensor_release(t->steps_in);
    ph_tensor_release(t->loss);
    ph_stream_destroy(t->stream);
    *t = (trainer){0};
}

/* Characters [start, start + time) of each row, `later` characters further on. */
static ph_tensor *characters(trainer *t, ph_tensor *places, double later)
{
    ph_tensor *all = ph_reshape(t->tape, ph_add_scalar(t->tape, places, later),
                                PH_SHAPE(t->batch * t->shape.time));
    return ph_reshape(t->tape, ph_index_select(t->tape, t->tokens, 0, all),
                      PH_SHAPE(t->batch, t->shape.time));
}

/* The scopes name the nodes of a captured step, as the tape's marks name those of the modules. */
ph_status train_step(ph_stream *stream, void *user)
{
    trainer *t = user;
    ph_tape *tape = t->tape;
    PH_TRY(ph_annotation_push(stream, "batch", NULL));
    ph_optimizer_zero_grad(tape, t->optimizer);
    int64_t starts = ph_tensor_count(t->tokens) - t->shape.time;
    ph_tensor *start = ph_randint(tape, PH_DTYPE_I64, PH_SHAPE(t->batch, 1), 0, starts);
    ph_tensor *places = ph_add(tape, start, t->steps_in);
    ph_tensor *in = characters(t, places, 0), *targets = characters(t, places, 1);
    PH_TRY(ph_annotation_pop(stream));
    ph_tensor *logits = ph_call(tape, t->model, in);
    PH_TRY(ph_annotation_push(stream, "loss", NULL));
    ph_tensor *loss = model_loss(tape, &t->shape, logits, targets);
    PH_TRY(ph_annotation_pop(stream));
    ph_backward(tape, loss);
    PH_TRY(ph_annotation_push(stream, "optimizer", NULL));
    ph_optimizer_step(tape, t->optimizer);
    PH_TRY(ph_annotation_pop(stream));
    ph_tensor_release(t->loss);
    t->loss = ph_tensor_retain(loss);
    return ph_tape_clear(tape);
}

/* ---- samples ---- */
static double unit(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (double)(*state >> 11) * 0x1p-53;
}

static int32_t choose(const float *logit, int32_t count, double temperature, uint64_t *state)
{
    double most = -INFINITY, sum = 0;
    for (int32_t i = 0; i < count; i++)
        most = fmax(most, (double)logit[i]);
    for (int32_t i = 0; i < count; i++)
        sum += exp(((double)logit[i] - most) / temperature);
    double left = unit(state) * sum;
    for (int32_t i = 0; i < count; i++) {
        left -= exp(((double)logit[i] - most) / temperature);
        if (left <= 0)
            return i;
    }
    return count - 1;
}

/* The logits behind the last `length` characters. */
static ph_status predict(trainer *t, float *logit, const int32_t *token, int64_t length)
{
    ph_tensor *x = ph_from_memory(t->tape, PH_DTYPE_I32, PH_SHAPE(1, length), token);
    ph_tensor *all = ph_call(t->tape, t->model, x);
    ph_tensor *last = ph_slice(t->tape, ph_select(t->tape, all, 1, -1), -1, 0, t->shape.vocabulary);
    last = ph_cast(t->tape, last, PH_DTYPE_F32);
    ph_status status = ph_tape_status(t->tape);
    if (status == PH_OK)
        status = ph_tensor_read(t->tape, last, logit, (size_t)t->shape.vocabulary * sizeof *logit);
    ph_status cleared = ph_tape_clear(t->tape);
    return status != PH_OK ? status : cleared;
}

ph_status write_sample(trainer *t, const corpus *text, int64_t count, double temperature,
                       uint64_t seed, void (*put)(int byte))
{
    int64_t window = t->shape.time, length = 0;
    int32_t *token = malloc((size_t)(window + 1) * sizeof *token);
    float *logit = malloc((size_t)t->shape.vocabulary * sizeof *logit);
    ph_status status =
        token && logit ? PH_OK : ph_fail(PH_ERROR_HOST_MEMORY, "no memory for a sample");
    bool before = ph_tape_set_grad_enabled(t->tape, false);
    ph_module_train(t->model, false);
    if (status == PH_OK)
        token[length++] = text->token[0];
    for (int64_t i = 0; i < count && status == PH_OK; i++) {
        status = predict(t, logit, token, length);
        if (status != PH_OK)
            break;
        int32_t next = choose(logit, text->vocabulary, temperature, &seed);
        put(text->byte_of[next]);
        for (int64_t k = 0; length == window && k + 1 < window; k++)
            token[k] = token[k + 1];
        length = length == window ? window : length + 1;
        token[length - 1] = next;
    }
    ph_module_train(t->model, true);
    ph_tape_set_grad_enabled(t->tape, before);
    free(token);
    free(logit);
    return status;
}
