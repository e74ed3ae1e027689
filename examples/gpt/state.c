/* SPDX-License-Identifier: MIT */
/* gpt/state.c: what goes into a saved state, and comes back. */
#include "state.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the loader ---- */
static const struct {
    const char *name;
    size_t offset;
} members[] = {{"epoch", offsetof(ph_data_loader_position, epoch)},
               {"batch", offsetof(ph_data_loader_position, batch)},
               {"seed", offsetof(ph_data_loader_position, seed)},
               {"count", offsetof(ph_data_loader_position, count)},
               {"batch_size", offsetof(ph_data_loader_position, batch_size)},
               {"world", offsetof(ph_data_loader_position, world)},
               {"shuffle", offsetof(ph_data_loader_position, shuffle)},
               {"drop_last", offsetof(ph_data_loader_position, drop_last)}};
enum {
    MEMBERS = sizeof members / sizeof members[0]
};

static ph_status save_loader(ph_values *values, void *self)
{
    ph_data_loader_position position;
    PH_TRY(ph_data_loader_get_position(&position, self));
    for (size_t i = 0; i < MEMBERS; i++) {
        uint64_t value;
        memcpy(&value, (const char *)&position + members[i].offset, sizeof value);
        PH_TRY(ph_values_set_integer(values, members[i].name, (int64_t)value));
    }
    return PH_OK;
}

static ph_status read_position(ph_data_loader_position *out, const ph_values *values)
{
    *out = (ph_data_loader_position){0};
    for (size_t i = 0; i < MEMBERS; i++) {
        int64_t value;
        PH_TRY(ph_values_get_integer(&value, values, members[i].name));
        memcpy((char *)out + members[i].offset, &value, sizeof value);
    }
    return PH_OK;
}

/* Where the text or the batch is another one, the batches would be. */
static ph_status check_loader(const ph_values *values, void *self)
{
    ph_data_loader_position saved, own;
    PH_TRY(read_position(&saved, values));
    PH_TRY(ph_data_loader_get_position(&own, self));
    if (saved.count == own.count && saved.batch_size == own.batch_size && saved.seed == own.seed)
        return PH_OK;
    return ph_fail(PH_ERROR_MISMATCH,
                   "the state is of a training on %" PRIu64 " stretches of text, %" PRIu64
                   " a step, with seed %" PRIu64 "; this one has %" PRIu64 ", %" PRIu64
                   ", %" PRIu64,
                   saved.count, saved.batch_size, saved.seed, own.count, own.batch_size, own.seed);
}

static ph_status load_loader(const ph_values *values, void *self)
{
    ph_data_loader_position position;
    PH_TRY(read_position(&position, values));
    return ph_data_loader_set_position(self, &position);
}

/* ---- settings ---- that no tensor's shape tells: with others the same state goes on as another
 * training. */
enum {
    SETTINGS = 6
};
typedef struct settings {
    struct {
        const char *name;
        double value;
    } at[SETTINGS];
} settings;

static settings settings_of(const run *r)
{
    const options *o = r->options;
    return (settings){{{"steps", (double)o->steps},
                       {"rate", o->rate},
                       {"heads", (double)o->heads},
                       {"dropout", o->dropout},
                       {"bf16", o->bf16},
                       {"text", (double)text_checksum(r->trainer.train.text)}}};
}

static ph_status save_settings(ph_values *values, const run *r)
{
    settings own = settings_of(r);
    for (int i = 0; i < SETTINGS; i++)
        PH_TRY(ph_values_set_real(values, own.at[i].name, own.at[i].value));
    return PH_OK;
}

static ph_status check_settings(const ph_values *values, const run *r)
{
    settings own = settings_of(r);
    for (int i = 0; i < SETTINGS; i++) {
        double saved;
        PH_TRY(ph_values_get_real(&saved, values, own.at[i].name));
        if (saved != own.at[i].value)
            return ph_fail(PH_ERROR_MISMATCH,
                           "the state is of a training with %s %.12g, and this one has %.12g",
                           own.at[i].name, saved, own.at[i].value);
    }
    return PH_OK;
}

/* ---- log and samples ---- Bytes of samples need not be UTF-8: two hexadecimal digits each. */
static ph_status save_text(ph_values *values, const char *name, char *text)
{
    ph_status status = text ? ph_values_set_text(values, name, text)
                            : ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the state");
    free(text);
    return status;
}

static ph_status save_sample(ph_values *values, const run *r, int i)
{
    char name[16];
    size_t length = strlen(r->samples[i]);
    char *text = malloc(2 * length + 1);
    for (size_t k = 0; text && k <= length; k++)
        (void)snprintf(text + 2 * k, k < length ? 3 : 1, "%02x", (unsigned char)r->samples[i][k]);
    (void)snprintf(name, sizeof name, "sample%d", i);
    PH_TRY(save_text(values, name, text));
    (void)snprintf(name, sizeof name, "steps%d", i);
    return ph_values_set_integer(values, name, r->sample_steps[i]);
}

static ph_status save_progress(ph_values *values, void *self)
{
    const run *r = self;
    char *rows = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&rows, &bytes);
    for (size_t i = 0; out && i < r->log.count; i++) {
        const log_row *row = &r->log.rows[i];
        (void)fprintf(out, "%" PRId64 " %" PRIu64 " %a %a %a %a %" PRIu64 " %a\n", row->step,
                      row->epoch, row->loss, row->validation, row->rate, row->scale, row->skipped,
                      row->step_ms);
    }
    if (out && fclose(out) != 0) {
        free(rows);
        rows = NULL;
    }
    PH_TRY(save_text(values, "rows", rows));
    for (int i = 0; i < SAMPLES; i++)
        if (r->samples[i])
            PH_TRY(save_sample(values, r, i));
    return save_settings(values, r);
}

static ph_status check_progress(const ph_values *values, void *self)
{
    const char *rows;
    PH_TRY(ph_values_get_text(&rows, values, "rows"));
    return check_settings(values, self);
}

static ph_status load_sample(const ph_values *values, run *r, int i)
{
    char name[16];
    const char *text;
    (void)snprintf(name, sizeof name, "sample%d", i);
    if (ph_values_get_text(&text, values, name) != PH_OK)
        return PH_OK;
    size_t length = strlen(text) / 2;
    char *bytes = calloc(length + 1, 1);
    if (!bytes)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for a sample");
    for (size_t k = 0; k < length; k++)
        bytes[k] = (char)strtol((const char[]){text[2 * k], text[2 * k + 1], '\0'}, NULL, 16);
    r->samples[i] = bytes;
    (void)snprintf(name, sizeof name, "steps%d", i);
    return ph_values_get_integer(&r->sample_steps[i], values, name);
}

static ph_status load_progress(const ph_values *values, void *self)
{
    run *r = self;
    const char *rows;
    int read = 0;
    log_row row;
    PH_TRY(ph_values_get_text(&rows, values, "rows"));
    for (; sscanf(rows, "%" SCNd64 " %" SCNu64 " %la %la %la %la %" SCNu64 " %la\n%n", &row.step,
                  &row.epoch, &row.loss, &row.validation, &row.rate, &row.scale, &row.skipped,
                  &row.step_ms, &read) == 8;
         rows += read)
        PH_TRY(log_add(&r->log, &row));
    for (int i = 0; i < SAMPLES; i++)
        PH_TRY(load_sample(values, r, i));
    r->first = r->log.count ? r->log.rows[0].loss : 0;
    return PH_OK;
}

/* ---- the folder ---- */
static ph_status add_generator(run *r)
{
    ph_generator *generator;
    PH_TRY(ph_generator_default(&generator, r->trainer.device));
    ph_status status = ph_training_add_generator(r->training, "generator", generator);
    ph_generator_release(generator);
    return status;
}

static ph_status add_parts(run *r)
{
    static const ph_training_part loader = {save_loader, check_loader, load_loader};
    static const ph_training_part progress = {save_progress, check_progress, load_progress};
    PH_TRY(ph_training_add_module(r->training, "model", r->trainer.model));
    PH_TRY(ph_training_add_optimizer(r->training, "optimizer", r->trainer.optimizer));
    PH_TRY(ph_training_add_lr_schedule(r->training, "schedule", r->trainer.schedule));
    if (r->options->f16)
        PH_TRY(ph_training_add_grad_scaler(r->training, "scaler", r->trainer.scaler));
    PH_TRY(add_generator(r));
    PH_TRY(ph_training_add(r->training, "loader", &loader, r->trainer.loader));
    PH_TRY(ph_training_add(r->training, "progress", &progress, r));
    return ph_training_add_integer(r->training, "step", &r->made);
}

static ph_status begin_anew(run *r)
{
    FILE *latest;
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/latest", r->options->state);
    latest = fopen(path, "r");
    if (!latest)
        return PH_OK;
    (void)fclose(latest);
    return ph_fail(PH_ERROR_STATE,
                   "%s has the state of a training; --resume goes on with it, or name another "
                   "folder",
                   r->options->state);
}

ph_status state_open(run *r)
{
    if (!r->options->state)
        return PH_OK;
    PH_TRY(ph_training_create(&r->training, r->options->state, NULL));
    PH_TRY(add_parts(r));
    if (!r->options->resume)
        return begin_anew(r);
    ph_status status = ph_training_load(r->training, 0, NULL);
    if (status == PH_OK)
        (void)fprintf(stderr, "goes on behind step %" PRId64 "\n", r->made);
    return status == PH_ERROR_NOT_FOUND ? PH_OK : status;
}

ph_status state_save(run *r)
{
    return r->training ? ph_training_save(r->training, NULL) : PH_OK;
}

void state_close(run *r)
{
    ph_training_destroy(r->training);
    r->training = NULL;
}
