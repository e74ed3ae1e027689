/* SPDX-License-Identifier: MIT */
/* gpt/run.c: the steps of a training in their order, and what is looked at between them. */
#include "state.h"
#include <math.h>
#include <stdlib.h>
#include <time.h>

enum {
    WARM_UP = 3, /* eager steps before the capture */
    BAR = 24,
    ROWS = 100,       /* of the log */
    VALIDATIONS = 20, /* of them have one */
    STATES = 10,      /* and a state is saved with */
    SAMPLE = 240      /* characters of those on the way */
};

double now_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Eager steps first, also of a run that goes on: compiling kernels, choosing products and making
 * the optimizer's state have no place in a graph. */
static ph_status make_step(run *r, int64_t step, uint64_t *epoch)
{
    trainer *t = &r->trainer;
    const options *o = r->options;
    const ph_capture_options how = {.enable_annotations = o->record != NULL};
    PH_TRY(next_batch(t, epoch));
    if (step - r->begun_at < WARM_UP || o->eager)
        return train_step(t->stream, t);
    if (step - r->begun_at == WARM_UP)
        PH_TRY(ph_graph_capture(t->graph, t->stream, &how, train_step, t));
    return ph_graph_replay(t->graph, t->stream);
}

/* ---- progress ---- */
static void show(const run *r, const log_row *row, double tokens)
{
    const options *o = r->options;
    char bar[BAR + 1];
    int full = (int)(BAR * row->step / o->steps);
    for (int i = 0; i < BAR; i++)
        bar[i] = i < full ? '#' : '.';
    bar[BAR] = '\0';
    double gone = now_seconds() - r->begun;
    double each = gone / (double)(row->step - r->begun_at);
    long long left = (long long)(each * (double)(o->steps - row->step) + 0.5);
    (void)fprintf(stderr, "\r[%s] %lld/%lld  loss %.3f", bar, (long long)row->step,
                  (long long)o->steps, row->loss);
    if (!isnan(row->validation))
        (void)fprintf(stderr, ", held out %.3f", row->validation);
    (void)fprintf(stderr, "  %.0f tokens/s  %lld:%02lld left ", tokens, left / 60, left % 60);
    (void)fflush(stderr);
}

/* ---- samples ---- */
static ph_status keep_sample(run *r, int number, int64_t steps)
{
    size_t bytes = 0;
    FILE *out = open_memstream(&r->samples[number], &bytes);
    if (!out)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for a sample");
    ph_status status = write_sample(&r->sampler, SAMPLE, r->options->seed, out, false);
    if (fclose(out) != 0 && status == PH_OK)
        status = ph_fail(PH_ERROR_HOST_MEMORY, "no memory for a sample");
    r->sample_steps[number] = steps;
    return status;
}

/* Behind each fifth of the way, at the first look from there on. */
static ph_status sample_on_the_way(run *r, int64_t made)
{
    int64_t steps = r->options->steps;
    for (int i = 0; r->options->report && i < SAMPLES; i++)
        if (!r->samples[i] && made >= steps * (i + 1) / SAMPLES)
            PH_TRY(keep_sample(r, i, made));
    return PH_OK;
}

/* ---- looking ---- Rate, loss and scale of the row's step, and the steps skipped up to it. */
static ph_status look_at_step(log_row *row, trainer *t)
{
    uint64_t made = (uint64_t)row->step, counted;
    PH_TRY(ph_tensor_item(&row->loss, t->tape, t->loss));
    PH_TRY(ph_grad_scaler_get_scale(&row->scale, t->tape, t->scaler));
    PH_TRY(ph_optimizer_steps(&counted, t->tape, t->optimizer));
    row->rate = ph_lr_schedule_rate(t->schedule, made - 1);
    row->skipped = made - counted;
    return PH_OK;
}

/* At what `made` steps have come to; the last look was `since` steps ago. */
static ph_status look(run *r, int64_t made, int64_t since, double began, uint64_t epoch)
{
    trainer *t = &r->trainer;
    int64_t steps = r->options->steps;
    int64_t every = steps / VALIDATIONS > 0 ? steps / VALIDATIONS : 1;
    log_row row = {.step = made, .epoch = epoch, .validation = (double)NAN, .step_ms = (double)NAN};
    PH_TRY(look_at_step(&row, t));
    double took = now_seconds() - began;
    if (made - since > r->begun_at + WARM_UP)
        row.step_ms = took * 1e3 / (double)since;
    if (made % every < since || made == steps)
        PH_TRY(validate(t, &row.validation));
    r->last = row.loss;
    if (r->log.count == 0)
        r->first = row.loss;
    if (!r->options->quiet)
        show(r, &row, (double)(since * t->batch * t->shape.time) / took);
    return log_add(&r->log, &row);
}

ph_status run_training(run *r)
{
    const options *o = r->options;
    int64_t every = o->steps / ROWS > 0 ? o->steps / ROWS : 1, since = 0;
    uint64_t epoch = 0;
    double began = r->begun = now_seconds();
    r->begun_at = r->made;
    while (r->made < o->steps) {
        PH_TRY(make_step(r, r->made, &epoch));
        PH_TRY(ph_lr_schedule_step(r->trainer.schedule));
        r->made++;
        since++;
        if (r->made != 1 && r->made % every != 0 && r->made != o->steps)
            continue;
        PH_TRY(look(r, r->made, since, began, epoch));
        PH_TRY(sample_on_the_way(r, r->made));
        if (r->made % (every * ROWS / STATES) == 0 || r->made == o->steps)
            PH_TRY(state_save(r));
        since = 0;
        began = now_seconds();
    }
    if (!o->quiet)
        (void)fputc('\n', stderr);
    return PH_OK;
}
