/* SPDX-License-Identifier: MIT */
/* base/file.c: a file that replaces another one when it is complete. */
#include "base/file.h"
#include "base/alloc.h"
#include "base/error_text.h"
#include "base/status.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    NAME_TRIES = 1000,
    TEMPORARY_NAME_BYTES = 64,
    MOST_LINKS = 40 /* as Linux follows */
};

/* By the errno of a system call that has just failed. */
static ph_status fail_system_call(const ph__file *file, const char *system_call)
{
    int number = errno;
    char buffer[128];
    const char *words = ph__error_text(number, buffer, sizeof buffer);
    if (!file->target)
        return ph__fail_native(PH_ERROR_IO, number, system_call,
                               "%s: cannot write into %s: %s failed: %s", file->call, file->path,
                               system_call, words);
    return ph__fail_native(PH_ERROR_IO, number, system_call,
                           "%s: cannot write %s: %s failed: %s; what was there before is unchanged",
                           file->call, file->path, system_call, words);
}

/* A short name of its own beside the target, whatever the length of the target's own name. */
static bool open_temporary(ph__file *file)
{
    static atomic_uint_least64_t serial;
    const char *slash = strrchr(file->target, '/');
    size_t folder = slash ? (size_t)(slash - file->target) + 1 : 0;
    memcpy(file->temporary, file->target, folder);
    for (int i = 0; i < NAME_TRIES; i++) {
        uint64_t number = atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed);
        (void)snprintf(file->temporary + folder, TEMPORARY_NAME_BYTES,
                       ".phonograph-%ld-%" PRIu64 ".tmp", (long)getpid(), number);
        file->number = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file->number >= 0 || errno != EEXIST)
            break;
    }
    return file->number >= 0;
}

static void free_names(ph__file *file)
{
    ph__free(file->temporary);
    ph__free(file->target);
    file->temporary = file->target = NULL;
}

/* Replaces `path` by the target of the link there, seen from the link's own folder. */
static bool follow_links(char path[PATH_MAX])
{
    char to[PATH_MAX];
    ssize_t length = readlink(path, to, sizeof to);
    const char *slash = strrchr(path, '/');
    size_t folder = slash && length > 0 && to[0] != '/' ? (size_t)(slash - path) + 1 : 0;
    if (length >= 0 && folder + (size_t)length >= PATH_MAX)
        errno = ENAMETOOLONG;
    if (length < 0 || folder + (size_t)length >= PATH_MAX)
        return false;
    memcpy(path + folder, to, (size_t)length);
    path[folder + (size_t)length] = '\0';
    return true;
}

/* The name at the end of all symbolic links, whether or not there is a file of that name. */
static bool follow_all(char out[PATH_MAX], const char *path)
{
    struct stat there;
    size_t length = strlen(path);
    if (length >= PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(out, path, length + 1);
    for (int links = 0; lstat(out, &there) == 0 && S_ISLNK(there.st_mode); links++) {
        if (links == MOST_LINKS)
            errno = ELOOP;
        if (links == MOST_LINKS || !follow_links(out))
            return false;
    }
    return true;
}

/* Links stay, and what they lead to is replaced or made. */
static ph_status begin_replacing(ph__file *file)
{
    char target[PATH_MAX];
    if (!follow_all(target, file->path))
        return fail_system_call(file, "readlink");
    file->target = ph__strdup(target);
    file->temporary = file->target ? ph__alloc(strlen(file->target) + TEMPORARY_NAME_BYTES) : NULL;
    if (!file->temporary) {
        free_names(file);
        return ph__fail_host_memory(file->call, "the name of a temporary file");
    }
    if (open_temporary(file))
        return PH_OK;
    ph_status status = fail_system_call(file, "open");
    free_names(file);
    return status;
}

/* errno stays. */
static bool is_link(const char *path)
{
    struct stat there;
    int number = errno;
    bool link = lstat(path, &there) == 0 && S_ISLNK(there.st_mode);
    errno = number;
    return link;
}

ph_status ph__file_create(ph__file *file, const char *path, const char *call)
{
    struct stat there;
    *file = (ph__file){.path = path, .call = call, .number = -1};
    if (!path)
        return ph__fail_null(call, "path");
    bool exists = stat(path, &there) == 0;
    /* A link that Linux does not follow (ELOOP, or somebody else's in /tmp) is not followed here
     * either. */
    if (!exists && errno != ENOENT && is_link(path))
        return fail_system_call(file, "stat");
    if (!exists || S_ISREG(there.st_mode)) {
        file->mode = exists ? there.st_mode : 0;
        /* Replacing asks for rights on the folder alone: those on the file count too. */
        return exists && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0
                   ? fail_system_call(file, "faccessat")
                   : begin_replacing(file);
    }
    file->number = open(path, O_WRONLY | O_CLOEXEC);
    return file->number < 0 ? fail_system_call(file, "open") : PH_OK;
}

ph_status ph__file_write(ph__file *file, const void *bytes, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t written = write(file->number, (const char *)bytes + done, size - done);
        if (written >= 0)
            done += (size_t)written;
        else if (errno != EINTR)
            return fail_system_call(file, "write");
    }
    return PH_OK;
}

/* Some file systems tell of a full disk only when the file is closed. Linux has closed it even
 * when close says EINTR. */
static ph_status close_checked(ph__file *file)
{
    int number = file->number;
    file->number = -1;
    return close(number) != 0 && errno != EINTR ? fail_system_call(file, "close") : PH_OK;
}

static ph_status put_in_place(ph__file *file)
{
    if (file->mode != 0 && fchmod(file->number, file->mode & 07777) != 0)
        return fail_system_call(file, "fchmod");
    if (fsync(file->number) != 0)
        return fail_system_call(file, "fsync");
    PH_TRY(close_checked(file));
    return rename(file->temporary, file->target) != 0 ? fail_system_call(file, "rename") : PH_OK;
}

ph_status ph__file_commit(ph__file *file)
{
    ph_status status = file->temporary ? put_in_place(file) : close_checked(file);
    if (status != PH_OK) {
        ph__file_abandon(file);
        return status;
    }
    free_names(file);
    return PH_OK;
}

void ph__file_abandon(ph__file *file)
{
    if (file->number >= 0)
        (void)close(file->number);
    file->number = -1;
    if (file->temporary)
        (void)unlink(file->temporary);
    free_names(file);
}
