/* SPDX-License-Identifier: MIT */
/* base/mapping.c: the line of /proc/self/maps for an address, read in small pieces. */
#include "base/mapping.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct reader {
    int file;
    size_t at, count;
    char bytes[1024];
} reader;

/* -1 at the end. */
static int next_byte(reader *r)
{
    if (r->at == r->count) {
        ssize_t got;
        do
            got = read(r->file, r->bytes, sizeof r->bytes);
        while (got < 0 && errno == EINTR);
        if (got <= 0)
            return -1;
        r->at = 0;
        r->count = (size_t)got;
    }
    return (unsigned char)r->bytes[r->at++];
}

/* The next line, cut at size; false at the end. */
static bool next_line(reader *r, char *line, size_t size)
{
    size_t length = 0;
    int byte = next_byte(r);
    if (byte < 0)
        return false;
    for (; byte >= 0 && byte != '\n'; byte = next_byte(r))
        if (length + 1 < size)
            line[length++] = (char)byte;
    line[length] = '\0';
    return true;
}

/* A line begins with "55d0c000-55d0d000 ". */
static bool is_around(const char *line, uintptr_t address)
{
    char *end;
    uintptr_t from = strtoul(line, &end, 16);
    return *end == '-' && address >= from && address < strtoul(end + 1, NULL, 16);
}

void ph__mapping_describe(char *out, size_t size, const void *address)
{
    int saved = errno;
    reader r = {.file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC)};
    bool found = false;
    while (r.file >= 0 && !found && next_line(&r, out, size))
        found = is_around(out, (uintptr_t)address);
    if (!found)
        (void)snprintf(out, size, "%s",
                       r.file < 0 ? "/proc/self/maps cannot be read"
                                  : "nothing is mapped there now");
    if (r.file >= 0)
        (void)close(r.file);
    errno = saved;
}
