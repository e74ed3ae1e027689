/* SPDX-License-Identifier: MIT */
/* base/json.c: the JSON writer. */
#include "base/json.h"
#include "base/characters.h"
#include "base/text.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static void add_escape(ph__text *text, const ph__character *c)
{
    static const char special[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    const char *found = c->code < 0x80 ? strchr(special, (int)c->code) : NULL;
    if (c->broken)
        ph__text_add(text, "\\ufffd");
    else if (found)
        ph__text_format(text, "\\%c", letters[found - special]);
    else
        ph__text_format(text, "\\u%04x", (unsigned)c->code);
}

static bool stands_as_it_is(const ph__character *c)
{
    return !c->hidden && c->code != '"' && c->code != '\\';
}

/* Most texts are plain ASCII from end to end. */
static const char *skip_plain(const char *value)
{
    while (*value >= 0x20 && *value < 0x7f && *value != '"' && *value != '\\')
        value++;
    return value;
}

static void add_quoted(ph__text *text, const char *value)
{
    ph__text_add(text, "\"");
    while (*value) {
        const char *clean = value;
        value = skip_plain(value);
        ph__character c = ph__character_at(value);
        for (; stands_as_it_is(&c); c = ph__character_at(value))
            value += c.bytes;
        ph__text_add_bytes(text, clean, (size_t)(value - clean));
        if (*value) {
            add_escape(text, &c);
            value += c.bytes;
        }
    }
    ph__text_add(text, "\"");
}

/* The comma before a key, or before a value that follows no key. */
static void write_separator(ph__json *json)
{
    if (json->after_key)
        json->after_key = false;
    else if (json->first)
        json->first = false;
    else if (json->depth > 0)
        ph__text_add(&json->text, ",");
}

void ph__json_open(ph__json *json, char bracket)
{
    write_separator(json);
    ph__text_add_bytes(&json->text, &bracket, 1);
    json->depth++;
    json->first = true;
}

void ph__json_close(ph__json *json, char bracket)
{
    if (json->depth == 0) {
        json->text.failed = true;
        return;
    }
    ph__text_add_bytes(&json->text, &bracket, 1);
    json->depth--;
    json->first = false;
}

void ph__json_key(ph__json *json, const char *key)
{
    write_separator(json);
    add_quoted(&json->text, key);
    ph__text_add(&json->text, ":");
    json->after_key = true;
}

void ph__json_string(ph__json *json, const char *value)
{
    write_separator(json);
    if (value)
        add_quoted(&json->text, value);
    else
        ph__text_add(&json->text, "null");
}

void ph__json_repeat(ph__json *json, size_t begin, size_t end)
{
    write_separator(json);
    ph__text_repeat(&json->text, begin, end - begin);
}

/* Ends before `end`; gives its begin. printf would take most of the time of a record. */
static char *put_digits(char *end, uint64_t value, unsigned base)
{
    do
        *--end = "0123456789abcdef"[value % base];
    while (value /= base);
    return end;
}

void ph__json_u64(ph__json *json, uint64_t value)
{
    char room[20], *end = room + sizeof room, *at = put_digits(end, value, 10);
    write_separator(json);
    ph__text_add_bytes(&json->text, at, (size_t)(end - at));
}

void ph__json_us(ph__json *json, uint64_t ns)
{
    write_separator(json);
    ph__text_format(&json->text, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));
}

void ph__json_i64(ph__json *json, int64_t value)
{
    write_separator(json);
    ph__text_format(&json->text, "%" PRId64, value);
}

void ph__json_hex(ph__json *json, uint64_t value)
{
    char room[20], *end = room + sizeof room, *at = end;
    write_separator(json);
    *--at = '"';
    at = put_digits(at, value, 16);
    *--at = 'x';
    *--at = '0';
    *--at = '"';
    ph__text_add_bytes(&json->text, at, (size_t)(end - at));
}

void ph__json_bool(ph__json *json, bool value)
{
    write_separator(json);
    ph__text_add(&json->text, value ? "true" : "false");
}

/* The decimal point of the process's locale, which may be several bytes, becomes JSON's. */
static void add_number(ph__text *text, const char *printed)
{
    while (*printed) {
        size_t plain = strspn(printed, "0123456789+-e");
        ph__text_add_bytes(text, printed, plain);
        printed += plain;
        if (*printed) {
            ph__text_add(text, ".");
            printed += strcspn(printed, "0123456789+-e");
        }
    }
}

void ph__json_f64(ph__json *json, double value)
{
    char printed[64];
    write_separator(json);
    if (!isfinite(value)) {
        ph__text_add(&json->text, "null");
        return;
    }
    (void)snprintf(printed, sizeof printed, "%.17g", value);
    add_number(&json->text, printed);
}
