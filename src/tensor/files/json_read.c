/* SPDX-License-Identifier: MIT */
/* tensor/files/json_read.c: JSON from sources that are not trusted. */
#include "tensor/files/json_read.h"
#include "base/alloc.h"
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void ph__json_in_start(ph__json_in *in, const char *text, size_t length)
{
    *in = (ph__json_in){.start = text, .at = text, .end = text + length};
}

bool ph__json_in_fail(ph__json_in *in, const char *wrong)
{
    if (!in->wrong) {
        in->wrong = wrong;
        in->place = (size_t)(in->at - in->start);
    }
    return false;
}

char ph__json_in_peek(ph__json_in *in)
{
    if (in->wrong)
        return 0;
    while (in->at < in->end &&
           (*in->at == ' ' || *in->at == '\t' || *in->at == '\n' || *in->at == '\r'))
        in->at++;
    return in->at < in->end ? *in->at : 0;
}

static bool accept_json_char(ph__json_in *in, char c, const char *wrong)
{
    if (ph__json_in_peek(in) != c || in->at == in->end)
        return ph__json_in_fail(in, wrong);
    in->at++;
    return true;
}

bool ph__json_in_open(ph__json_in *in, char bracket)
{
    if (!accept_json_char(in, bracket,
                          bracket == '{' ? "an object ('{') must stand here"
                                         : "an array ('[') must stand here"))
        return false;
    if (in->depth == PH__JSON_DEPTH)
        return ph__json_in_fail(in, "brackets are nested too deeply");
    in->depth++;
    in->fresh = true;
    return true;
}

bool ph__json_in_more(ph__json_in *in, char bracket)
{
    char next = ph__json_in_peek(in);
    bool first = in->fresh;
    in->fresh = false;
    if (in->wrong)
        return false;
    if (next == bracket && in->at < in->end) {
        in->at++;
        in->depth--;
        return false;
    }
    return first || accept_json_char(in, ',', "a comma or a closing bracket must stand here");
}

/* ---- strings ---- */
/* Bytes of the UTF-8 character at p, or 0 when it is none (RFC 3629: shortest forms, no
 * surrogates, up to U+10FFFF). */
static size_t utf8_length(const unsigned char *p, size_t left)
{
    unsigned char lead = p[0], low = 0x80, high = 0xBF;
    size_t length = lead < 0x80   ? 1
                    : lead < 0xC2 ? 0
                    : lead < 0xE0 ? 2
                    : lead < 0xF0 ? 3
                    : lead < 0xF5 ? 4
                                  : 0;
    if (length == 0 || length > left)
        return 0;
    low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : low;
    high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : high;
    for (size_t i = 1; i < length; i++) {
        if (p[i] < low || p[i] > high)
            return 0;
        low = 0x80;
        high = 0xBF;
    }
    return length;
}

bool ph__json_is_utf8(const char *text)
{
    size_t left = strlen(text), length = 0;
    for (; left > 0; text += length, left -= length) {
        length = utf8_length((const unsigned char *)text, left);
        if (length == 0)
            return false;
    }
    return true;
}

static bool read_hex(ph__json_in *in, uint32_t *out)
{
    uint32_t value = 0;
    if (in->end - in->at < 4)
        return ph__json_in_fail(in, "four hexadecimal digits must stand here");
    for (int i = 0; i < 4; i++) {
        char c = in->at[i];
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                                : 16;
        if (digit == 16)
            return ph__json_in_fail(in, "four hexadecimal digits must stand here");
        value = value * 16 + digit;
    }
    in->at += 4;
    *out = value;
    return true;
}

static char *put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xC0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3F));
    } else if (c < 0x10000) {
        *to++ = (char)(0xE0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3F));
        *to++ = (char)(0x80 | (c & 0x3F));
    } else {
        *to++ = (char)(0xF0 | c >> 18);
        *to++ = (char)(0x80 | (c >> 12 & 0x3F));
        *to++ = (char)(0x80 | (c >> 6 & 0x3F));
        *to++ = (char)(0x80 | (c & 0x3F));
    }
    return to;
}

/* Behind "\u". */
static char *read_unicode(ph__json_in *in, char *to)
{
    uint32_t c, second;
    if (!read_hex(in, &c))
        return NULL;
    if (c == 0)
        return (void)ph__json_in_fail(in, "a NUL in a string"), NULL;
    if (c >= 0xDC00 && c <= 0xDFFF)
        return (void)ph__json_in_fail(in, "the second half of a surrogate pair without its first"),
               NULL;
    if (c >= 0xD800 && c <= 0xDBFF) {
        bool escape = in->end - in->at >= 2 && in->at[0] == '\\' && in->at[1] == 'u';
        in->at += escape ? 2 : 0;
        if (!escape || !read_hex(in, &second) || second < 0xDC00 || second > 0xDFFF)
            return (void)ph__json_in_fail(in,
                                          "the first half of a surrogate pair without its second"),
                   NULL;
        c = 0x10000 + ((c - 0xD800) << 10) + (second - 0xDC00);
    }
    return put_utf8(to, c);
}

/* Behind the backslash. */
static char *read_escape(ph__json_in *in, char *to)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    char c = in->at < in->end ? *in->at : 0;
    const char *found = c ? strchr(names, c) : NULL;
    if (!found && c != 'u')
        return (void)ph__json_in_fail(in, "no such escape"), NULL;
    in->at++;
    if (c == 'u')
        return read_unicode(in, to);
    *to = values[found - names];
    return to + 1;
}

/* One character, or one escape; NULL: failed. */
static char *read_character(ph__json_in *in, char *to)
{
    unsigned char c = (unsigned char)*in->at;
    if (c == '\\') {
        in->at++;
        return read_escape(in, to);
    }
    if (c < 0x20)
        return (void)ph__json_in_fail(in, "a control character in a string"), NULL;
    size_t length = utf8_length((const unsigned char *)in->at, (size_t)(in->end - in->at));
    if (length == 0)
        return (void)ph__json_in_fail(in, "bytes that are no UTF-8"), NULL;
    memcpy(to, in->at, length);
    in->at += length;
    return to + length;
}

/* Where the string that begins at `at` would end, at the latest: no escape grows when it is
 * decoded. */
static size_t string_room(const ph__json_in *in)
{
    const char *p = in->at;
    while (p < in->end && *p != '"')
        p += *p == '\\' && p + 1 < in->end ? 2 : 1;
    return (size_t)(p - in->at) + 1;
}

char *ph__json_in_string(ph__json_in *in)
{
    if (!accept_json_char(in, '"', "a string must stand here"))
        return NULL;
    char *text = ph__alloc(string_room(in)), *to = text;
    if (!text) {
        in->no_memory = true;
        return (void)ph__json_in_fail(in, "no host memory for a string"), NULL;
    }
    while (to && in->at < in->end && *in->at != '"')
        to = read_character(in, to);
    if (to && in->at == in->end)
        (void)ph__json_in_fail(in, "a string without an end");
    if (in->wrong) {
        ph__free(text);
        return NULL;
    }
    in->at++;
    *to = '\0';
    return text;
}

char *ph__json_in_key(ph__json_in *in)
{
    char *key = ph__json_in_string(in);
    if (key && !accept_json_char(in, ':', "a colon must stand here")) {
        ph__free(key);
        return NULL;
    }
    return key;
}

/* ---- numbers ---- */
bool ph__json_in_u64(ph__json_in *in, uint64_t *out)
{
    char c = ph__json_in_peek(in);
    uint64_t value = 0;
    if (in->wrong || c < '0' || c > '9')
        return ph__json_in_fail(in, "a whole number that is not negative must stand here");
    const char *first = in->at;
    for (; in->at < in->end && *in->at >= '0' && *in->at <= '9'; in->at++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*in->at - '0'), &value))
            return ph__json_in_fail(in, "a number beyond 64 bits");
    if (*first == '0' && in->at - first > 1)
        return ph__json_in_fail(in, "a number with a leading zero");
    if (in->at < in->end && (*in->at == '.' || *in->at == 'e' || *in->at == 'E'))
        return ph__json_in_fail(in, "a whole number must stand here");
    *out = value;
    return true;
}

static bool is_digit(const ph__json_in *in, const char *at)
{
    return at < in->end && *at >= '0' && *at <= '9';
}

static const char *skip_digits(const ph__json_in *in, const char *at)
{
    while (is_digit(in, at))
        at++;
    return at;
}

/* The end of the number that begins at in->at, as the grammar has it; NULL: none is there. */
static const char *end_of_number(const ph__json_in *in, bool *is_whole)
{
    const char *at = in->at + (in->at < in->end && *in->at == '-');
    if (!is_digit(in, at) || (*at == '0' && is_digit(in, at + 1)))
        return NULL;
    at = skip_digits(in, at);
    *is_whole = true;
    if (at < in->end && *at == '.') {
        *is_whole = false;
        if (!is_digit(in, ++at))
            return NULL;
        at = skip_digits(in, at);
    }
    if (at < in->end && (*at == 'e' || *at == 'E')) {
        *is_whole = false;
        at++;
        at += at < in->end && (*at == '+' || *at == '-');
        if (!is_digit(in, at))
            return NULL;
        at = skip_digits(in, at);
    }
    return at;
}

static bool whole_of(const char *at, const char *end, int64_t *out)
{
    bool negative = *at == '-';
    int64_t value = 0;
    for (at += negative; at < end; at++) {
        int digit = *at - '0';
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, negative ? -digit : digit, &value))
            return false;
    }
    *out = value;
    return !(negative && value == 0);
}

/* By the rules of the C locale, whatever the thread's is. False: no host memory. */
static bool to_double(const char *at, size_t length, double *out)
{
    char *text = ph__alloc(length + 1);
    locale_t c = text ? newlocale(LC_ALL_MASK, "C", (locale_t)0) : (locale_t)0;
    if (c != (locale_t)0) {
        memcpy(text, at, length);
        text[length] = '\0';
        locale_t before = uselocale(c);
        *out = strtod(text, NULL);
        (void)uselocale(before);
        freelocale(c);
    }
    ph__free(text);
    return c != (locale_t)0;
}

bool ph__json_in_number(ph__json_in *in, double *real, int64_t *whole, bool *is_whole)
{
    (void)ph__json_in_peek(in);
    const char *end = in->wrong ? NULL : end_of_number(in, is_whole);
    if (!end)
        return ph__json_in_fail(in, "a number must stand here");
    if (!to_double(in->at, (size_t)(end - in->at), real)) {
        in->no_memory = true;
        return ph__json_in_fail(in, "no host memory for a number");
    }
    if (!isfinite(*real))
        return ph__json_in_fail(in, "a number beyond all doubles");
    *whole = 0;
    *is_whole = *is_whole && whole_of(in->at, end, whole);
    *whole = *is_whole ? *whole : 0;
    in->at = end;
    return true;
}

bool ph__json_in_end(ph__json_in *in)
{
    (void)ph__json_in_peek(in);
    return in->at == in->end ? !in->wrong : ph__json_in_fail(in, "something behind the end");
}
