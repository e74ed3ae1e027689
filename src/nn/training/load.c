/* SPDX-License-Identifier: MIT */
/* nn/training/load.c: the newest state that is whole: all parts are looked at before the first one
 * changes. */
#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"
#include "base/unwind.h"
#include "nn/training/folder.h"
#include "nn/training/manifest.h"
#include <errno.h>
#include <phonograph/log.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static const char call[] = "ph_training_load";

enum {
    LISTINGS = 10 /* of a folder where somebody saves meanwhile */
};

typedef struct loading {
    ph_training *training;
    ph__folder_numbers numbers;
    ph__text wrong; /* a line for each state that was passed over */
    size_t passed_over;
    /* the state that is looked at */
    ph__manifest manifest;
    char *folder;
    char **paths; /* of the parts' files; NULL: it has none */
} loading;

/* ---- one state ---- */
static const ph__manifest_part *find_part(const ph__manifest *manifest, const char *name)
{
    for (size_t i = 0; i < manifest->parts.count; i++)
        if (strcmp(manifest->parts.at[i].name, name) == 0)
            return &manifest->parts.at[i];
    return NULL;
}

static const ph__training_entry *find_entry(const ph_training *training, const char *name)
{
    for (size_t i = 0; i < training->entries.count; i++)
        if (strcmp(training->entries.at[i].name, name) == 0)
            return &training->entries.at[i];
    return NULL;
}

static void compare_manifest(ph__text *words, const ph_training *training,
                             const ph__manifest *manifest)
{
    for (size_t i = 0; i < training->entries.count; i++) {
        const ph__training_entry *entry = &training->entries.at[i];
        const ph__manifest_part *part = find_part(manifest, entry->name);
        const char *comma = words->length ? ", " : "";
        if (!part)
            ph__text_format(words, "%spart '%s' is missing", comma, entry->name);
        else if (strcmp(part->kind, entry->kind->name) != 0)
            ph__text_format(words, "%spart '%s' is of kind %s and must be of kind %s", comma,
                            entry->name, part->kind, entry->kind->name);
    }
    for (size_t i = 0; i < manifest->parts.count; i++)
        if (!find_entry(training, manifest->parts.at[i].name))
            ph__text_format(words, "%spart '%s' is unexpected", words->length ? ", " : "",
                            manifest->parts.at[i].name);
}

static ph_status check_parts(const loading *l)
{
    ph__text words = {.at = NULL};
    compare_manifest(&words, l->training, &l->manifest);
    bool differs = words.length > 0 || words.failed;
    char *text = ph__text_detach(&words);
    ph_status status = PH_OK;
    if (differs)
        status = text
                     ? ph_fail(PH_ERROR_MISMATCH, "%s: %s does not fit, and nothing was loaded: %s",
                               call, l->folder, text)
                     : ph__fail_host_memory(call, "the list of what does not match");
    ph__free(text);
    return status;
}

/* NOT_FOUND says that nothing was saved yet: a program begins anew then, and its states push out
 * those that are there. */
static ph_status fail_value(ph_status status)
{
    if (status != PH_ERROR_NOT_FOUND)
        return status;
    ph_error cause;
    ph__error_save(&cause);
    return ph_fail(PH_ERROR_MISMATCH, "%s", cause.message);
}

static ph_status begin_part(loading *l, size_t i)
{
    ph__training_entry *entry = &l->training->entries.at[i];
    const ph__manifest_part *part = find_part(&l->manifest, entry->name);
    if (entry->kind->tensors && !(l->paths[i] = ph__manifest_path(l->folder, entry->name)))
        return ph__fail_host_memory(call, "the name of a file");
    entry->values = part->values;
    ph_status status = fail_value(entry->kind->begin(entry, part->values, l->paths[i]));
    entry->begun = status == PH_OK;
    if (status != PH_OK && !entry->kind->tensors) /* else the message has the file */
        ph__error_prefix("%s: part '%s' of %s", call, entry->name, l->folder);
    return status;
}

static void end_state(loading *l)
{
    ph_training *training = l->training;
    for (size_t i = 0; i < training->entries.count; i++) {
        ph__training_entry *entry = &training->entries.at[i];
        if (entry->begun)
            entry->kind->end(entry);
        entry->begun = false;
        entry->values = NULL;
        entry->load = NULL;
        if (l->paths)
            ph__free(l->paths[i]);
    }
    ph__manifest_free(&l->manifest);
    ph__free(l->paths);
    ph__free(l->folder);
    l->paths = NULL;
    l->folder = NULL;
}

/* *damaged: it is not whole, which is no reason to refuse an older one. What does not fit is: the
 * program is another one. */
static ph_status begin_state(loading *l, uint64_t number, bool *damaged)
{
    char name[PH__TRAINING_NUMBER];
    size_t count = l->training->entries.count;
    *damaged = false;
    ph__folder_number(name, number);
    l->folder = ph__folder_join(l->training->folder, name);
    l->paths = ph__calloc(count + 1, sizeof *l->paths);
    if (!l->folder || !l->paths)
        return ph__fail_host_memory(call, "the names of files");
    ph_status status = ph__manifest_read(&l->manifest, l->folder, number, call);
    *damaged = status != PH_OK && status != PH_ERROR_HOST_MEMORY;
    if (status != PH_OK)
        return status;
    PH_TRY(check_parts(l));
    for (size_t i = 0; i < count; i++) {
        status = begin_part(l, i);
        *damaged =
            l->training->entries.at[i].kind->tensors &&
            (status == PH_ERROR_IO || status == PH_ERROR_SIZE || status == PH_ERROR_ARGUMENT);
        PH_TRY(status);
    }
    return PH_OK;
}

/* ---- its parts ---- tensors first: their devices are what can fail. */
static ph_status half_loaded(const loading *l, const ph__training_entry *entry, ph_status status)
{
    ph__error_prefix("%s: part '%s' of %s, when some parts were loaded already", call, entry->name,
                     l->folder);
    return fail_value(status);
}

static ph_status apply_parts(const loading *l, bool tensors)
{
    for (size_t i = 0; i < l->training->entries.count; i++) {
        ph__training_entry *entry = &l->training->entries.at[i];
        ph_status status = entry->kind->tensors == tensors ? entry->kind->apply(entry) : PH_OK;
        if (status != PH_OK)
            return half_loaded(l, entry, status);
    }
    return PH_OK;
}

static ph_status apply_state(const loading *l)
{
    PH_TRY(apply_parts(l, true));
    PH_TRY(apply_parts(l, false));
    for (size_t i = 0; i < l->training->entries.count; i++) {
        ph__training_entry *entry = &l->training->entries.at[i];
        ph_status status = entry->kind->finish ? entry->kind->finish(entry) : PH_OK;
        if (status != PH_OK)
            return half_loaded(l, entry, status);
    }
    return PH_OK;
}

/* ---- which state ---- */
static ph_status pass_over(loading *l, const char *text)
{
    size_t prefix = strlen(call) + 2;
    if (strncmp(text, call, prefix - 2) == 0 && strlen(text) > prefix)
        text += prefix;
    ph__text_format(&l->wrong, "%s%s", l->passed_over++ ? "\n" : "", text);
    return l->wrong.failed ? ph__fail_host_memory(call, "what is wrong with a saved state") : PH_OK;
}

static ph_status note_latest(loading *l)
{
    char text[160], name[PH__TRAINING_NUMBER];
    uint64_t latest;
    ph_status status = ph__folder_latest(&latest, l->training->folder, call);
    if (status != PH_OK)
        return status == PH_ERROR_HOST_MEMORY ? status : pass_over(l, ph_error_last()->message);
    for (size_t i = 0; i < l->numbers.count; i++)
        if (latest == l->numbers.at[i])
            return PH_OK;
    if (latest == 0 || (l->numbers.count > 0 && latest < l->numbers.at[0]))
        return PH_OK;
    ph__folder_number(name, latest);
    (void)snprintf(text, sizeof text, "'latest' names %s, and there is no such state", name);
    return pass_over(l, text);
}

static ph_status fail_none(const loading *l, const ph_error *first)
{
    if (l->passed_over == 0)
        return ph_fail(PH_ERROR_NOT_FOUND, "%s: there is no saved state in %s", call,
                       l->training->folder);
    if (!first->status)
        return ph_fail(PH_ERROR_IO, "%s: there is no saved state in %s, and there was one: %.*s",
                       call, l->training->folder, (int)l->wrong.length, l->wrong.at);
    ph_status status = ph_error_set(first);
    ph__error_prefix("none of %zu saved states is whole; the newest", l->numbers.count);
    return status;
}

/* The newest whole one of those listed is begun. */
static ph_status begin_newest(loading *l, uint64_t *number)
{
    ph_error first = {.status = PH_OK};
    bool damaged;
    PH_TRY(note_latest(l));
    for (size_t i = 0; i < l->numbers.count; i++) {
        ph_status status = begin_state(l, l->numbers.at[i], &damaged);
        if (status == PH_OK) {
            *number = l->numbers.at[i];
            return PH_OK;
        }
        end_state(l);
        if (!damaged)
            return status;
        if (!first.status)
            first = *ph_error_last();
        PH_TRY(pass_over(l, ph_error_last()->message));
    }
    return fail_none(l, &first);
}

static ph_status list_states(loading *l)
{
    const char *folder = l->training->folder;
    struct stat there;
    ph__vec_clear(&l->numbers);
    if (stat(folder, &there) != 0 && errno == ENOENT)
        return PH_OK;
    return ph__folder_list(&l->numbers, folder, call);
}

/* Who saves meanwhile removes old states, and has made newer ones then: those are looked for. */
static ph_status find_newest(loading *l, uint64_t *number)
{
    ph_status status = PH_OK;
    for (int i = 0; i < LISTINGS; i++) {
        PH_TRY(list_states(l));
        uint64_t newest = l->numbers.count > 0 ? l->numbers.at[0] : 0;
        l->passed_over = 0;
        l->wrong.length = 0;
        status = begin_newest(l, number);
        if (l->passed_over == 0 || !l->training->read_only)
            return status;
        ph_error cause;
        ph__error_save(&cause);
        ph_status again = list_states(l);
        bool same = (l->numbers.count > 0 ? l->numbers.at[0] : 0) == newest;
        ph__error_restore(&cause);
        if (again != PH_OK || same)
            return status;
        if (status == PH_OK)
            end_state(l);
    }
    return status;
}

static ph_status find_state(loading *l, uint64_t number, uint64_t *found)
{
    bool damaged;
    if (number == 0)
        return find_newest(l, found);
    *found = number;
    PH_TRY(list_states(l));
    for (size_t i = 0; i < l->numbers.count; i++)
        if (l->numbers.at[i] == number)
            return begin_state(l, number, &damaged);
    return ph_fail(PH_ERROR_NOT_FOUND, "%s: there is no saved state %06llu in %s", call,
                   (unsigned long long)number, l->training->folder);
}

/* ---- the call ---- */
static void warn_of_state(const ph_training *training)
{
    ph__text line = {.at = NULL};
    for (const char *at = ph_training_passed_over(training); *at;) {
        size_t length = strcspn(at, "\n");
        ph__text_format(&line, "%s: passed over: ", call);
        ph__text_add_bytes(&line, at, length);
        char *text = ph__text_detach(&line);
        if (text)
            ph_log_write(PH_LOG_WARNING, text);
        ph__free(text);
        at += length + (at[length] != '\0');
    }
}

static void end_loading(void *what)
{
    loading *l = what;
    end_state(l);
    ph__vec_free(&l->numbers);
    ph__text_free(&l->wrong);
}

static ph_status keep_report(loading *l)
{
    ph__free(l->training->passed_over);
    l->training->passed_over = NULL;
    if (l->passed_over == 0)
        return PH_OK;
    l->training->passed_over = ph__text_detach(&l->wrong);
    return l->training->passed_over
               ? PH_OK
               : ph__fail_host_memory(call, "what is wrong with a saved state");
}

ph_status ph_training_load(ph_training *training, uint64_t number, uint64_t *loaded)
{
    loading l = {.training = training};
    uint64_t found = 0;
    if (!training)
        return ph__fail_null(call, "training");
    if (training->entries.count == 0)
        return ph_fail(PH_ERROR_STATE,
                       "%s: the training has no parts; ph_training_add_module and the like add "
                       "them",
                       call);
    PH__UNWIND unwind = {end_loading, &l};
    ph_status status = find_state(&l, number, &found);
    ph_error cause;
    ph__error_save(&cause);
    ph_status kept = keep_report(&l);
    if (status == PH_OK)
        status = kept;
    else
        ph__error_restore(&cause);
    if (status == PH_OK) {
        warn_of_state(training);
        status = apply_state(&l);
    }
    unwind.undo = NULL;
    end_loading(&l);
    if (status == PH_OK && loaded)
        *loaded = found;
    return status;
}
