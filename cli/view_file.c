/* SPDX-License-Identifier: MIT */
/* cli/view_file.c: a file that is replaced whole or not at all. */
#include "view.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ph_status cannot(const char *path, const char *what, int error)
{
    return ph_fail(PH_ERROR_IO, "%s: cannot be %s: %s", path, what, strerror(error));
}

/* Everything is on the disk, or errno says why not. */
static bool finish(FILE *out)
{
    bool written = !ferror(out) && fflush(out) == 0;
    int error = written ? 0 : errno;
    if (fclose(out) != 0 && written) {
        written = false;
        error = errno;
    }
    errno = error;
    return written;
}

/* A terminal, a pipe, /dev/null: there is nothing to replace. */
static ph_status write_through(const char *path, view_writer write, void *user)
{
    FILE *out = fopen(path, "wbe");
    if (!out)
        return cannot(path, "opened", errno);
    bool good = write(out, user), finished = finish(out);
    return good && finished ? PH_OK : cannot(path, "written", good ? errno : ENOMEM);
}

/* The rights of the file that is replaced; of a new one what the user's mask leaves. */
static mode_t rights_for(const struct stat *old, bool exists)
{
    if (exists)
        return old->st_mode & 0777;
    mode_t mask = umask(022);
    (void)umask(mask);
    return 0666 & ~mask;
}

static ph_status replace(const char *path, char *temporary, mode_t rights, view_writer write,
                         void *user)
{
    int file = mkostemp(temporary, O_CLOEXEC);
    if (file < 0)
        return cannot(path, "written", errno);
    FILE *out = fdopen(file, "wb");
    bool good = out != NULL;
    int error = errno;
    if (!out) {
        (void)close(file);
    } else if (!write(out, user)) {
        good = false;
        error = ENOMEM;
        (void)fclose(out);
    } else {
        good = fchmod(file, rights) == 0;
        error = errno;
        bool finished = finish(out);
        error = good ? errno : error;
        good = good && finished;
    }
    if (good && rename(temporary, path) != 0) {
        good = false;
        error = errno;
    }
    if (!good)
        (void)unlink(temporary);
    return good ? PH_OK : cannot(path, "written", error);
}

/* What a link that leads to nothing names, seen from its own folder; NULL: errno says why not. */
static char *follow(const char *link)
{
    char to[PATH_MAX];
    ssize_t length = readlink(link, to, sizeof to - 1);
    if (length < 0)
        return NULL;
    to[length] = '\0';
    const char *slash = strrchr(link, '/');
    size_t folder = slash && to[0] != '/' ? (size_t)(slash - link) + 1 : 0;
    char *path = malloc(folder + (size_t)length + 1);
    if (path)
        (void)strcpy((char *)memcpy(path, link, folder) + folder, to);
    return path;
}

/* The name at the end of all links, whether or not there is such a file. The system follows
 * them, so they have an end. */
static char *end_of_links(const char *path, bool exists)
{
    struct stat at;
    char *real = exists ? realpath(path, NULL) : strdup(path);
    while (real && !exists && lstat(real, &at) == 0 && S_ISLNK(at.st_mode)) {
        char *next = follow(real);
        free(real);
        real = next;
    }
    return real;
}

ph_status view_write_file(const char *path, view_writer write, void *user)
{
    struct stat old;
    bool exists = stat(path, &old) == 0;
    if (!exists && errno != ENOENT)
        return cannot(path, "written", errno);
    if (exists && S_ISDIR(old.st_mode))
        return cannot(path, "written", EISDIR);
    if (exists && !S_ISREG(old.st_mode))
        return write_through(path, write, user);
    /* Replacing asks for rights on the folder alone: those on the file count too. */
    if (exists && faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
        return cannot(path, "written", errno);
    /* Through links: it is the file that they lead to that is replaced, or made. */
    char *real = end_of_links(path, exists);
    char *temporary = real ? malloc(strlen(real) + sizeof ".XXXXXX") : NULL;
    ph_status st =
        temporary ? PH_OK : ph_fail(PH_ERROR_HOST_MEMORY, "%s: no memory to write it", path);
    if (st == PH_OK) {
        (void)strcat(strcpy(temporary, real), ".XXXXXX");
        st = replace(real, temporary, rights_for(&old, exists), write, user);
    }
    free(temporary);
    free(real);
    return st;
}

bool view_same_file(const char *input, const char *output)
{
    struct stat in, out;
    bool known = strcmp(input, "-") == 0 ? fstat(STDIN_FILENO, &in) == 0 : stat(input, &in) == 0;
    return known && stat(output, &out) == 0 && S_ISREG(in.st_mode) && in.st_dev == out.st_dev &&
           in.st_ino == out.st_ino;
}

bool view_is_other_file(const char *path)
{
    char begin[1024];
    struct stat old;
    if (stat(path, &old) != 0 || !S_ISREG(old.st_mode))
        return false;
    FILE *file = fopen(path, "rbe");
    size_t got = file ? fread(begin, 1, sizeof begin - 1, file) : 0;
    if (file)
        (void)fclose(file);
    begin[got] = '\0';
    return strstr(begin, VIEW_MARK) == NULL;
}
