/* SPDX-License-Identifier: MIT */
/* base/text_file.c: writing a text to a file so that the previous file survives every failure. */
#include "base/alloc.h"
#include "base/status.h"
#include "base/text.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NAME_TRIES = 1000,
    TEMPORARY_NAME_BYTES = 64
};

/* The system call that failed and its errno; call is NULL when none did. */
typedef struct outcome {
    const char *call;
    int number;
} outcome;

static outcome failed_in(const char *call)
{
    return (outcome){call, errno};
}

static outcome write_all(int file, const ph__text *text)
{
    for (size_t done = 0; done < text->length;) {
        ssize_t written = write(file, text->at + done, text->length - done);
        if (written >= 0)
            done += (size_t)written;
        else if (errno != EINTR)
            return failed_in("write");
    }
    return (outcome){0};
}

/* Some file systems tell of a full disk only here. Linux has closed the file even when close says EINTR. */
static outcome close_checked(int file, outcome so_far)
{
    if (close(file) != 0 && errno != EINTR && !so_far.call)
        return failed_in("close");
    return so_far;
}

/* For what is no regular file: a device or a pipe is written to, never replaced. */
static outcome write_in_place(const ph__text *text, const char *path)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    return file < 0 ? failed_in("open") : close_checked(file, write_all(file, text));
}

/* A short name of its own beside path, whatever the length of path's own name. name has room for it. */
static int open_temporary(char *name, const char *path)
{
    static atomic_uint_least64_t serial;
    const char *slash = strrchr(path, '/');
    size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
    memcpy(name, path, folder);
    int file = -1;
    for (int i = 0; i < NAME_TRIES; i++) {
        uint64_t number = atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed);
        (void)snprintf(name + folder, TEMPORARY_NAME_BYTES, ".phonograph-%ld-%" PRIu64 ".tmp", (long)getpid(),
                       number);
        file = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (file >= 0 || errno != EEXIST)
            break;
    }
    return file;
}

/* mode: of the file that is there, which its successor keeps; 0 when there is none. */
static outcome write_and_rename(const ph__text *text, const char *path, char *name, mode_t mode)
{
    int file = open_temporary(name, path);
    if (file < 0)
        return failed_in("open");
    outcome result = write_all(file, text);
    if (!result.call && mode != 0 && fchmod(file, mode & 07777) != 0)
        result = failed_in("fchmod");
    if (!result.call && fsync(file) != 0)
        result = failed_in("fsync");
    result = close_checked(file, result);
    if (!result.call && rename(name, path) != 0)
        result = failed_in("rename");
    if (result.call)
        unlink(name);
    return result;
}

/* Through symbolic links, so that the link stays and its target is replaced. */
static ph_status replace(const ph__text *text, const char *path, const char *call, const struct stat *there)
{
    char resolved[PATH_MAX], buffer[128];
    const char *target = there && realpath(path, resolved) ? resolved : path;
    char *name = ph__alloc(strlen(target) + TEMPORARY_NAME_BYTES);
    if (!name)
        return ph__fail_host_memory(call, "the name of a temporary file");
    outcome result = write_and_rename(text, target, name, there ? there->st_mode : 0);
    ph__free(name);
    if (!result.call)
        return PH_OK;
    return ph__fail_native(PH_ERROR_IO, result.number, result.call,
                           "%s: cannot write %s: %s failed: %s; what was there before is unchanged", call,
                           path, result.call, strerror_r(result.number, buffer, sizeof buffer));
}

ph_status ph__text_write_file(ph__text *text, const char *path, const char *call)
{
    if (!path)
        return ph__fail_null(call, "path");
    if (text->failed)
        return ph__fail_host_memory(call, "the text of the file");
    struct stat there;
    bool exists = stat(path, &there) == 0;
    if (!exists || S_ISREG(there.st_mode))
        return replace(text, path, call, exists ? &there : NULL);
    outcome result = write_in_place(text, path);
    if (!result.call)
        return PH_OK;
    char buffer[128];
    return ph__fail_native(PH_ERROR_IO, result.number, result.call, "%s: cannot write into %s: %s failed: %s",
                           call, path, result.call, strerror_r(result.number, buffer, sizeof buffer));
}
