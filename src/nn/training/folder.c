/* SPDX-License-Identifier: MIT */
/* nn/training/folder.c: folders of states on the disk. */
#include "nn/training/folder.h"
#include "base/alloc.h"
#include "base/error_text.h"
#include "base/status.h"
#include "base/text.h"
#include "tensor/files/file.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

ph_status ph__folder_fail(const char *call, const char *what, const char *path)
{
    int number = errno;
    char buffer[128];
    return ph__fail_native(PH_ERROR_IO, number, NULL, "%s: cannot %s %s: %s", call, what, path,
                           ph__error_text(number, buffer, sizeof buffer));
}

/* ---- names ---- */
char *ph__folder_join(const char *folder, const char *name)
{
    ph__text text = {.at = NULL};
    ph__text_format(&text, "%s/%s", folder, name);
    return ph__text_detach(&text);
}

static ph_status join_path(char **out, const char *folder, const char *name, const char *call)
{
    *out = ph__folder_join(folder, name);
    return *out ? PH_OK : ph__fail_host_memory(call, "the name of a file");
}

void ph__folder_number(char out[PH__TRAINING_NUMBER], uint64_t number)
{
    (void)snprintf(out, PH__TRAINING_NUMBER, "%06" PRIu64, number);
}

uint64_t ph__folder_number_of(const char *name)
{
    char same[PH__TRAINING_NUMBER];
    if (strspn(name, "0123456789") != strlen(name) || strlen(name) >= sizeof same - 4)
        return 0;
    uint64_t number = strtoull(name, NULL, 10);
    ph__folder_number(same, number);
    return strcmp(same, name) == 0 ? number : 0;
}

/* ---- looking ---- */
/* false stops; it may remove the file of the name. */
typedef ph_status (*name_fn)(const char *name, void *user);

static ph_status visit_names(const char *folder, name_fn fn, void *user, const char *call)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return ph__folder_fail(call, "read", folder);
    ph_status status = PH_OK;
    for (struct dirent *entry; status == PH_OK;) {
        errno = 0;
        if (!(entry = readdir(dir))) {
            status = errno ? ph__folder_fail(call, "read", folder) : PH_OK;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            status = fn(entry->d_name, user);
    }
    (void)closedir(dir);
    return status;
}

typedef struct visiting {
    const char *folder, *call;
    ph__folder_numbers *numbers;
} visiting;

static ph_status add_number(const char *name, void *user)
{
    const visiting *v = user;
    uint64_t number = ph__folder_number_of(name);
    return number == 0 || ph__vec_push(v->numbers, number)
               ? PH_OK
               : ph__fail_host_memory(v->call, "the list of saved states");
}

static int by_falling_step(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

ph_status ph__folder_list(ph__folder_numbers *out, const char *folder, const char *call)
{
    visiting v = {folder, call, out};
    ph__vec_clear(out);
    PH_TRY(visit_names(folder, add_number, &v, call));
    if (out->count > 0)
        qsort(out->at, out->count, sizeof *out->at, by_falling_step);
    return PH_OK;
}

static ph_status read_latest(uint64_t *out, const char *path, const char *call)
{
    char text[PH__TRAINING_NUMBER + 1] = "";
    ph__reader reader;
    PH_TRY(ph__reader_open(&reader, path, call));
    ph_status status = PH_OK;
    if (reader.size < sizeof text)
        status = ph__reader_read(&reader, text, 0, (size_t)reader.size);
    ph__reader_close(&reader);
    text[strcspn(text, "\n")] = '\0';
    *out = status == PH_OK ? ph__folder_number_of(text) : 0;
    return status;
}

ph_status ph__folder_latest(uint64_t *out, const char *folder, const char *call)
{
    char *path;
    *out = 0;
    PH_TRY(join_path(&path, folder, PH__TRAINING_LATEST, call));
    ph_status status = access(path, F_OK) == 0 ? read_latest(out, path, call) : PH_OK;
    ph__free(path);
    return status;
}

/* ---- the lock ---- */
static ph_status open_lock(int *out, const char *path, const char *folder, const char *call)
{
    int number = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (number < 0)
        return ph__folder_fail(call, "open", path);
    if (flock(number, LOCK_EX | LOCK_NB) == 0) {
        *out = number;
        return PH_OK;
    }
    ph_status status =
        errno == EWOULDBLOCK
            ? ph_fail(PH_ERROR_STATE,
                      "%s: %s is held by another process, or by another ph_training of this one, "
                      "that saves there; who only loads sets ph_training_options.read_only",
                      call, folder)
            : ph__folder_fail(call, "lock", path);
    (void)close(number);
    return status;
}

ph_status ph__folder_lock(int *out, const char *folder, const char *call)
{
    char *path, *parent;
    bool made = mkdir(folder, 0777) == 0;
    if (!made && errno != EEXIST)
        return ph__folder_fail(call, "make", folder);
    if (made) {
        PH_TRY(join_path(&parent, folder, "..", call));
        ph_status status = ph__folder_sync(parent, call);
        ph__free(parent);
        PH_TRY(status);
    }
    PH_TRY(join_path(&path, folder, "lock", call));
    ph_status status = open_lock(out, path, folder, call);
    ph__free(path);
    return status;
}

/* ---- changing ---- */
/* Some file systems sync no folders (EINVAL): their names need none. */
ph_status ph__folder_sync(const char *folder, const char *call)
{
    int number = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (number < 0)
        return ph__folder_fail(call, "open", folder);
    bool synced = fsync(number) == 0 || errno == EINVAL;
    ph_status status = synced ? PH_OK : ph__folder_fail(call, "sync", folder);
    (void)close(number);
    return status;
}

static bool remove_at(int folder, const char *name);

/* By errno. Takes the open folder. A link goes, and not what it leads to. Needs no memory of the
 * library: a save that has none removes what it made. */
static bool empty_folder(int folder)
{
    DIR *dir = fdopendir(folder);
    bool ok = dir != NULL;
    if (!ok)
        (void)close(folder);
    while (ok) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry) {
            ok = errno == 0;
            break;
        }
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            ok = remove_at(dirfd(dir), entry->d_name);
    }
    int number = errno;
    if (dir)
        (void)closedir(dir);
    errno = number;
    return ok;
}

static bool remove_at(int folder, const char *name)
{
    if (unlinkat(folder, name, 0) == 0 || errno == ENOENT)
        return true;
    if (errno != EISDIR)
        return false;
    int number = openat(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return number >= 0 && empty_folder(number) && unlinkat(folder, name, AT_REMOVEDIR) == 0;
}

ph_status ph__folder_remove(const char *path, const char *call)
{
    return remove_at(AT_FDCWD, path) ? PH_OK : ph__folder_fail(call, "remove", path);
}

static ph_status remove_inside(const char *name, void *user)
{
    const visiting *v = user;
    char *path;
    PH_TRY(join_path(&path, v->folder, name, v->call));
    ph_status status = ph__folder_remove(path, v->call);
    ph__free(path);
    return status;
}

/* Files that were to replace "latest" (base/file.c). */
static ph_status clear_file(const char *name, void *user)
{
    size_t length = strlen(name);
    bool left = strncmp(name, ".phonograph-", 12) == 0 && length > 4 &&
                strcmp(name + length - 4, ".tmp") == 0;
    return left ? remove_inside(name, user) : PH_OK;
}

ph_status ph__folder_clear(const char *folder, const char *call)
{
    visiting v = {.folder = folder, .call = call};
    PH_TRY(remove_inside(PH__TRAINING_SAVING, &v));
    PH_TRY(remove_inside(PH__TRAINING_REMOVING, &v));
    return visit_names(folder, clear_file, &v, call);
}
