/* SPDX-License-Identifier: MIT */
/* base/text.c: the growing text buffer. */
#include "base/text.h"
#include "base/characters.h"
#include "base/vec.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool make_room(ph__text *text, size_t bytes)
{
    void *at = text->at;
    if (text->failed)
        return false;
    if (text->capacity - text->length >= bytes)
        return true;
    text->failed = !ph__vec_grow(&at, &text->capacity, text->length, bytes, 1);
    text->at = at;
    return !text->failed;
}

void ph__text_add_bytes(ph__text *text, const char *bytes, size_t length)
{
    if (length == 0 || !make_room(text, length))
        return;
    memcpy(text->at + text->length, bytes, length);
    text->length += length;
}

void ph__text_repeat(ph__text *text, size_t begin, size_t length)
{
    if (length == 0 || !make_room(text, length))
        return;
    memcpy(text->at + text->length, text->at + begin, length);
    text->length += length;
}

void ph__text_add(ph__text *text, const char *string)
{
    ph__text_add_bytes(text, string, strlen(string));
}

void ph__text_add_shown(ph__text *text, const char *string, size_t length)
{
    const char *end = string + length, *clean = string;
    for (ph__character c; string < end && *string; string += c.bytes) {
        c = ph__character_at(string);
        if (!c.hidden)
            continue;
        ph__text_add_bytes(text, clean, (size_t)(string - clean));
        ph__text_add(text, c.broken ? "?" : " ");
        clean = string + c.bytes;
    }
    ph__text_add_bytes(text, clean, (size_t)(string - clean));
}

/* A first try into the room that is there; a second when it was too small. */
void ph__text_format(ph__text *text, const char *format, ...)
{
    if (!make_room(text, 64))
        return;
    size_t room = text->capacity - text->length;
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int needed = vsnprintf(text->at + text->length, room, format, args);
    if (needed < 0)
        text->failed = true;
    else if ((size_t)needed >= room && make_room(text, (size_t)needed + 1))
        vsnprintf(text->at + text->length, (size_t)needed + 1, format, again);
    if (!text->failed)
        text->length += (size_t)needed;
    va_end(again);
    va_end(args);
}

char *ph__text_detach(ph__text *text)
{
    ph__text_add_bytes(text, "", 1);
    char *string = text->failed ? NULL : text->at;
    if (string)
        text->at = NULL;
    ph__text_free(text);
    return string;
}

void ph__text_free(ph__text *text)
{
    ph__free(text->at);
    *text = (ph__text){0};
}
