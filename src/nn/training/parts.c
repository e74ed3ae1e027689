/* SPDX-License-Identifier: MIT */
/* nn/training/parts.c: what each kind of part saves and loads. */
#include "nn/training/parts.h"
#include "base/status.h"
#include "nn/module/state.h"
#include "nn/optimizer/state.h"
#include "nn/schedule/schedule.h"
#include "nn/values/values.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char load_call[] = "ph_training_load";

/* ---- modules ---- */
static ph_status save_module(const ph__training_entry *entry, ph_values *values, const char *path)
{
    (void)values;
    return ph_module_save(entry->object, path);
}

static ph_status begin_module(ph__training_entry *entry, const ph_values *values, const char *path)
{
    ph__module_load *load;
    (void)values;
    PH_TRY(ph__module_load_begin(&load, entry->object, path, true, load_call));
    entry->load = load;
    return PH_OK;
}

static ph_status apply_module(ph__training_entry *entry)
{
    return ph__module_load_apply(entry->load);
}

static void end_module(ph__training_entry *entry)
{
    ph__module_load_end(entry->load);
}

static void drop_module(void *module)
{
    ph_module_release(module);
}

const ph__part_kind ph__part_module = {.name = "module",
                                       .tensors = true,
                                       .save = save_module,
                                       .begin = begin_module,
                                       .apply = apply_module,
                                       .end = end_module,
                                       .drop = drop_module};

/* ---- optimizers ---- their files have no learning rate. It is set behind all other parts: a
 * schedule sets the one of its plan, and the caller may have set another one since. */
static void name_of_group(char name[32], const char *what, const ph_optimizer *optimizer,
                          size_t group)
{
    if (group + 1 == ph_optimizer_group_count(optimizer))
        (void)snprintf(name, 32, "%s", what);
    else
        (void)snprintf(name, 32, "%s.%zu", what, group);
}

static int64_t count_group(const ph_optimizer *optimizer, size_t group)
{
    int64_t count = 0;
    for (size_t i = 0; i < ph_optimizer_parameter_count(optimizer); i++)
        count += ph_optimizer_parameter_group(optimizer, i) == group;
    return count;
}

static ph_status save_optimizer(const ph__training_entry *entry, ph_values *values,
                                const char *path)
{
    char name[32];
    for (size_t g = 0; g < ph_optimizer_group_count(entry->object); g++) {
        name_of_group(name, "lr", entry->object, g);
        PH_TRY(ph_values_set_real(values, name, ph_optimizer_group_lr(entry->object, g)));
        name_of_group(name, "parameters", entry->object, g);
        PH_TRY(ph_values_set_integer(values, name, count_group(entry->object, g)));
    }
    return ph_optimizer_save(entry->object, path);
}

/* A rate belongs to the parameters of its group. */
static ph_status check_saved_groups(const ph__training_entry *entry, const ph_values *values)
{
    char name[32];
    size_t groups = ph_optimizer_group_count(entry->object), saved = 0;
    do
        (void)snprintf(name, sizeof name, "lr.%zu", saved++);
    while (ph__values_find(values, name));
    if (saved != groups)
        return ph_fail(PH_ERROR_MISMATCH,
                       "%s: optimizer '%s' was saved with %zu groups, and has %zu; nothing was "
                       "loaded; make its groups as they were",
                       load_call, entry->name, saved, groups);
    for (size_t g = 0; g < groups; g++) {
        int64_t count, own = count_group(entry->object, g);
        name_of_group(name, "parameters", entry->object, g);
        if (!ph__values_find(values, name)) /* a state of 0.1.0 */
            continue;
        PH_TRY(ph_values_get_integer(&count, values, name));
        if (count != own)
            return ph_fail(PH_ERROR_MISMATCH,
                           "%s: optimizer '%s' was saved with %" PRId64 " parameters in group "
                           "%zu, and has %" PRId64 " there; nothing was loaded; make its groups "
                           "as they were",
                           load_call, entry->name, count, g, own);
    }
    return PH_OK;
}

static ph_status begin_optimizer(ph__training_entry *entry, const ph_values *values,
                                 const char *path)
{
    ph__optimizer_load *load;
    char name[32];
    PH_TRY(check_saved_groups(entry, values));
    for (size_t g = 0; g < ph_optimizer_group_count(entry->object); g++) {
        double lr;
        name_of_group(name, "lr", entry->object, g);
        PH_TRY(ph_values_get_real(&lr, values, name));
        if (!(lr >= 0) || !isfinite(lr))
            return ph_fail(PH_ERROR_ARGUMENT, "%s: the learning rate of '%s' is %g", load_call,
                           entry->name, lr);
    }
    PH_TRY(ph__optimizer_load_begin(&load, entry->object, NULL, path, load_call));
    entry->load = load;
    return PH_OK;
}

static ph_status set_saved_rates(ph__training_entry *entry)
{
    char name[32];
    for (size_t g = 0; g < ph_optimizer_group_count(entry->object); g++) {
        double lr;
        name_of_group(name, "lr", entry->object, g);
        PH_TRY(ph_values_get_real(&lr, entry->values, name));
        PH_TRY(ph_optimizer_group_set_lr(entry->object, g, lr));
    }
    return PH_OK;
}

/* First contents of states may be the rate. */
static ph_status apply_optimizer(ph__training_entry *entry)
{
    PH_TRY(set_saved_rates(entry));
    return ph__optimizer_load_apply(entry->load);
}

static void end_optimizer(ph__training_entry *entry)
{
    ph__optimizer_load_end(entry->load);
}

static void drop_optimizer(void *optimizer)
{
    ph_optimizer_destroy(optimizer);
}

const ph__part_kind ph__part_optimizer = {.name = "optimizer",
                                          .tensors = true,
                                          .save = save_optimizer,
                                          .begin = begin_optimizer,
                                          .apply = apply_optimizer,
                                          .finish = set_saved_rates,
                                          .end = end_optimizer,
                                          .drop = drop_optimizer};

/* ---- parts that are values alone ---- */
static void end_nothing(ph__training_entry *entry)
{
    (void)entry;
}

ph_status ph__part_set_bits(ph_values *values, const char *name, uint64_t bits)
{
    char text[32];
    (void)snprintf(text, sizeof text, "0x%" PRIx64, bits);
    return ph_values_set_text(values, name, text);
}

ph_status ph__part_get_bits(uint64_t *out, const ph_values *values, const char *name)
{
    const char *text;
    char same[32];
    PH_TRY(ph_values_get_text(&text, values, name));
    if (sscanf(text, "0x%" SCNx64, out) == 1) {
        (void)snprintf(same, sizeof same, "0x%" PRIx64, *out);
        if (strcmp(same, text) == 0)
            return PH_OK;
    }
    return ph_fail(PH_ERROR_ARGUMENT, "%s: %s is '%s', and must be 64 bits such as 0x1f", load_call,
                   name, text);
}

static ph_status save_generator(const ph__training_entry *entry, ph_values *values,
                                const char *path)
{
    uint64_t offset;
    (void)path;
    PH_TRY(ph_generator_get_offset(&offset, entry->object));
    PH_TRY(ph__part_set_bits(values, "seed", ph_generator_get_seed(entry->object)));
    return ph__part_set_bits(values, "offset", offset);
}

/* A capture that is open and has drawn holds the state: get_offset is refused then as set_state
 * would be. */
static ph_status begin_generator(ph__training_entry *entry, const ph_values *values,
                                 const char *path)
{
    uint64_t seed, offset, now;
    (void)path;
    PH_TRY(ph__part_get_bits(&seed, values, "seed"));
    PH_TRY(ph__part_get_bits(&offset, values, "offset"));
    if (offset % 4 != 0)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: the offset of '%s' is %" PRIu64 ", and must be a multiple of 4",
                       load_call, entry->name, offset);
    return ph_generator_get_offset(&now, entry->object);
}

static ph_status apply_generator(ph__training_entry *entry)
{
    uint64_t part[2];
    unsigned char bytes[16];
    PH_TRY(ph__part_get_bits(&part[0], entry->values, "seed"));
    PH_TRY(ph__part_get_bits(&part[1], entry->values, "offset"));
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(part[i / 8] >> 8 * (i % 8));
    return ph_generator_set_state(entry->object, bytes, sizeof bytes);
}

static void drop_generator(void *generator)
{
    ph_generator_release(generator);
}

const ph__part_kind ph__part_generator = {.name = "generator",
                                          .save = save_generator,
                                          .begin = begin_generator,
                                          .apply = apply_generator,
                                          .end = end_nothing,
                                          .drop = drop_generator};

static ph_status save_lr_schedule(const ph__training_entry *entry, ph_values *values,
                                  const char *path)
{
    (void)path;
    return ph_lr_schedule_save(entry->object, values);
}

static ph_status begin_lr_schedule(ph__training_entry *entry, const ph_values *values,
                                   const char *path)
{
    (void)path;
    return ph__lr_schedule_check(entry->object, values);
}

static ph_status apply_lr_schedule(ph__training_entry *entry)
{
    return ph_lr_schedule_load(entry->object, entry->values);
}

const ph__part_kind ph__part_lr_schedule = {.name = "lr_schedule",
                                            .save = save_lr_schedule,
                                            .begin = begin_lr_schedule,
                                            .apply = apply_lr_schedule,
                                            .end = end_nothing};

static ph_status save_integer(const ph__training_entry *entry, ph_values *values, const char *path)
{
    (void)path;
    return ph_values_set_integer(values, "value", *(const int64_t *)entry->object);
}

static ph_status begin_integer(ph__training_entry *entry, const ph_values *values, const char *path)
{
    int64_t value;
    (void)entry;
    (void)path;
    return ph_values_get_integer(&value, values, "value");
}

static ph_status apply_integer(ph__training_entry *entry)
{
    return ph_values_get_integer(entry->object, entry->values, "value");
}

const ph__part_kind ph__part_integer = {.name = "integer",
                                        .save = save_integer,
                                        .begin = begin_integer,
                                        .apply = apply_integer,
                                        .end = end_nothing};

static ph_status save_real(const ph__training_entry *entry, ph_values *values, const char *path)
{
    (void)path;
    return ph_values_set_real(values, "value", *(const double *)entry->object);
}

static ph_status begin_real(ph__training_entry *entry, const ph_values *values, const char *path)
{
    double value;
    (void)entry;
    (void)path;
    return ph_values_get_real(&value, values, "value");
}

static ph_status apply_real(ph__training_entry *entry)
{
    return ph_values_get_real(entry->object, entry->values, "value");
}

const ph__part_kind ph__part_real = {.name = "real",
                                     .save = save_real,
                                     .begin = begin_real,
                                     .apply = apply_real,
                                     .end = end_nothing};

static ph_status save_user(const ph__training_entry *entry, ph_values *values, const char *path)
{
    (void)path;
    return entry->functions.save(values, entry->object);
}

static ph_status begin_user(ph__training_entry *entry, const ph_values *values, const char *path)
{
    (void)path;
    return entry->functions.check(values, entry->object);
}

static ph_status apply_user(ph__training_entry *entry)
{
    return entry->functions.load(entry->values, entry->object);
}

const ph__part_kind ph__part_user = {.name = "values",
                                     .save = save_user,
                                     .begin = begin_user,
                                     .apply = apply_user,
                                     .end = end_nothing};
