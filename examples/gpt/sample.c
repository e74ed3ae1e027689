/* SPDX-License-Identifier: MIT */
/* gpt/sample.c: one character: forward over the context, a draw from the last logits, and the
 * context moved on by it, all in one graph. */
#include "sample.h"

ph_status sampler_create(sampler *s, trainer *t, const corpus *text, double temperature)
{
    *s = (sampler){.trainer = t, .text = text, .temperature = temperature};
    PH_TRY(ph_generator_create(&s->generator, t->device, 0));
    PH_TRY(ph_graph_create(&s->graph, NULL));
    PH_TRY(ph_tensor_create(&s->context, t->device, PH_DTYPE_I32, PH_SHAPE(1, t->shape.time)));
    return ph_tensor_create_pinned(&s->drawn, t->device, PH_DTYPE_I32, PH_SHAPE(1, 1));
}

void sampler_destroy(sampler *s)
{
    ph_graph_destroy(s->graph);
    ph_tensor_release(s->context);
    ph_tensor_release(s->drawn);
    ph_generator_release(s->generator);
    *s = (sampler){0};
}

/* The first of competing exponential clocks rings with a probability in proportion to its rate: the
 * largest logit / temperature - log(E), E exponential, is a draw from their softmax. */
static ph_status draw_step(ph_stream *stream, void *user)
{
    sampler *s = user;
    const trainer *t = s->trainer;
    ph_tape *tape = t->tape;
    (void)stream;
    ph_tensor *all = ph_call(tape, t->model, s->context);
    ph_tensor *last = ph_slice(tape, ph_select(tape, all, 1, -1), -1, 0, t->shape.vocabulary);
    last = ph_mul_scalar(tape, ph_cast(tape, last, PH_DTYPE_F32), 1 / s->temperature);
    ph_tensor *clocks = ph_exponential(tape, PH_DTYPE_F32, PH_SHAPE(1, t->shape.vocabulary), 1);
    ph_tensor *next = ph_argmax(tape, ph_sub(tape, last, ph_log(tape, clocks)), -1, true);
    next = ph_cast(tape, next, PH_DTYPE_I32);
    ph_tensor *moved[] = {ph_slice(tape, s->context, 1, 1, t->shape.time), next};
    ph_tensor_copy(tape, s->drawn, next);
    ph_tensor_copy(tape, s->context, ph_concat(tape, moved, 2, 1));
    return ph_tape_clear(tape);
}

static ph_status begin(sampler *s, uint64_t seed)
{
    trainer *t = s->trainer;
    PH_TRY(ph_generator_seed(s->generator, seed));
    int64_t latest = s->text->count - t->shape.time, first = t->held_out.first;
    PH_TRY(ph_tensor_write(t->tape, s->context, s->text->token + (first < latest ? first : latest),
                           ph_tensor_bytes(s->context)));
    return ph_tape_clear(t->tape);
}

static ph_status capture(sampler *s, uint64_t seed)
{
    if (ph_graph_get_state(s->graph) == PH_GRAPH_READY)
        return PH_OK;
    PH_TRY(begin(s, seed));
    PH_TRY(draw_step(s->trainer->stream, s));
    return ph_graph_capture(s->graph, s->trainer->stream, NULL, draw_step, s);
}

static ph_status write_characters(sampler *s, int64_t count, FILE *out, bool show)
{
    ph_stream *stream = s->trainer->stream;
    for (int64_t i = 0; i < count; i++) {
        PH_TRY(ph_graph_replay(s->graph, stream));
        PH_TRY(ph_stream_synchronize(stream));
        (void)fputc(s->text->byte_of[*(const int32_t *)ph_tensor_data(s->drawn)], out);
        if (show)
            (void)fflush(out);
    }
    return PH_OK;
}

ph_status write_sample(sampler *s, int64_t count, uint64_t seed, FILE *out, bool show)
{
    trainer *t = s->trainer;
    bool before = ph_tape_set_grad_enabled(t->tape, false);
    ph_module_train(t->model, false);
    ph_tape_set_generator(t->tape, s->generator);
    ph_status status = capture(s, seed);
    if (status == PH_OK)
        status = begin(s, seed);
    if (status == PH_OK)
        status = write_characters(s, count, out, show);
    ph_tape_set_generator(t->tape, NULL);
    ph_module_train(t->model, true);
    (void)ph_tape_set_grad_enabled(t->tape, before);
    return status;
}
