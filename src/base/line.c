/* SPDX-License-Identifier: MIT */
/* base/line.c: one-line messages in buffers of fixed size. */
#include "base/line.h"
#include <stdio.h>
#include <string.h>

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
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

void ph__line_vformat(char *out, size_t size, const char *format, va_list args)
{
    int needed = vsnprintf(out, size, format, args);
    if (needed < 0)
        (void)snprintf(out, size, "%s", "(a message that cannot be formatted)");
    else if ((size_t)needed >= size)
        cut_with_dots(out, size);
    size_t length = strlen(out);
    while (length > 0 && is_control(out[length - 1]))
        out[--length] = '\0';
    for (size_t i = 0; i < length; i++)
        if (is_control(out[i]))
            out[i] = ' ';
}

void ph__line_format(char *out, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ph__line_vformat(out, size, format, args);
    va_end(args);
}
