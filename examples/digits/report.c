/* SPDX-License-Identifier: MIT */
/* digits/report.c: puts the report together in memory and writes it to its file, whole or not at
 * all. */
#include "report.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void put_text(FILE *out, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '&':
            (void)fputs("&amp;", out);
            break;
        case '<':
            (void)fputs("&lt;", out);
            break;
        case '>':
            (void)fputs("&gt;", out);
            break;
        case '"':
            (void)fputs("&quot;", out);
            break;
        default:
            (void)fputc(*text, out);
        }
    }
}

static ph_status io_failed(const char *what, const char *path)
{
    return ph_fail(PH_ERROR_IO, "%s: %s: %s; the previous file, if there was one, is as it was",
                   path, what, strerror(errno));
}

static bool write_all(int file, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t written = write(file, text, bytes);
        if (written < 0 && errno != EINTR)
            return false;
        if (written > 0) {
            text += written;
            bytes -= (size_t)written;
        }
    }
    return true;
}

static ph_status write_in_place(const char *path, const char *text, size_t bytes)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return ph_fail(PH_ERROR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    bool written = write_all(file, text, bytes);
    int number = errno;
    if (close(file) != 0 && written) {
        written = false;
        number = errno;
    }
    return written ? PH_OK
                   : ph_fail(PH_ERROR_IO, "%s: cannot be written: %s", path, strerror(number));
}

/* The temporary file gets the mode that the report would have had. */
static ph_status write_temporary(int file, const char *path, const char *text, size_t bytes,
                                 mode_t mode)
{
    bool written = fchmod(file, mode) == 0 && write_all(file, text, bytes) && fsync(file) == 0;
    int number = errno;
    if (close(file) != 0 && written) {
        written = false;
        number = errno;
    }
    errno = number;
    return written ? PH_OK : io_failed("cannot be written", path);
}

static ph_status replace_regular(const char *path, const char *text, size_t bytes, mode_t mode)
{
    static const char suffix[] = ".XXXXXX";
    size_t length = strlen(path);
    char *temporary = malloc(length + sizeof suffix);
    if (!temporary)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the name of a temporary file beside %s",
                       path);
    memcpy(temporary, path, length);
    memcpy(temporary + length, suffix, sizeof suffix);
    int file = mkostemp(temporary, O_CLOEXEC);
    ph_status st = file < 0 ? io_failed("no temporary file can be made beside it", path)
                            : write_temporary(file, path, text, bytes, mode);
    if (st == PH_OK && rename(temporary, path) != 0)
        st = io_failed("cannot be replaced", path);
    if (st != PH_OK && file >= 0)
        (void)unlink(temporary);
    free(temporary);
    return st;
}

static mode_t new_file_mode(void)
{
    mode_t mask = umask(0);
    (void)umask(mask);
    return 0666 & ~mask;
}

ph_status replace_file(const char *path, const char *text, size_t bytes)
{
    struct stat there;
    if (stat(path, &there) != 0) {
        if (errno != ENOENT)
            return ph_fail(PH_ERROR_IO, "%s: cannot be written: %s", path, strerror(errno));
        return replace_regular(path, text, bytes, new_file_mode());
    }
    if (S_ISDIR(there.st_mode))
        return ph_fail(PH_ERROR_IO, "%s: is a folder; name a file in it", path);
    if (!S_ISREG(there.st_mode))
        return write_in_place(path, text, bytes);

    /* A symbolic link stays, and what it leads to is replaced. */
    char *target = realpath(path, NULL);
    if (!target)
        return ph_fail(PH_ERROR_IO, "%s: cannot be resolved: %s", path, strerror(errno));
    ph_status st = replace_regular(target, text, bytes, there.st_mode & 07777);
    free(target);
    return st;
}

/* Closes a memory stream; its text is valid only when everything that was put into it fitted. */
static ph_status finish(FILE *stream)
{
    bool failed = ferror(stream) != 0;
    failed = fclose(stream) != 0 || failed;
    return failed ? ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the report") : PH_OK;
}

static ph_status graph_text(char **text, const ph_record *record)
{
    size_t bytes = 0;
    FILE *out = open_memstream(text, &bytes);
    if (!out)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the report");
    ph_status st = draw_graph(out, record);
    ph_status finished = finish(out);
    return st != PH_OK ? st : finished;
}

ph_status report_write(const report *r, const char *path)
{
    char *drawing = NULL, *page = NULL;
    size_t bytes = 0;
    ph_status st = graph_text(&drawing, r->record);
    FILE *out = st == PH_OK ? open_memstream(&page, &bytes) : NULL;
    if (st == PH_OK && !out)
        st = ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the report");
    if (out) {
        put_page(out, r, drawing);
        st = finish(out);
    }
    if (st == PH_OK)
        st = replace_file(path, page, bytes);
    free(page);
    free(drawing);
    return st;
}

ph_status losses_write(const run *r, const trainer *t, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for the losses");
    for (size_t step = 0; step < t->steps; step++)
        (void)fprintf(out, "%.9g\n", (double)r->losses[step]);
    ph_status st = finish(out);
    if (st == PH_OK)
        st = replace_file(path, text, bytes);
    free(text);
    return st;
}
