/* SPDX-License-Identifier: MIT */
/* gpt/text.c: reading a file, or the sources and pages below a folder. */
#include "text.h"
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct path_list {
    char **at;
    size_t count, capacity;
} path_list;

/* nftw has no argument for its user. */
static path_list found;

static bool has_ending(const char *path)
{
    const char *dot = strrchr(path, '.');
    return dot && (strcmp(dot, ".c") == 0 || strcmp(dot, ".h") == 0 || strcmp(dot, ".md") == 0);
}

static bool add_path(path_list *paths, const char *path)
{
    if (paths->count == paths->capacity) {
        size_t capacity = paths->capacity ? 2 * paths->capacity : 256;
        char **at = realloc(paths->at, capacity * sizeof *at);
        if (!at)
            return false;
        paths->at = at;
        paths->capacity = capacity;
    }
    paths->at[paths->count] = strdup(path);
    return paths->at[paths->count] && ++paths->count;
}

/* Build folders and the like are no prose. */
static int visit(const char *path, const struct stat *status, int type, struct FTW *where)
{
    (void)status;
    const char *name = path + where->base;
    if (where->level > 0 && type == FTW_D && (name[0] == '.' || strcmp(name, "build") == 0))
        return FTW_SKIP_SUBTREE;
    if (type != FTW_F || (where->level > 0 && !has_ending(name)))
        return FTW_CONTINUE;
    return add_path(&found, path) ? FTW_CONTINUE : FTW_STOP;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_paths(path_list *paths)
{
    for (size_t i = 0; i < paths->count; i++)
        free(paths->at[i]);
    free(paths->at);
    *paths = (path_list){0};
}

static ph_status append(unsigned char **bytes, size_t *count, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return ph_fail(PH_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
    unsigned char buffer[65536];
    size_t got;
    while ((got = fread(buffer, 1, sizeof buffer, file)) > 0) {
        unsigned char *longer = realloc(*bytes, *count + got);
        if (!longer) {
            fclose(file);
            return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for %s", path);
        }
        memcpy(longer + *count, buffer, got);
        *bytes = longer;
        *count += got;
    }
    bool failed = ferror(file) != 0;
    fclose(file);
    return failed ? ph_fail(PH_ERROR_IO, "cannot read %s: %s", path, strerror(errno)) : PH_OK;
}

static ph_status number(corpus *out, const unsigned char *bytes, size_t count)
{
    int32_t of_byte[256];
    bool seen[256] = {false};
    out->token = malloc((count + 1) * sizeof *out->token);
    if (!out->token)
        return ph_fail(PH_ERROR_HOST_MEMORY, "no memory for %zu characters", count);
    for (size_t i = 0; i < count; i++)
        seen[bytes[i]] = true;
    for (int b = 0; b < 256; b++)
        if (seen[b]) {
            out->byte_of[out->vocabulary] = (unsigned char)b;
            of_byte[b] = out->vocabulary++;
        }
    for (size_t i = 0; i < count; i++)
        out->token[i] = of_byte[bytes[i]];
    out->count = (int64_t)count;
    return PH_OK;
}

ph_status text_load(corpus *out, const char *path)
{
    unsigned char *bytes = NULL;
    size_t count = 0;
    ph_status status = PH_OK;
    *out = (corpus){0};
    if (nftw(path, visit, 16, FTW_PHYS | FTW_ACTIONRETVAL) != 0 && found.count == 0)
        status = ph_fail(PH_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
    if (found.count > 1)
        qsort(found.at, found.count, sizeof *found.at, by_name);
    for (size_t i = 0; i < found.count && status == PH_OK; i++)
        status = append(&bytes, &count, found.at[i]);
    if (status == PH_OK)
        status = number(out, bytes, count);
    out->files = (int64_t)found.count;
    free_paths(&found);
    free(bytes);
    return status;
}

uint32_t text_checksum(const corpus *text)
{
    uint32_t sum = UINT32_C(2166136261);
    for (int64_t i = 0; i < text->count; i++)
        sum = (sum ^ text->byte_of[text->token[i]]) * UINT32_C(16777619);
    return sum;
}

void text_free(corpus *text)
{
    free(text->token);
    *text = (struct corpus){0};
}
