/* SPDX-License-Identifier: MIT */
/* gpt/train.c: the steps, as they run eagerly and as they are captured, and what feeds them. */
#include "train.h"
#include <math.h>
#include <string.h>

enum {
    MOST_VALIDATION = 16 /* batches */
};

/* ---- data ---- Called on threads of the loader's: a row is a stretch, its targets the one that
 * begins a character later. */
static ph_status fetch(const ph_fetch_request *request, void *user)
{
    const stretches *s = user;
    int32_t *in = request->data[0], *targets = request->data[1];
    size_t row_bytes = (size_t)s->time * sizeof *in;
    for (size_t row = 0; row < request->count; row++) {
        const int32_t *from = s->text->token + s->first + request->index[row] * s->stride;
        memcpy(in + row * (size_t)s->time, from, row_bytes);
        memcpy(targets + row * (size_t)s->time, from + 1, row_bytes);
    }
    return PH_OK;
}

static ph_status load(ph_data_loader **out, trainer *t, stretches *from, bool shuffle,
                      uint64_t seed)
{
    const ph_shape row = PH_SHAPE(from->time);
    const ph_batch_field fields[] = {{.dtype = PH_DTYPE_I32, .shape = row, .into = t->in},
                                     {.dtype = PH_DTYPE_I32, .shape = row, .into = t->targets}};
    const ph_data_loader_options options = {.count = from->count,
                                            .batch_size = t->batch,
                                            .fields = fields,
                                            .field_count = 2,
                                            .fetch = fetch,
                                            .user = from,
                                            .threads = 2,
                                            .shuffle = shuffle,
                                            .seed = seed,
                                            .drop_last = true};
    return ph_data_loader_create(out, t->device, &options);
}

/* Training stretches begin anywhere in their part of the text; those of validation stand side by
 * side. */
static ph_status create_loaders(trainer *t, const corpus *text, uint64_t seed)
{
    int64_t time = t->shape.time, train = text->count - text->count / 10;
    int64_t most = MOST_VALIDATION * t->batch, apart = (text->count - train - 1) / time;
    t->train = (stretches){text, 0, 1, train - time, time};
    t->held_out = (stretches){text, train, time, apart < most ? apart : most, time};
    if (t->held_out.count >= t->batch)
        PH_TRY(load(&t->validation, t, &t->held_out, false, 0));
    else
        t->train.count = text->count - time;
    if (t->train.count < t->batch)
        return ph_fail(PH_ERROR_ARGUMENT, "the text has %lld characters, too few for a batch",
                       (long long)text->count);
    return load(&t->loader, t, &t->train, true, seed);
}

static ph_status create_schedule(trainer *t, const trainer_options *o)
{
    uint64_t steps = (uint64_t)o->steps, rise = steps / 20;
    const ph_lr_piece pieces[] = {
        {.kind = PH_LR_LINEAR, .steps = rise, .start_factor = 1.0 / (double)(rise + 1)},
        {.kind = PH_LR_COSINE, .steps = steps > rise ? steps - rise : 1, .eta_min = o->rate / 10}};
    size_t first = rise > 0 ? 0 : 1;
    return ph_lr_schedule_create(&t->schedule, t->optimizer, pieces + first, 2 - first);
}

static ph_status create_optimizer(trainer *t, const trainer_options *o)
{
    const ph_adam_options adam = {
        .lr = o->rate > 0 ? o->rate : PH_ZERO, .beta2 = 0.99, .weight_decay = 0.1};
    const ph_grad_scaler_options scaling = {
        .init_scale = o->scale, .disabled = o->autocast.dtype != PH_DTYPE_F16, .fused = true};
    PH_TRY(ph_adamw_create(&t->optimizer, t->model, &adam));
    PH_TRY(ph_grad_scaler_create(&t->scaler, t->device, &scaling));
    return create_schedule(t, o);
}

static ph_status create_model(trainer *t, uint64_t seed)
{
    ph_generator *generator;
    PH_TRY(ph_generator_default(&generator, t->device));
    ph_status status = ph_generator_seed(generator, seed);
    if (status == PH_OK)
        status = model_create(&t->model, t->device, &t->shape);
    ph_generator_release(generator);
    return status;
}

ph_status trainer_create(trainer *t, ph_device *device, const corpus *text,
                         const model_shape *shape, const trainer_options *options)
{
    const ph_tape_options how = {.mark_modules = true, .autocast = options->autocast};
    const ph_shape rows = PH_SHAPE(options->batch, shape->time);
    *t = (trainer){.device = device, .shape = *shape, .batch = options->batch};
    PH_TRY(create_model(t, options->seed));
    PH_TRY(create_optimizer(t, options));
    PH_TRY(ph_stream_create(&t->stream, device, NULL));
    PH_TRY(ph_tape_create(&t->tape, t->stream, &how));
    PH_TRY(ph_graph_create(&t->graph, NULL));
    PH_TRY(ph_graph_create(&t->validation_graph, NULL));
    PH_TRY(ph_tensor_create(&t->in, device, PH_DTYPE_I32, rows));
    PH_TRY(ph_tensor_create(&t->targets, device, PH_DTYPE_I32, rows));
    PH_TRY(ph_tensor_create(&t->validation_sum, device, PH_DTYPE_F32, PH_SCALAR));
    return create_loaders(t, text, options->seed);
}

void trainer_destroy(trainer *t)
{
    ph_data_loader_destroy(t->loader);
    ph_data_loader_destroy(t->validation);
    ph_graph_destroy(t->graph);
    ph_graph_destroy(t->validation_graph);
    ph_tape_destroy(t->tape);
    ph_lr_schedule_destroy(t->schedule);
    ph_grad_scaler_destroy(t->scaler);
    ph_optimizer_destroy(t->optimizer);
    ph_module_release(t->model);
    ph_tensor_release(t->in);
    ph_tensor_release(t->targets);
    ph_tensor_release(t->validation_sum);
    ph_tensor_release(t->loss);
    ph_stream_destroy(t->stream);
    *t = (trainer){0};
}

ph_status next_batch(trainer *t, uint64_t *epoch)
{
    ph_batch batch = {0};
    while (batch.count == 0) /* an epoch may be over */
        PH_TRY(ph_data_loader_next(&batch, t->loader, t->stream));
    *epoch = batch.epoch;
    return PH_OK;
}

/* ---- training ---- The scopes name the nodes of a captured step, as the tape's marks name those
 * of the modules. */
ph_status train_step(ph_stream *stream, void *user)
{
    trainer *t = user;
    ph_tape *tape = t->tape;
    ph_optimizer_zero_grad(tape, t->optimizer);
    ph_tensor *logits = ph_call(tape, t->model, t->in);
    PH_TRY(ph_annotation_push(stream, "loss", NULL));
    ph_tensor *loss = model_loss(tape, &t->shape, logits, t->targets);
    PH_TRY(ph_annotation_pop(stream));
    ph_backward(tape, ph_grad_scaler_scale(tape, t->scaler, loss));
    PH_TRY(ph_annotation_push(stream, "optimizer", NULL));
    ph_grad_scaler_step(tape, t->scaler, t->optimizer);
    ph_grad_scaler_update(tape, t->scaler);
    PH_TRY(ph_annotation_pop(stream));
    ph_tensor_release(t->loss);
    t->loss = ph_tensor_retain(loss);
    return ph_tape_clear(tape);
}

/* ---- validation ---- */
static ph_status validation_step(ph_stream *stream, void *user)
{
    trainer *t = user;
    (void)stream;
    ph_tensor *logits = ph_call(t->tape, t->model, t->in);
    ph_tensor_add(t->tape, t->validation_sum, model_loss(t->tape, &t->shape, logits, t->targets),
                  1);
    return ph_tape_clear(t->tape);
}

/* Once eagerly, for what is done at a first use alone, then as a graph. */
static ph_status capture_validation(trainer *t)
{
    if (ph_graph_get_state(t->validation_graph) == PH_GRAPH_READY)
        return PH_OK;
    PH_TRY(validation_step(t->stream, t));
    return ph_graph_capture(t->validation_graph, t->stream, NULL, validation_step, t);
}

static ph_status sum_up(trainer *t, uint64_t *batches)
{
    ph_batch batch;
    ph_tensor_fill(t->tape, t->validation_sum, 0);
    PH_TRY(ph_tape_clear(t->tape));
    for (*batches = 0;; ++*batches) {
        PH_TRY(ph_data_loader_next(&batch, t->validation, t->stream));
        if (batch.count == 0)
            return PH_OK;
        PH_TRY(ph_graph_replay(t->validation_graph, t->stream));
    }
}

ph_status validate(trainer *t, double *loss)
{
    uint64_t batches = 0;
    double sum = 0;
    *loss = (double)NAN;
    if (!t->validation)
        return PH_OK;
    bool before = ph_tape_set_grad_enabled(t->tape, false);
    ph_module_train(t->model, false);
    ph_status status = capture_validation(t);
    if (status == PH_OK)
        status = sum_up(t, &batches);
    if (status == PH_OK)
        status = ph_tensor_item(&sum, t->tape, t->validation_sum);
    ph_module_train(t->model, true);
    (void)ph_tape_set_grad_enabled(t->tape, before);
    if (status == PH_OK)
        *loss = sum / (double)batches;
    return status;
}
