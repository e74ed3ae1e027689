/* SPDX-License-Identifier: MIT */
/* nn/training/training.c: making trainings, and their lists of parts. */
#include "nn/training/training.h"
#include "base/alloc.h"
#include "base/option.h"
#include "base/status.h"
#include "nn/optimizer/optimizer.h"
#include "nn/training/folder.h"
#include "nn/training/part_data_loader.h"
#include "nn/training/part_grad_scaler.h"
#include "nn/training/parts.h"
#include <stdint.h>
#include <string.h>
#include <unistd.h>

enum {
    KEEP = 3,
    MOST_NAME = 64
};

static void free_training(ph_training *training)
{
    for (size_t i = 0; i < training->entries.count; i++) {
        ph__training_entry *entry = &training->entries.at[i];
        if (entry->kind->drop)
            entry->kind->drop(entry->object);
        ph__free(entry->name);
    }
    ph__vec_free(&training->entries);
    if (training->lock >= 0)
        (void)close(training->lock);
    ph__free(training->passed_over);
    ph__free(training->folder);
    ph__free(training);
}

ph_status ph_training_create(ph_training **out, const char *folder,
                             const ph_training_options *options)
{
    static const char call[] = "ph_training_create";
    static const ph_training_options defaults = {.keep = 0};
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!folder)
        return ph__fail_null(call, "folder");
    if (!folder[0])
        return ph_fail(PH_ERROR_ARGUMENT, "%s: the name of the folder is empty", call);
    if (!options)
        options = &defaults;
    if (!PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_training_options");
    ph_training *training = ph__calloc(1, sizeof *training);
    if (!training)
        return ph__fail_host_memory(call, "a training");
    training->lock = -1;
    training->owner = getpid();
    training->read_only = options->read_only;
    training->keep = ph__option_count(options->keep, KEEP);
    training->keep = training->keep ? training->keep : SIZE_MAX;
    training->folder = ph__strdup(folder);
    ph_status status =
        training->folder ? PH_OK : ph__fail_host_memory(call, "the name of a folder");
    if (status == PH_OK && !training->read_only)
        status = ph__folder_lock(&training->lock, folder, call);
    if (status == PH_OK)
        *out = training;
    else
        free_training(training);
    return status;
}

void ph_training_destroy(ph_training *training)
{
    if (training)
        free_training(training);
}

const char *ph_training_passed_over(const ph_training *training)
{
    return training && training->passed_over ? training->passed_over : "";
}

/* ---- parts ---- */
static bool is_name(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    size_t length = strlen(name);
    return length > 0 && length <= MOST_NAME && name[0] != '.' && strspn(name, allowed) == length;
}

static ph_status check_part(const ph_training *training, const char *name, const void *object,
                            const char *what, const char *call)
{
    if (!training)
        return ph__fail_null(call, "training");
    if (!name)
        return ph__fail_null(call, "name");
    if (!object)
        return ph__fail_null(call, what);
    if (!is_name(name))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: '%s' is no name of a part: 1 to %d letters, digits, '_', '-' and '.', "
                       "and no dot at its beginning",
                       call, name, MOST_NAME);
    for (size_t i = 0; i < training->entries.count; i++)
        if (strcmp(training->entries.at[i].name, name) == 0)
            return ph_fail(PH_ERROR_ARGUMENT, "%s: there is a part '%s' already", call, name);
    return PH_OK;
}

static ph_status add_part(ph_training *training, const char *name, const ph__part_kind *kind,
                          void *object, const char *what, const char *call)
{
    PH_TRY(check_part(training, name, object, what, call));
    ph__training_entry entry = {.name = ph__strdup(name), .kind = kind, .object = object};
    if (entry.name && ph__vec_push(&training->entries, entry))
        return PH_OK;
    ph__free(entry.name);
    return ph__fail_host_memory(call, "the list of parts");
}

ph_status ph_training_add_module(ph_training *training, const char *name, ph_module *module)
{
    PH_TRY(add_part(training, name, &ph__part_module, module, "module", "ph_training_add_module"));
    ph_module_retain(module);
    return PH_OK;
}

ph_status ph_training_add_optimizer(ph_training *training, const char *name,
                                    ph_optimizer *optimizer)
{
    PH_TRY(add_part(training, name, &ph__part_optimizer, optimizer, "optimizer",
                    "ph_training_add_optimizer"));
    ph__optimizer_retain(optimizer);
    return PH_OK;
}

ph_status ph_training_add_generator(ph_training *training, const char *name,
                                    ph_generator *generator)
{
    PH_TRY(add_part(training, name, &ph__part_generator, generator, "generator",
                    "ph_training_add_generator"));
    ph_generator_retain(generator);
    return PH_OK;
}

ph_status ph_training_add_lr_schedule(ph_training *training, const char *name,
                                      ph_lr_schedule *schedule)
{
    return add_part(training, name, &ph__part_lr_schedule, schedule, "schedule",
                    "ph_training_add_lr_schedule");
}

ph_status ph_training_add_grad_scaler(ph_training *training, const char *name,
                                      ph_grad_scaler *scaler)
{
    return add_part(training, name, &ph__part_grad_scaler, scaler, "scaler",
                    "ph_training_add_grad_scaler");
}

ph_status ph_training_add_data_loader(ph_training *training, const char *name,
                                      ph_data_loader *loader)
{
    return add_part(training, name, &ph__part_data_loader, loader, "loader",
                    "ph_training_add_data_loader");
}

ph_status ph_training_add_integer(ph_training *training, const char *name, int64_t *value)
{
    return add_part(training, name, &ph__part_integer, value, "value", "ph_training_add_integer");
}

ph_status ph_training_add_real(ph_training *training, const char *name, double *value)
{
    return add_part(training, name, &ph__part_real, value, "value", "ph_training_add_real");
}

ph_status ph_training_add(ph_training *training, const char *name, const ph_training_part *part,
                          void *self)
{
    static const char call[] = "ph_training_add";
    if (!part)
        return ph__fail_null(call, "part");
    if (!part->save || !part->check || !part->load)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: part '%s' has no %s function", call,
                       name ? name : "NULL",
                       !part->save    ? "save"
                       : !part->check ? "check"
                                      : "load");
    PH_TRY(check_part(training, name, part, "part", call));
    ph__training_entry entry = {
        .name = ph__strdup(name), .kind = &ph__part_user, .object = self, .functions = *part};
    if (entry.name && ph__vec_push(&training->entries, entry))
        return PH_OK;
    ph__free(entry.name);
    return ph__fail_host_memory(call, "the list of parts");
}
