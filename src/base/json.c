/* SPDX-License-Identifier: MIT */
/* base/json.c: the JSON writer. */
#include "base/text.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    DEPTH_LIMIT = sizeof((ph__json *)0)->first / sizeof((ph__json *)0)->first[0]
};

/* Bytes of the well-formed UTF-8 character at p (no overlong form, no surrogate, nothing past U+10FFFF); 0
 * when there is none. */
static size_t utf8_length(const unsigned char *p)
{
    unsigned char lowest = 0x80, highest = 0xbf;
    size_t length;
    if (p[0] < 0x80)
        return 1;
    if (p[0] < 0xc2 || p[0] > 0xf4)
        return 0;
    length = p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
    if (p[0] == 0xe0)
        lowest = 0xa0;
    else if (p[0] == 0xed)
        highest = 0x9f;
    else if (p[0] == 0xf0)
        lowest = 0x90;
    else if (p[0] == 0xf4)
        highest = 0x8f;
    if (p[1] < lowest || p[1] > highest)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    return length;
}

static void add_escape(ph__text *text, unsigned char c)
{
    static const char special[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
    const char *found = strchr(special, c);
    if (found)
        ph__text_format(text, "\\%c", letters[found - special]);
    else if (c < 0x80)
        ph__text_format(text, "\\u%04x", (unsigned)c);
    else
        ph__text_add(text, "\\ufffd");
}

static void add_quoted(ph__text *text, const char *value)
{
    const unsigned char *p = (const unsigned char *)value;
    ph__text_add(text, "\"");
    while (*p) {
        const unsigned char *clean = p;
        size_t length;
        while (*p >= 0x20 && *p != '"' && *p != '\\' && *p != 0x7f && (length = utf8_length(p)) > 0)
            p += length;
        ph__text_add_bytes(text, (const char *)clean, (size_t)(p - clean));
        if (*p && p == clean)
            add_escape(text, *p++);
    }
    ph__text_add(text, "\"");
}

/* The comma before a key, or before a value that follows no key. */
static void separate(ph__json *json)
{
    if (json->after_key)
        json->after_key = false;
    else if (json->depth > 0 && json->first[json->depth - 1])
        json->first[json->depth - 1] = false;
    else if (json->depth > 0)
        ph__text_add(&json->text, ",");
}

void ph__json_open(ph__json *json, char bracket)
{
    if (json->depth >= DEPTH_LIMIT) {
        json->text.failed = true;
        return;
    }
    separate(json);
    ph__text_add_bytes(&json->text, &bracket, 1);
    json->first[json->depth++] = true;
}

void ph__json_close(ph__json *json, char bracket)
{
    if (json->depth == 0) {
        json->text.failed = true;
        return;
    }
    ph__text_add_bytes(&json->text, &bracket, 1);
    json->depth--;
}

void ph__json_key(ph__json *json, const char *key)
{
    separate(json);
    add_quoted(&json->text, key);
    ph__text_add(&json->text, ":");
    json->after_key = true;
}

void ph__json_string(ph__json *json, const char *value)
{
    separate(json);
    if (value)
        add_quoted(&json->text, value);
    else
        ph__text_add(&json->text, "null");
}

void ph__json_u64(ph__json *json, uint64_t value)
{
    separate(json);
    ph__text_format(&json->text, "%" PRIu64, value);
}

void ph__json_us(ph__json *json, uint64_t ns)
{
    separate(json);
    ph__text_format(&json->text, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));
}

void ph__json_i64(ph__json *json, int64_t value)
{
    separate(json);
    ph__text_format(&json->text, "%" PRId64, value);
}

void ph__json_hex(ph__json *json, uint64_t value)
{
    separate(json);
    ph__text_format(&json->text, "\"0x%" PRIx64 "\"", value);
}

void ph__json_bool(ph__json *json, bool value)
{
    separate(json);
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
    separate(json);
    if (!isfinite(value)) {
        ph__text_add(&json->text, "null");
        return;
    }
    (void)snprintf(printed, sizeof printed, "%.17g", value);
    add_number(&json->text, printed);
}
