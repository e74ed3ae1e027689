/* SPDX-License-Identifier: MIT */
/* tests/fake/nvrtc_words.c: CUDA C text as words, and text that grows. */
#include "nvrtc_inside.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void nvrtc_text_format(nvrtc_text *text, const char *format, ...)
{
    char piece[1024];
    va_list args;
    va_start(args, format);
    int written = vsnprintf(piece, sizeof piece, format, args);
    va_end(args);
    size_t length = written < 0                      ? 0
                    : (size_t)written < sizeof piece ? (size_t)written
                                                     : sizeof piece - 1;
    if (text->length + length + 1 > text->capacity) {
        size_t capacity = 2 * (text->length + length + 1);
        char *grown = realloc(text->at, capacity);
        if (!grown)
            return;
        text->at = grown;
        text->capacity = capacity;
    }
    memcpy(text->at + text->length, piece, length);
    text->length += length;
    text->at[text->length] = '\0';
}

static void advance(nvrtc_reader *reader, const char *to)
{
    for (; reader->at < to; reader->at++)
        reader->line += *reader->at == '\n';
}

static const char *end_of_line(const char *at)
{
    return at + strcspn(at, "\n");
}

/* Past blanks, comments and preprocessor lines. */
static void skip(nvrtc_reader *reader)
{
    for (;;) {
        const char *at = reader->at, *end = at;
        if (isspace((unsigned char)*at)) {
            end = at + 1;
        } else if (strncmp(at, "//", 2) == 0) {
            end = end_of_line(at);
        } else if (strncmp(at, "/*", 2) == 0) {
            const char *close = strstr(at + 2, "*/");
            end = close ? close + 2 : at + strlen(at);
        } else if (*at == '#') {
            const char *directive = at + 1 + strspn(at + 1, " \t");
            if (strncmp(directive, "error", 5) == 0 && !reader->error_line) {
                reader->error_line = reader->line;
                reader->error = directive + 5 + strspn(directive + 5, " \t");
            }
            end = end_of_line(at);
        }
        if (end == at)
            return;
        advance(reader, end);
    }
}

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

bool nvrtc_next(nvrtc_reader *reader, nvrtc_word *out)
{
    skip(reader);
    const char *start = reader->at, *end = start + 1;
    if (*start == '\0')
        return false;
    if (is_word(*start)) {
        while (is_word(*end))
            end++;
    } else if (*start == '"' || *start == '\'') {
        while (*end && *end != *start)
            end += *end == '\\' && end[1] ? 2 : 1;
        end += *end != '\0';
    }
    *out = (nvrtc_word){start, (size_t)(end - start), reader->line};
    advance(reader, end);
    return true;
}

bool nvrtc_is(const nvrtc_word *word, const char *text)
{
    return word->length == strlen(text) && memcmp(word->at, text, word->length) == 0;
}

bool nvrtc_is_name(const nvrtc_word *word)
{
    return is_word(*word->at) && !isdigit((unsigned char)*word->at);
}
