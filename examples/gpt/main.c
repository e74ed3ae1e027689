/* SPDX-License-Identifier: MIT */
/* gpt/main.c: a small GPT-2-shaped model learns to write what it reads, a character at a time;
 * the whole training step is one graph, and so is a step of writing. */
#include "state.h"
#include <stdlib.h>

static bool count_parameter(const char *name, ph_tensor *x, void *user)
{
    (void)name;
    *(int64_t *)user += ph_tensor_count(x);
    return true;
}

/* Where the time of a step goes, and whether the graph is worth it. Measuring takes some more
 * steps. */
static ph_status write_record(trainer *t, const char *path)
{
    ph_profile *profile;
    if (ph_graph_get_state(t->graph) != PH_GRAPH_READY)
        return ph_fail(PH_ERROR_STATE, "--record: the step is captured behind three eager ones");
    PH_TRY(ph_graph_profile(&profile, t->graph, t->stream, NULL));
    ph_verdict verdict;
    const ph_verdict_options few = {.rounds = 5};
    ph_status status = ph_graph_verdict(&verdict, t->graph, t->stream, train_step, t, &few);
    if (status == PH_OK)
        status = ph_profile_dump_record(profile, t->graph, path);
    ph_profile_destroy(profile);
    return status;
}

static ph_status make(run *r, ph_device *device, const corpus *text)
{
    const options *o = r->options;
    const model_shape shape = {text->vocabulary, o->time,   o->width,
                               o->heads,         o->layers, o->dropout};
    const trainer_options how = {.batch = o->batch,
                                 .steps = o->steps,
                                 .rate = o->rate,
                                 .scale = o->scale,
                                 .seed = o->seed,
                                 .autocast.dtype = o->f16    ? PH_DTYPE_F16
                                                   : o->bf16 ? PH_DTYPE_BF16
                                                             : (ph_dtype)0};
    PH_TRY(trainer_create(&r->trainer, device, text, &shape, &how));
    ph_module_parameters(r->trainer.model, count_parameter, &r->parameters);
    (void)fprintf(stderr, "%lld parameters, %lld characters of %d kinds in %lld files\n",
                  (long long)r->parameters, (long long)text->count, (int)text->vocabulary,
                  (long long)text->files);
    PH_TRY(
        sampler_create(&r->sampler, &r->trainer, text, o->temperature > 0 ? o->temperature : 1e-3));
    PH_TRY(state_open(r));
    return log_open(&r->log, o->log);
}

/* The results that are asked for. */
static ph_status write_results(run *r, const corpus *text)
{
    const options *o = r->options;
    (void)fprintf(stderr, "loss %.3f at first, %.3f now\n\n", r->first, r->last);
    PH_TRY(write_sample(&r->sampler, o->sample, o->seed, stdout, true));
    (void)putchar('\n');
    if (o->save)
        PH_TRY(ph_module_save(r->trainer.model, o->save));
    if (o->report)
        PH_TRY(report_write(r, text, o->report));
    return o->record ? write_record(&r->trainer, o->record) : PH_OK;
}

static ph_status run_all(run *r, ph_device *device, const corpus *text)
{
    ph_status status = make(r, device, text);
    if (status == PH_OK)
        status = run_training(r);
    if (status == PH_OK && r->log.count > 0)
        r->last = r->log.rows[r->log.count - 1].loss;
    if (status == PH_OK)
        status = write_results(r, text);
    ph_status closed = log_close(&r->log);
    for (int i = 0; i < SAMPLES; i++)
        free(r->samples[i]);
    state_close(r);
    sampler_destroy(&r->sampler);
    trainer_destroy(&r->trainer);
    return status == PH_OK ? closed : status;
}

static ph_status begin(options *o, ph_device **device, corpus *text)
{
    ph_device_info info;
    PH_TRY(text_load(text, o->path));
    PH_TRY(ph_device_open(device, o->device, NULL));
    PH_TRY(ph_device_get_info(&info, *device));
    set_sizes(o, info.kind != PH_DEVICE_HOST);
    (void)fprintf(stderr, "on %s%s\n", info.description,
                  o->f16    ? ", in f16"
                  : o->bf16 ? ", in bf16"
                            : "");
    return text->count > 2 * o->time
               ? PH_OK
               : ph_fail(PH_ERROR_ARGUMENT, "%s has %lld characters, which is too few", o->path,
                         (long long)text->count);
}

int main(int argc, char **argv)
{
    options o = {.device = "auto",
                 .path = GPT_TEXT,
                 .sample = 600,
                 .rate = 1e-3,
                 .temperature = 0.8,
                 .seed = 1};
    int over = parse_options(&o, argc, argv);
    if (over >= 0)
        return over;
    ph_device *device = NULL;
    corpus text = {0};
    run r = {.options = &o};
    ph_status status = begin(&o, &device, &text);
    if (status == PH_OK)
        status = run_all(&r, device, &text);
    bool learnt = r.last < r.first - 0.5;
    if (status != PH_OK)
        (void)fprintf(stderr, "gpt: %s: %s\n", ph_status_name(status), ph_error_last()->message);
    else if (!learnt)
        (void)fputs("gpt: its loss has not fallen by 0.5: it has learnt too little\n", stderr);
    ph_device_release(device);
    text_free(&text);
    return status == PH_OK && learnt ? 0 : 1;
}
