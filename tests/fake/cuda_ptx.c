/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_ptx.c: what the software libcuda reads of PTX text: the names of its kernels
 * and the layout of their parameters. */
#include "cuda_inside.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One word, one number or one other character; begins with '.' where the text has one before a
 * word. */
typedef struct token {
    const char *at;
    size_t length;
} token;

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

static const char *skip_blanks(const char *at)
{
    for (;;) {
        const char *end = NULL;
        while (isspace((unsigned char)*at))
            at++;
        if (strncmp(at, "//", 2) == 0)
            end = strchr(at, '\n');
        else if (strncmp(at, "/*", 2) == 0)
            end = strstr(at + 2, "*/");
        if (!end)
            return strncmp(at, "//", 2) == 0 ? at + strlen(at) : at;
        at = *end == '\n' ? end + 1 : end + 2;
    }
}

static bool next(const char **at, token *out)
{
    const char *start = skip_blanks(*at);
    if (*start == '\0')
        return false;
    const char *end = start + 1;
    if (*start == '"')
        end += strcspn(end, "\"") + (end[strcspn(end, "\"")] == '"');
    else if (is_word(*start) || *start == '.')
        while (is_word(*end))
            end++;
    *out = (token){start, (size_t)(end - start)};
    *at = end;
    return true;
}

static bool is(const token *word, const char *text)
{
    return word->length == strlen(text) && memcmp(word->at, text, word->length) == 0;
}

/* ---- is it PTX, and for this GPU ---- */
int fake_ptx_check(const char *text, char *log, size_t size)
{
    const char *at = text;
    token word;
    int depth = 0;
    int capability = (int)fake_environment("FAKE_CUDA_CAPABILITY", 90);
    if (!next(&at, &word) || !is(&word, ".version")) {
        (void)snprintf(
            log, size,
            "ptxas application ptx input, line 1; fatal   : Missing .version directive\n");
        return FAKE_INVALID_PTX;
    }
    while (next(&at, &word)) {
        depth += is(&word, "{") || is(&word, "(");
        depth -= is(&word, "}") || is(&word, ")");
        if (is(&word, ".target") && next(&at, &word) && word.length > 3 &&
            atoi(word.at + 3) > capability) {
            (void)snprintf(log, size, "ptxas fatal   : its .target %.*s is newer than the GPU\n",
                           (int)word.length, word.at);
            return FAKE_NO_BINARY;
        }
        if (is(&word, "syntax_error") || depth < 0)
            break;
    }
    if (depth == 0 && !is(&word, "syntax_error"))
        return 0;
    int line = 1;
    for (const char *c = text; c < word.at; c++)
        line += *c == '\n';
    (void)snprintf(
        log, size,
        "ptxas application ptx input, line %d; error   : Parsing error near '%.*s': syntax error\n",
        line, (int)word.length, word.at);
    return FAKE_INVALID_PTX;
}

/* ---- parameters ---- */
static size_t bytes_of_type(const token *word)
{
    static const struct {
        const char *name;
        size_t bytes;
    } types[] = {{".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2}, {".u16", 2},
                 {".s16", 2}, {".f16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4},
                 {".f32", 4}, {".b64", 8}, {".u64", 8}, {".s64", 8}, {".f64", 8}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (is(word, types[i].name))
            return types[i].bytes;
    return 0;
}

/* What follows `.param`, up to the comma or parenthesis behind it: .align 4 .b8 name[28]; the
 * alignment behind .ptr is that of what is pointed to. */
static void read_param(const char **at, size_t *bytes, size_t *alignment)
{
    token word;
    bool pointer = false;
    *bytes = *alignment = 0;
    for (const char *before = *at; next(at, &word); before = *at) {
        if (is(&word, ",") || is(&word, ")")) {
            *at = before;
            return;
        }
        pointer |= is(&word, ".ptr");
        if (is(&word, ".align") && next(at, &word) && !pointer)
            *alignment = (size_t)atol(word.at);
        else if (is(&word, "[") && next(at, &word))
            *bytes *= (size_t)atol(word.at);
        else if (*bytes == 0 && (*bytes = bytes_of_type(&word)) != 0 && *alignment == 0)
            *alignment = *bytes;
    }
}

static void read_params(fake_entry *out, const char *at)
{
    token word;
    while (next(&at, &word) && !is(&word, ")") && !is(&word, "{")) {
        size_t bytes, alignment;
        if (!is(&word, ".param") || out->count == FAKE_MOST_PARAMS)
            continue;
        read_param(&at, &bytes, &alignment);
        if (alignment == 0)
            alignment = 1;
        out->end = (out->end + alignment - 1) / alignment * alignment;
        out->params[out->count++] = (fake_param){out->end, bytes};
        out->end += bytes;
    }
}

int fake_ptx_entry(fake_entry *out, const char *text, const char *name)
{
    token word;
    for (const char *at = text; next(&at, &word);) {
        if (!is(&word, ".entry") || !next(&at, &word) || !is(&word, name))
            continue;
        memset(out, 0, sizeof *out);
        (void)snprintf(out->name, sizeof out->name, "%s", name);
        read_params(out, at);
        return 0;
    }
    return PH__R_NOT_FOUND;
}
