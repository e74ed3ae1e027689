/* SPDX-License-Identifier: MIT */
/* cli/load.c: reading JSON from a file that nothing is known about. */
#include "load.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Larger than the record of a million nodes; stops what never ends, such as /dev/zero. */
static const size_t most_bytes = (size_t)1 << 30;

struct source {
    FILE *file;
    size_t bytes;
    int error;             /* errno of the read that failed */
    bool too_long, marked; /* marked: a byte order mark is at its beginning */
    struct cut *cut;       /* NULL: all of it is kept */
};

/* Of UTF-8, or of UTF-16 in either order. */
static bool begins_with_mark(const unsigned char *bytes, size_t count)
{
    return (count >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0) ||
           (count >= 2 && (memcmp(bytes, "\xff\xfe", 2) == 0 || memcmp(bytes, "\xfe\xff", 2) == 0));
}

static size_t read_bytes(void *buffer, size_t size, struct source *s)
{
    size_t got = fread(buffer, 1, size, s->file);
    if (got < size && ferror(s->file)) {
        s->error = errno;
        return (size_t)-1;
    }
    s->marked = s->marked || (s->bytes == 0 && begins_with_mark(buffer, got));
    s->bytes += got;
    s->too_long = s->bytes > most_bytes;
    return s->too_long ? (size_t)-1 : got;
}

/* What is left out reads as nothing, which would be the end. A single node may be as large as
 * all others. */
static size_t read_some(void *buffer, size_t size, void *user)
{
    struct source *s = user;
    char text[1024];
    size_t kept = 0;
    if (!s->cut)
        return read_bytes(buffer, size, s);
    while (kept == 0 && size > CUT_HELD) {
        size_t room = size - CUT_HELD,
               got = read_bytes(text, room < sizeof text ? room : sizeof text, s);
        if (got == 0 || got == (size_t)-1)
            return got;
        kept = cut_text(s->cut, buffer, text, got);
        s->too_long = s->cut->bytes / 2 > s->cut->most_bytes;
        if (s->too_long)
            return (size_t)-1;
    }
    return kept;
}

static ph_status say_why(const struct source *s, const json_error_t *error, const char *path)
{
    if (s->error)
        return ph_fail(PH_ERROR_IO, "%s: cannot be read: %s", path, strerror(s->error));
    if (s->too_long)
        return ph_fail(PH_ERROR_IO, "%s: longer than %zu bytes", path,
                       s->bytes > most_bytes ? most_bytes : 2 * s->cut->most_bytes);
    if (s->bytes == 0)
        return ph_fail(PH_ERROR_IO, "%s: empty", path);
    if (s->marked)
        return ph_fail(
            PH_ERROR_IO,
            "%s: begins with a byte order mark, which JSON has not; save it as UTF-8 without one",
            path);
    enum json_error_code code = json_error_code(error);
    if (code == json_error_out_of_memory)
        return ph_fail(PH_ERROR_HOST_MEMORY, "%s: no memory to read it", path);
    if (code == json_error_premature_end_of_input &&
        !feof(s->file)) /* a zero byte is the end to the parser */
        return ph_fail(PH_ERROR_IO, "%s, line %d, column %d: cannot be read as JSON: a zero byte",
                       path, error->line, error->column);
    return ph_fail(PH_ERROR_IO, "%s, line %d, column %d: %s%s", path, error->line, error->column,
                   code == json_error_premature_end_of_input ? "truncated: "
                                                             : "cannot be read as JSON: ",
                   error->text);
}

const char *load_name(const char *path)
{
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

ph_status load_json(json_t **out, const char *path, cut *bounds)
{
    bool standard_input = strcmp(path, "-") == 0;
    struct source s = {.file = standard_input ? stdin : fopen(path, "rbe"), .cut = bounds};
    *out = NULL;
    if (!s.file)
        return ph_fail(PH_ERROR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    json_error_t error;
    *out = json_load_callback(read_some, &s, JSON_REJECT_DUPLICATES, &error);
    ph_status st = *out ? PH_OK : say_why(&s, &error, load_name(path));
    if (!standard_input)
        (void)fclose(s.file);
    return st;
}

/* ---- places ---- */

static void append(char *text, size_t size, const char *format, ...) PH_PRINTF(3, 4);
static void append(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

static void put_place(char *text, size_t size, const place *at)
{
    if (at->up)
        put_place(text, size, at->up);
    if (at->key)
        append(text, size, "%s%s", *text ? "." : "", at->key);
    if (at->index != NO_INDEX)
        append(text, size, "[%zu]", at->index);
}

const char *show_text(char room[SHOWN_TEXT], const char *text)
{
    size_t most = SHOWN_TEXT - sizeof "...", length = strlen(text), kept = length;
    if (length > most)
        for (kept = most; kept > 0 && ((unsigned char)text[kept] & 0xc0) == 0x80;)
            kept--;
    memcpy(room, text, kept);
    (void)strcpy(room + kept, length > most ? "..." : "");
    return room;
}

/* Of a place deep inside bodies its beginning and its end, in whole names, so that what is wrong
 * stands out. Keys are ours, and shorter than either. */
static void shorten(char *where)
{
    static const char gap[] = " ... ";
    enum {
        FIRST = 40,
        LAST = 60
    };
    size_t length = strlen(where), first = FIRST, last;
    if (length <= FIRST + LAST)
        return;
    last = length - LAST;
    while (first > 0 && where[first] != '.')
        first--;
    while (where[last] != '.' && last + 1 < length)
        last++;
    memcpy(where + first, gap, sizeof gap - 1);
    memmove(where + first + sizeof gap - 1, where + last + 1, length - last);
}

ph_status bad_field(const place *at, const char *key, const char *format, ...)
{
    char where[2400] = "", what[240];
    put_place(where, sizeof where, at);
    if (key)
        append(where, sizeof where, "%s%s", *where ? "." : "", key);
    shorten(where);
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    return ph_fail(PH_ERROR_IO, "%s: %s%s%s", at->path, where, *where ? ": " : "", what);
}

/* ---- fields ---- */

static ph_status get_field(json_t **out, const place *at, json_t *object, const char *key)
{
    *out = json_object_get(object, key);
    return *out ? PH_OK : bad_field(at, key, "is missing");
}

ph_status get_object(json_t **out, const place *at, json_t *value)
{
    *out = value;
    return json_is_object(value) ? PH_OK : bad_field(at, NULL, "is no object");
}

ph_status get_array(json_t **out, const place *at, json_t *object, const char *key)
{
    PH_TRY(get_field(out, at, object, key));
    return json_is_array(*out) ? PH_OK : bad_field(at, key, "is no array");
}

ph_status get_string(const char **out, const place *at, json_t *object, const char *key)
{
    json_t *value;
    PH_TRY(get_field(&value, at, object, key));
    *out = json_string_value(value);
    return *out ? PH_OK : bad_field(at, key, "is no string");
}

static ph_status number_of(uint64_t *out, json_t *value, const place *at, const char *key,
                           uint64_t most)
{
    if (!json_is_integer(value))
        return bad_field(at, key, "is no whole number");
    json_int_t number = json_integer_value(value);
    if (number < 0 || (uint64_t)number > most)
        return bad_field(at, key, "is %" JSON_INTEGER_FORMAT ", expected 0 to %" PRIu64, number,
                         most);
    *out = (uint64_t)number;
    return PH_OK;
}

ph_status get_u64(uint64_t *out, const place *at, json_t *object, const char *key, uint64_t most)
{
    json_t *value;
    PH_TRY(get_field(&value, at, object, key));
    return number_of(out, value, at, key, most);
}

ph_status get_u64s(uint64_t *out, size_t count, const place *at, json_t *object, const char *key,
                   uint64_t most)
{
    json_t *array;
    PH_TRY(get_array(&array, at, object, key));
    if (json_array_size(array) != count)
        return bad_field(at, key, "has %zu elements, expected %zu", json_array_size(array), count);
    for (size_t i = 0; i < count; i++) {
        place element = {.up = at, .key = key, .index = i, .path = at->path};
        PH_TRY(number_of(&out[i], json_array_get(array, i), &element, NULL, most));
    }
    return PH_OK;
}

ph_status get_hex(uint64_t *out, const place *at, json_t *object, const char *key)
{
    const char *text;
    char shown[SHOWN_TEXT];
    PH_TRY(get_string(&text, at, object, key));
    size_t digits = strncmp(text, "0x", 2) == 0 ? strspn(text + 2, "0123456789abcdefABCDEF") : 0;
    if (digits == 0 || digits > 16 || text[2 + digits] != '\0')
        return bad_field(at, key, "is \"%s\", expected an address such as \"0x7f00\"",
                         show_text(shown, text));
    *out = strtoull(text, NULL, 16);
    return PH_OK;
}

ph_status get_bool(bool *out, const place *at, json_t *object, const char *key)
{
    json_t *value;
    PH_TRY(get_field(&value, at, object, key));
    *out = json_is_true(value);
    return json_is_boolean(value) ? PH_OK : bad_field(at, key, "is neither true nor false");
}
