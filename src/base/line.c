/* SPDX-License-Identifier: MIT */
/* base/line.c: one-line messages in buffers of fixed size. */
#include "base/line.h"
#include "base/characters.h"
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* out holds size - 1 bytes of a longer text. Bytes that are no UTF-8 are cut where they are. */
static void cut_with_dots(char *out, size_t size)
{
    size_t end = size - sizeof "...", back = 0;
    while (back < 3 && back < end && is_continuation(out[end - back]))
        back++;
    if (!is_continuation(out[end - back]))
        end -= back;
    memcpy(out + end, "...", sizeof "...");
}

/* In place: what is put for a character is never longer than it. */
static void make_one_line(char *out)
{
    size_t length = 0, end = 0; /* end: behind the last character that is not hidden */
    for (const char *at = out; *at;) {
        ph__character c = ph__character_at(at);
        if (c.hidden)
            out[length++] = c.broken ? '?' : ' ';
        else
            for (size_t i = 0; i < c.bytes; i++)
                out[length++] = at[i];
        at += c.bytes;
        if (!c.hidden || c.broken)
            end = length;
    }
    out[end] = '\0';
}

void ph__line_vformat(char *out, size_t size, const char *format, va_list args)
{
    int needed = vsnprintf(out, size, format, args);
    if (needed < 0)
        (void)snprintf(out, size, "%s", "(a message that cannot be formatted)");
    else if ((size_t)needed >= size)
        cut_with_dots(out, size);
    make_one_line(out);
}

void ph__line_format(char *out, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ph__line_vformat(out, size, format, args);
    va_end(args);
}

void ph__line_add(ph__line_buffer *to, const char *format, ...)
{
    bool room = to->length < to->size;
    va_list args;
    va_start(args, format);
    int more = vsnprintf(room ? to->out + to->length : NULL, room ? to->size - to->length : 0,
                         format, args);
    va_end(args);
    if (more > 0)
        to->length += (size_t)more;
}
