/* SPDX-License-Identifier: MIT */
/* tests/fake/nvrtc_types.c: the sizes of the types that kernels have as parameters. */
#include "nvrtc_inside.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const nvrtc_type built_in[] = {
    {"bool", 1, 1},    {"char", 1, 1},     {"short", 2, 2},     {"int", 4, 4},     {"float", 4, 4},
    {"long", 8, 8},    {"double", 8, 8},   {"size_t", 8, 8},    {"uchar4", 4, 4},  {"int2", 8, 8},
    {"int4", 16, 16},  {"uint2", 8, 8},    {"uint3", 12, 4},    {"uint4", 16, 16}, {"float2", 8, 8},
    {"float3", 12, 4}, {"float4", 16, 16}, {"double2", 16, 16}, {"dim3", 12, 4},
};

static bool is_qualifier(const nvrtc_word *word)
{
    static const char *const words[] = {"const",        "volatile",          "struct",
                                        "__restrict__", "__grid_constant__", "signed"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (nvrtc_is(word, words[i]))
            return true;
    return false;
}

static const nvrtc_type *find(const nvrtc_types *types, const nvrtc_word *word)
{
    for (size_t i = 0; i < types->count; i++)
        if (nvrtc_is(word, types->own[i].name))
            return &types->own[i];
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in; i++)
        if (nvrtc_is(word, built_in[i].name))
            return &built_in[i];
    return NULL;
}

/* "unsigned long long n": the last type's word counts; "unsigned n" is an int; a name may be
 * missing. */
bool nvrtc_type_of(nvrtc_type *out, nvrtc_word *unknown, const nvrtc_types *types,
                   const nvrtc_word *words, size_t count)
{
    const nvrtc_type *found = NULL;
    bool is_unsigned = false, has_unknown = false;
    for (size_t i = 0; i < count; i++) {
        if (nvrtc_is(&words[i], "*")) {
            *out = (nvrtc_type){"*", 8, 8};
            return true;
        }
        is_unsigned |= nvrtc_is(&words[i], "unsigned");
        if (is_qualifier(&words[i]) || nvrtc_is(&words[i], "unsigned"))
            continue;
        const nvrtc_type *type = find(types, &words[i]);
        if (type && !(found && nvrtc_is(&words[i], "int")))
            found = type;
        if (!type && !found && !is_unsigned && !has_unknown) {
            has_unknown = true;
            *unknown = words[i];
        }
    }
    if (!found && is_unsigned)
        found = &built_in[3];
    if (found)
        *out = *found;
    return found != NULL;
}

/* ---- definitions ---- */
enum {
    MOST_WORDS = 32
};

static void add(nvrtc_types *types, const nvrtc_word *name, size_t bytes, size_t alignment)
{
    if (types->count == NVRTC_TYPES)
        return;
    nvrtc_type *type = &types->own[types->count++];
    (void)snprintf(type->name, sizeof type->name, "%.*s", (int)name->length, name->at);
    type->bytes = (bytes + alignment - 1) / alignment * alignment;
    type->alignment = alignment;
}

/* One declaration up to its semicolon: its words, and the product of its array bounds. False at
 * a closing brace. */
static bool read_member(nvrtc_reader *reader, nvrtc_word *words, size_t *count, size_t *elements)
{
    nvrtc_word word;
    *count = 0;
    *elements = 1;
    while (nvrtc_next(reader, &word)) {
        if (nvrtc_is(&word, "}"))
            return false;
        if (nvrtc_is(&word, ";"))
            return true;
        if (nvrtc_is(&word, "[")) {
            if (nvrtc_next(reader, &word))
                *elements *= (size_t)atol(word.at);
            (void)nvrtc_next(reader, &word);
        } else if (*count < MOST_WORDS) {
            words[(*count)++] = word;
        }
    }
    return false;
}

/* Behind the opening brace. "int a, b" has as many members as commas and one. */
static bool read_members(const nvrtc_types *types, nvrtc_reader *reader, size_t *bytes,
                         size_t *alignment, nvrtc_word *unknown)
{
    nvrtc_word words[MOST_WORDS];
    size_t count, elements;
    *bytes = 0;
    *alignment = 1;
    while (read_member(reader, words, &count, &elements)) {
        nvrtc_type type;
        if (!nvrtc_type_of(&type, unknown, types, words, count))
            return false;
        for (size_t i = 0; i < count; i++)
            elements += nvrtc_is(&words[i], ",");
        *bytes =
            (*bytes + type.alignment - 1) / type.alignment * type.alignment + elements * type.bytes;
        *alignment = type.alignment > *alignment ? type.alignment : *alignment;
    }
    return true;
}

bool nvrtc_read_struct(nvrtc_types *types, nvrtc_reader *reader, nvrtc_word *unknown)
{
    nvrtc_word name, word;
    size_t bytes, alignment;
    nvrtc_reader ahead = *reader;
    if (!nvrtc_next(&ahead, &name) || !nvrtc_is_name(&name) || !nvrtc_next(&ahead, &word) ||
        !nvrtc_is(&word, "{"))
        return true; /* no definition */
    if (!read_members(types, &ahead, &bytes, &alignment, unknown))
        return false;
    add(types, &name, bytes, alignment);
    *reader = ahead;
    return true;
}

bool nvrtc_read_typedef(nvrtc_types *types, nvrtc_reader *reader, nvrtc_word *unknown)
{
    nvrtc_word words[MOST_WORDS], word;
    size_t count = 0, bytes = 0, alignment = 0;
    while (nvrtc_next(reader, &word) && !nvrtc_is(&word, ";")) {
        if (nvrtc_is(&word, "{") && !read_members(types, reader, &bytes, &alignment, unknown))
            return false;
        if (!nvrtc_is(&word, "{") && count < MOST_WORDS)
            words[count++] = word;
    }
    nvrtc_type type;
    if (count == 0)
        return true;
    if (alignment == 0) {
        if (!nvrtc_type_of(&type, unknown, types, words, count - 1))
            return false;
        bytes = type.bytes;
        alignment = type.alignment;
    }
    add(types, &words[count - 1], bytes, alignment);
    return true;
}
