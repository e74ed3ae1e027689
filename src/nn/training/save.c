/* SPDX-License-Identifier: MIT */
/* nn/training/save.c: a new state: made in a folder without a number, synced, and renamed. */
#include "base/alloc.h"
#include "base/status.h"
#include "base/text_file.h"
#include "base/unwind.h"
#include "nn/training/folder.h"
#include "nn/training/manifest.h"
#include <errno.h>
#include <phonograph/log.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char call[] = "ph_training_save";

typedef struct saving {
    const ph_training *training;
    ph__manifest manifest;
    char *unnamed, *named; /* the folder before and behind the rename */
    char *removing;
    bool made, renamed;
} saving;

static ph_status fail_names(void)
{
    return ph__fail_host_memory(call, "the names of folders");
}

/* ---- the parts ---- */
static ph_status note_size(ph__manifest_part *part, const char *path)
{
    struct stat there;
    if (stat(path, &there) != 0)
        return ph__folder_fail(call, "read", path);
    part->bytes = (uint64_t)there.st_size;
    return PH_OK;
}

static ph_status save_file(const ph__training_entry *entry, ph__manifest_part *part,
                           const char *folder)
{
    char *path = ph__manifest_path(folder, entry->name);
    if (!path)
        return fail_names();
    ph_status status = entry->kind->save(entry, part->values, path);
    if (status == PH_OK)
        status = note_size(part, path);
    ph__free(path);
    return status;
}

static ph_status save_part(saving *s, const ph__training_entry *entry)
{
    PH_TRY(ph__manifest_add(&s->manifest, entry, call));
    ph__manifest_part *part = &s->manifest.parts.at[s->manifest.parts.count - 1];
    ph_status status = entry->kind->tensors ? save_file(entry, part, s->unnamed)
                                            : entry->kind->save(entry, part->values, NULL);
    if (status != PH_OK)
        ph__error_prefix("%s: part '%s'", call, entry->name);
    return status;
}

static ph_status save_parts(saving *s)
{
    const ph_training *training = s->training;
    if (mkdir(s->unnamed, 0777) != 0)
        return ph__folder_fail(call, "make", s->unnamed);
    s->made = true;
    for (size_t i = 0; i < training->entries.count; i++)
        PH_TRY(save_part(s, &training->entries.at[i]));
    PH_TRY(ph__manifest_write(&s->manifest, s->unnamed, call));
    return ph__folder_sync(s->unnamed, call);
}

/* ---- the name ---- */
static ph_status write_latest(const saving *s)
{
    char number[PH__TRAINING_NUMBER],
        *path = ph__folder_join(s->training->folder, PH__TRAINING_LATEST);
    ph__text text = {.at = NULL};
    ph__folder_number(number, s->manifest.number);
    ph__text_format(&text, "%s\n", number);
    ph_status status = path ? ph__text_write_file(&text, path, call) : fail_names();
    ph__text_free(&text);
    ph__free(path);
    return status;
}

static ph_status put_in_place(saving *s)
{
    if (rename(s->unnamed, s->named) != 0)
        return ph__folder_fail(call, "rename", s->unnamed);
    s->renamed = true;
    PH_TRY(ph__folder_sync(s->training->folder, call));
    return write_latest(s);
}

/* ---- older ones ---- */
static bool is_whole(const char *folder, uint64_t number)
{
    ph__manifest manifest;
    bool whole = ph__manifest_read(&manifest, folder, number, call) == PH_OK;
    ph__manifest_free(&manifest);
    return whole;
}

/* Without its number first: a removal that is cut short leaves no half state. */
static ph_status remove_state(const saving *s, const char *path)
{
    if (rename(path, s->removing) != 0)
        return ph__folder_fail(call, "rename", path);
    return ph__folder_remove(s->removing, call);
}

static ph_status remove_older(const saving *s, ph__folder_numbers *numbers)
{
    size_t whole = 0;
    PH_TRY(ph__folder_list(numbers, s->training->folder, call));
    for (size_t i = 0; i < numbers->count; i++) {
        char name[PH__TRAINING_NUMBER];
        ph__folder_number(name, numbers->at[i]);
        char *path = ph__folder_join(s->training->folder, name);
        if (!path)
            return fail_names();
        ph_status status = PH_OK;
        if (whole >= s->training->keep)
            status = remove_state(s, path);
        else
            whole += is_whole(path, numbers->at[i]);
        ph__free(path);
        PH_TRY(status);
    }
    return PH_OK;
}

/* The new state is there, and its call a success: load finds it without "latest" too. */
static void remove_old_states(const saving *s)
{
    ph_error before;
    ph__folder_numbers numbers = {.at = NULL};
    ph__error_save(&before);
    ph_status status = ph__folder_sync(s->training->folder, call);
    if (status == PH_OK && s->training->keep != SIZE_MAX)
        status = remove_older(s, &numbers);
    if (status != PH_OK)
        ph_log_write(PH_LOG_WARNING, ph_error_last()->message);
    ph__error_restore(&before);
    ph__vec_free(&numbers);
}

/* ---- the whole ---- */
static ph_status next_number(uint64_t *out, const char *folder)
{
    ph__folder_numbers numbers = {.at = NULL};
    uint64_t latest;
    ph_status status = ph__folder_latest(&latest, folder, call);
    if (status == PH_OK)
        status = ph__folder_list(&numbers, folder, call);
    if (status == PH_OK) {
        uint64_t newest = numbers.count > 0 ? numbers.at[0] : 0;
        *out = (newest > latest ? newest : latest) + 1;
    }
    ph__vec_free(&numbers);
    return status;
}

static ph_status prepare_save(saving *s)
{
    const char *folder = s->training->folder;
    char number[PH__TRAINING_NUMBER];
    PH_TRY(ph__folder_clear(folder, call));
    PH_TRY(next_number(&s->manifest.number, folder));
    ph__folder_number(number, s->manifest.number);
    s->unnamed = ph__folder_join(folder, PH__TRAINING_SAVING);
    s->named = ph__folder_join(folder, number);
    s->removing = ph__folder_join(folder, PH__TRAINING_REMOVING);
    return s->unnamed && s->named && s->removing ? PH_OK : fail_names();
}

/* Also where a function of the caller's did not return. Keeps the record: the cause is there. */
static void end_saving(void *what)
{
    saving *s = what;
    ph__manifest_free(&s->manifest);
    ph__free(s->unnamed);
    ph__free(s->named);
    ph__free(s->removing);
}

static void undo_save(saving *s)
{
    ph_error cause;
    ph__error_save(&cause);
    if (s->renamed)
        ph_ignore(remove_state(s, s->named));
    else if (s->made)
        ph_ignore(ph__folder_remove(s->unnamed, call));
    ph__error_restore(&cause);
}

static void abandon_save(void *what)
{
    undo_save(what);
    end_saving(what);
}

static ph_status check_training(const ph_training *training)
{
    if (!training)
        return ph__fail_null(call, "training");
    if (training->read_only)
        return ph_fail(PH_ERROR_STATE, "%s: %s was opened read_only", call, training->folder);
    if (training->owner != getpid())
        return ph_fail(PH_ERROR_STATE,
                       "%s: the lock of %s is that of the process that forked this one", call,
                       training->folder);
    if (training->entries.count == 0)
        return ph_fail(PH_ERROR_STATE,
                       "%s: the training has no parts; ph_training_add_module and the like add "
                       "them",
                       call);
    return PH_OK;
}

ph_status ph_training_save(ph_training *training, uint64_t *number)
{
    saving s = {.training = training};
    PH_TRY(check_training(training));
    PH__UNWIND unwind = {abandon_save, &s};
    ph_status status = prepare_save(&s);
    if (status == PH_OK)
        status = save_parts(&s);
    if (status == PH_OK)
        status = put_in_place(&s);
    if (status == PH_OK)
        remove_old_states(&s);
    else
        undo_save(&s);
    if (status == PH_OK && number)
        *number = s.manifest.number;
    unwind.undo = NULL;
    end_saving(&s);
    return status;
}
