/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/cache.c: the folder of compiled kernels. An entry is code that will run, so
 * it is read only where nobody but its owner could have written it, and checked whole. */
#include "driver/cuda/load/cache.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/environment.h"
#include "base/error_text.h"
#include "base/log.h"
#include "base/sha256.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRY_SUFFIX     ".kernel"
#define TEMPORARY_PREFIX ".phonograph-"

enum {
    NAME_TRIES = 100,
    HEX_DIGITS = 2 * PH__SHA256_BYTES,
    NAME_BYTES = HEX_DIGITS + sizeof ENTRY_SUFFIX
};

/* ---- the folder ---- */

/* False: no cache is wanted, or there is no place for one. */
static bool folder_path(char path[PATH_MAX])
{
    const char *own = ph__environment("PH_CACHE_DIR"), *base = ph__environment("XDG_CACHE_HOME");
    const char *home = ph__environment("HOME");
    int length = -1;
    if (own)
        length = own[0] ? snprintf(path, PATH_MAX, "%s", own) : -1;
    else if (base && base[0] == '/')
        length = snprintf(path, PATH_MAX, "%s/phonograph", base);
    else if (home && home[0] == '/')
        length = snprintf(path, PATH_MAX, "%s/.cache/phonograph", home);
    return length > 0 && length < PATH_MAX;
}

/* Failures show when the folder is opened. */
static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    (void)mkdir(path, 0700);
}

static bool ours_alone(const struct stat *file)
{
    return file->st_uid == geteuid() && (file->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* -1: none that can be used. */
static int open_folder(bool make)
{
    char path[PATH_MAX], buffer[128];
    if (!folder_path(path))
        return -1;
    if (make)
        make_folders(path);
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int number = errno;
    struct stat there;
    if (folder >= 0 && fstat(folder, &there) == 0 && ours_alone(&there))
        return folder;
    if (folder >= 0) {
        close(folder);
        PH__LOG_ONCE(
            PH_LOG_WARNING,
            "compiled kernels are not kept on disk: others own or may write the folder %s; make it "
            "yours alone (chown, chmod go-w) or name another in PH_CACHE_DIR",
            path);
    } else if (make) {
        PH__LOG_ONCE(PH_LOG_INFO,
                     "compiled kernels are not kept on disk: cannot open the folder %s: %s", path,
                     ph__error_text(number, buffer, sizeof buffer));
    }
    return -1;
}

static void entry_name(char name[NAME_BYTES], const char *key, size_t key_bytes)
{
    uint8_t digest[PH__SHA256_BYTES];
    ph__sha256(digest, key, key_bytes);
    for (size_t i = 0; i < sizeof digest; i++)
        (void)snprintf(name + 2 * i, 3, "%02x", (unsigned)digest[i]);
    memcpy(name + HEX_DIGITS, ENTRY_SUFFIX, sizeof ENTRY_SUFFIX);
}

/* ---- reading ---- */

static bool read_all(int file, char *at, size_t bytes)
{
    while (bytes > 0) {
        ssize_t got = read(file, at, bytes);
        if (got > 0) {
            at += got;
            bytes -= (size_t)got;
        } else if (got == 0 || errno != EINTR) {
            return false;
        }
    }
    return true;
}

/* The whole file, or NULL. */
static char *read_entry(size_t *bytes, int folder, const char *name)
{
    /* Not blocking: a pipe of that name must not hold us. */
    int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat there;
    char *content = NULL;
    if (file < 0)
        return NULL;
    if (fstat(file, &there) != 0 || !S_ISREG(there.st_mode)) {
        close(file);
        return NULL;
    }
    if (!ours_alone(&there)) {
        PH__LOG_ONCE(PH_LOG_WARNING,
                     "the kept kernel %s is not used: others own or may write its file", name);
    } else if ((size_t)there.st_size >= sizeof(ph__cuda_cache_header) &&
               there.st_size <= PH__CUDA_CACHE_LIMIT) {
        *bytes = (size_t)there.st_size;
        content = ph__alloc(*bytes);
        if (content && !read_all(file, content, *bytes)) {
            ph__free(content);
            content = NULL;
        }
        if (content)
            (void)futimens(file, NULL); /* used just now: others go first */
    }
    close(file);
    return content;
}

/* Where the payload begins; 0: this is no entry of the key, or it is damaged. */
static size_t find_payload(const char *content, size_t bytes, const char *key, size_t key_bytes)
{
    ph__cuda_cache_header header;
    uint8_t digest[PH__SHA256_BYTES];
    size_t begin, end;
    memcpy(&header, content, sizeof header);
    if (memcmp(header.magic, PH__CUDA_CACHE_MAGIC, sizeof header.magic) != 0 ||
        header.key_bytes != key_bytes || !ph__add(sizeof header, key_bytes, &begin) ||
        !ph__add(begin, header.payload_bytes, &end) || end != bytes ||
        memcmp(content + sizeof header, key, key_bytes) != 0)
        return 0;
    ph__sha256(digest, content + begin, header.payload_bytes);
    return memcmp(digest, header.payload_sha256, sizeof digest) == 0 ? begin : 0;
}

bool ph__cuda_cache_get(char **payload, size_t *payload_bytes, const char *key, size_t key_bytes)
{
    char name[NAME_BYTES];
    int folder = open_folder(false);
    if (folder < 0)
        return false;
    entry_name(name, key, key_bytes);
    size_t bytes = 0;
    char *content = read_entry(&bytes, folder, name);
    close(folder);
    size_t begin = content ? find_payload(content, bytes, key, key_bytes) : 0;
    if (begin == 0) {
        ph__free(content);
        return false;
    }
    *payload_bytes = bytes - begin;
    memmove(content, content + begin, bytes - begin);
    content[bytes - begin] = '\0';
    *payload = content;
    return true;
}

/* ---- writing ---- */

static bool write_all(int file, const void *data, size_t bytes)
{
    const char *at = data;
    while (bytes > 0) {
        ssize_t written = write(file, at, bytes);
        if (written >= 0) {
            at += written;
            bytes -= (size_t)written;
        } else if (errno != EINTR) {
            return false;
        }
    }
    return true;
}

static int open_temporary(int folder, char name[NAME_BYTES])
{
    static atomic_uint_least64_t serial;
    int file = -1;
    for (int i = 0; i < NAME_TRIES; i++) {
        uint64_t number = atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed);
        (void)snprintf(name, NAME_BYTES, TEMPORARY_PREFIX "%ld-%" PRIu64, (long)getpid(), number);
        file = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (file >= 0 || errno != EEXIST)
            break;
    }
    return file;
}

/* Files of this cache alone: the folder may hold others. */
static bool is_entry(const char *name)
{
    if (strncmp(name, TEMPORARY_PREFIX, sizeof TEMPORARY_PREFIX - 1) == 0)
        return true;
    return strspn(name, "0123456789abcdef") == HEX_DIGITS &&
           strcmp(name + HEX_DIGITS, ENTRY_SUFFIX) == 0;
}

static bool is_older(struct timespec a, struct timespec b)
{
    return a.tv_sec < b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec < b.tv_nsec);
}

/* The bytes of all entries, and the name of the one that was longest unused; "" where there is
 * none. */
static uint64_t find_oldest(DIR *entries, char oldest[NAME_BYTES])
{
    uint64_t total = 0;
    struct timespec oldest_time = {0};
    oldest[0] = '\0';
    rewinddir(entries);
    for (struct dirent *entry; (entry = readdir(entries));) {
        struct stat there;
        size_t length = strlen(entry->d_name);
        if (length >= NAME_BYTES || !is_entry(entry->d_name) ||
            fstatat(dirfd(entries), entry->d_name, &there, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(there.st_mode) || there.st_size <= 0)
            continue;
        total += (uint64_t)there.st_size;
        if (oldest[0] && !is_older(there.st_mtim, oldest_time))
            continue;
        memcpy(oldest, entry->d_name, length + 1);
        oldest_time = there.st_mtim;
    }
    return total;
}

/* Closes the folder. */
static void remove_oldest(int folder)
{
    char oldest[NAME_BYTES];
    DIR *entries = fdopendir(folder);
    if (!entries) {
        close(folder);
        return;
    }
    while (find_oldest(entries, oldest) > PH__CUDA_CACHE_LIMIT && oldest[0])
        if (unlinkat(dirfd(entries), oldest, 0) != 0 && errno != ENOENT)
            break;
    closedir(entries);
}

void ph__cuda_cache_put(const char *key, size_t key_bytes, const char *payload,
                        size_t payload_bytes)
{
    char name[NAME_BYTES], temporary[NAME_BYTES];
    ph__cuda_cache_header header = {.key_bytes = key_bytes, .payload_bytes = payload_bytes};
    if (key_bytes > PH__CUDA_CACHE_LIMIT / 4 || payload_bytes > PH__CUDA_CACHE_LIMIT / 2)
        return;
    int folder = open_folder(true);
    if (folder < 0)
        return;
    int file = open_temporary(folder, temporary);
    if (file < 0) {
        PH__LOG_ONCE(PH_LOG_INFO,
                     "compiled kernels are not kept on disk: their folder cannot be written");
        close(folder);
        return;
    }
    memcpy(header.magic, PH__CUDA_CACHE_MAGIC, sizeof header.magic);
    ph__sha256(header.payload_sha256, payload, payload_bytes);
    entry_name(name, key, key_bytes);
    bool written = write_all(file, &header, sizeof header) && write_all(file, key, key_bytes) &&
                   write_all(file, payload, payload_bytes);
    written = close(file) == 0 && written;
    if (!written || renameat(folder, temporary, folder, name) != 0)
        (void)unlinkat(folder, temporary, 0);
    remove_oldest(folder);
}
