/* SPDX-License-Identifier: MIT */
/* digits/data.c: reading the images through zlib, with every bad line named. */
#include "data.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    LINE_BYTES = 1024,
    MOST_LINES = 1 << 20 /* a limit that only a wrong file reaches */
};

/* The place in the file, for messages. */
struct reader {
    gzFile file;
    const char *path;
    size_t line;
    size_t capacity;
};

static ph_status stream_status(const struct reader *r)
{
    int code = Z_OK;
    const char *text = gzerror(r->file, &code);
    if (code == Z_OK || code == Z_STREAM_END)
        return PH_OK;
    if (code == Z_ERRNO)
        return ph_fail(PH_ERROR_IO, "%s: cannot be read: %s", r->path, strerror(errno));
    if (code == Z_BUF_ERROR)
        return ph_fail(PH_ERROR_IO, "%s, after line %zu: the gzip stream is truncated", r->path,
                       r->line);
    size_t prefix = strlen(r->path); /* zlib says the path itself */
    const char *why =
        strncmp(text, r->path, prefix) == 0 && text[prefix] == ':' ? text + prefix + 2 : text;
    return ph_fail(PH_ERROR_IO, "%s, after line %zu: the gzip stream is damaged: %s", r->path,
                   r->line, why);
}

/* *more is false at the end of the file. The line's end is cut off. */
static ph_status next_line(struct reader *r, char line[LINE_BYTES], bool *more)
{
    *more = gzgets(r->file, line, LINE_BYTES) != NULL;
    size_t length = *more ? strlen(line) : 0;
    bool ended = length > 0 && line[length - 1] == '\n';
    if (!ended)
        PH_TRY(stream_status(r));
    if (!*more)
        return PH_OK;
    r->line++;
    if (!ended && length == LINE_BYTES - 1)
        return ph_fail(PH_ERROR_IO, "%s, line %zu: longer than %d characters", r->path, r->line,
                       LINE_BYTES - 2);
    if (!ended && !gzeof(r->file))
        return ph_fail(PH_ERROR_IO, "%s, line %zu: holds a zero byte", r->path, r->line);
    while (length > 0 && (line[length - 1] == '\n' || line[length - 1] == '\r'))
        line[--length] = '\0';
    return PH_OK;
}

static size_t count_values(const char *line)
{
    size_t count = *line != '\0';
    for (; *line; line++)
        count += *line == ',';
    return count;
}

static ph_status parse_value(const struct reader *r, const char **at, size_t index, long most,
                             long *value)
{
    char *end = NULL;
    errno = 0;
    long parsed = strtol(*at, &end, 10);
    bool digit = **at >= '0' && **at <= '9';
    bool negative = **at == '-' && end != *at;
    if ((!digit && !negative) || (*end != ',' && *end != '\0')) {
        int shown = (int)strcspn(*at, ",");
        return ph_fail(PH_ERROR_IO, "%s, line %zu: value %zu is '%.*s', expected an integer",
                       r->path, r->line, index + 1, shown < 20 ? shown : 20, *at);
    }
    if (errno != 0 || parsed < 0 || parsed > most)
        return ph_fail(PH_ERROR_IO, "%s, line %zu: value %zu is %.*s, expected 0 to %ld", r->path,
                       r->line, index + 1, (int)(end - *at < 20 ? end - *at : 20), *at, most);
    *value = parsed;
    *at = *end ? end + 1 : end;
    return PH_OK;
}

static ph_status parse_line(const struct reader *r, const char *line, float *pixels,
                            uint32_t *label)
{
    size_t values = count_values(line);
    if (values != PIXELS + 1)
        return ph_fail(PH_ERROR_IO, "%s, line %zu: %zu values, expected %d", r->path, r->line,
                       values, PIXELS + 1);
    long value = 0;
    for (size_t i = 0; i < PIXELS; i++) {
        PH_TRY(parse_value(r, &line, i, DARKEST, &value));
        pixels[i] = (float)value / DARKEST;
    }
    PH_TRY(parse_value(r, &line, PIXELS, CLASSES - 1, &value));
    *label = (uint32_t)value;
    return PH_OK;
}

static ph_status make_room(struct reader *r, digits *data)
{
    if (data->count < r->capacity)
        return PH_OK;
    if (data->count == MOST_LINES)
        return ph_fail(PH_ERROR_IO, "%s: more than %d lines", r->path, MOST_LINES);
    size_t capacity = r->capacity ? 2 * r->capacity : 2048;
    float *pixels = realloc(data->pixels, capacity * PIXELS * sizeof *pixels);
    if (pixels)
        data->pixels = pixels;
    uint32_t *labels = realloc(data->labels, capacity * sizeof *labels);
    if (labels)
        data->labels = labels;
    if (!pixels || !labels)
        return ph_fail(PH_ERROR_HOST_MEMORY, "%s: no memory for %zu images", r->path, capacity);
    r->capacity = capacity;
    return PH_OK;
}

static ph_status read_lines(struct reader *r, digits *data)
{
    char line[LINE_BYTES];
    for (;;) {
        bool more = false;
        PH_TRY(next_line(r, line, &more));
        if (!more)
            break;
        PH_TRY(make_room(r, data));
        PH_TRY(
            parse_line(r, line, data->pixels + data->count * PIXELS, &data->labels[data->count]));
        data->count++;
    }
    if (data->count == 0)
        return ph_fail(PH_ERROR_IO, "%s: the file is empty", r->path);
    return PH_OK;
}

ph_status digits_read(digits *out, const char *path)
{
    *out = (digits){0};
    struct reader r = {.path = path};
    errno = 0;
    r.file = gzopen(path, "rb");
    if (!r.file)
        return ph_fail(errno ? PH_ERROR_IO : PH_ERROR_HOST_MEMORY, "%s: cannot be opened: %s", path,
                       strerror(errno ? errno : ENOMEM));
    ph_status st = read_lines(&r, out);
    int closed = gzclose_r(r.file);
    if (st == PH_OK && closed != Z_OK)
        st = ph_fail(PH_ERROR_IO, "%s: the gzip stream is truncated", path);
    if (st != PH_OK)
        digits_free(out);
    return st;
}

void digits_free(digits *data)
{
    free(data->pixels);
    free(data->labels);
    *data = (digits){0};
}

uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

float random_uniform(uint64_t *state, float low, float high)
{
    float unit = (float)(random_next(state) >> 40) * 0x1p-24f;
    return low + (high - low) * unit;
}

void random_order(uint64_t *state, uint32_t *order, size_t count)
{
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = count; i > 1; i--) {
        size_t other = (size_t)(random_next(state) % i);
        uint32_t kept = order[i - 1];
        order[i - 1] = order[other];
        order[other] = kept;
    }
}
