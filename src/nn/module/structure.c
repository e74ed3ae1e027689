/* SPDX-License-Identifier: MIT */
/* nn/module/structure.c: how flat arrays of tensors nest: counting, naming and comparing
 * structures. */
#include "base/checked.h"
#include <phonograph/graphed.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_DEPTH = 16,  /* lists and dicts in each other */
    PATH_BYTES = 256, /* of a place in words */
    WORDS_BYTES = 128
};

static const ph_structure a_tensor = {.kind = PH_STRUCTURE_TENSOR};

static const ph_structure *structure_child(const ph_structure *s, size_t i)
{
    return s->children ? &s->children[i] : &a_tensor;
}

/* ---- counting ---- */
static bool keys_are_right(const ph_structure *s)
{
    if (s->kind != PH_STRUCTURE_DICT || s->count == 0)
        return true;
    for (size_t i = 0; s->keys && i < s->count; i++) {
        if (!s->keys[i])
            return false;
        for (size_t k = 0; k < i; k++)
            if (strcmp(s->keys[k], s->keys[i]) == 0)
                return false;
    }
    return s->keys;
}

/* Adds to *count; false: it is malformed. */
static bool add_count(size_t *count, const ph_structure *s, size_t depth)
{
    if (s->kind == PH_STRUCTURE_TENSOR)
        return ph__add(*count, 1, count);
    if ((s->kind != PH_STRUCTURE_LIST && s->kind != PH_STRUCTURE_DICT) || depth == MOST_DEPTH ||
        !keys_are_right(s))
        return false;
    if (!s->children)
        return ph__add(*count, s->count, count);
    for (size_t i = 0; i < s->count; i++)
        if (!add_count(count, &s->children[i], depth + 1))
            return false;
    return true;
}

size_t ph_structure_count(const ph_structure *structure)
{
    size_t count = 0;
    return !structure || add_count(&count, structure, 0) ? count : SIZE_MAX;
}

/* ---- naming ---- text that may end early, and how long it would be. */
typedef struct path {
    char *at;
    size_t size, length;
} path;

static path path_begin(char *out, size_t size)
{
    if (size > 0)
        out[0] = '\0';
    return (path){out, size, 0};
}

static void path_cut(path *p, size_t length)
{
    p->length = length;
    if (length < p->size)
        p->at[length] = '\0';
}

static void path_add(path *p, const char *before, const char *text, const char *behind)
{
    bool fits = p->length < p->size;
    int more = snprintf(fits ? p->at + p->length : NULL, fits ? p->size - p->length : 0, "%s%s%s",
                        before, text, behind);
    p->length += more > 0 ? (size_t)more : 0;
}

static void path_add_child(path *p, const ph_structure *s, size_t i)
{
    char number[24];
    if (s->kind == PH_STRUCTURE_DICT) {
        path_add(p, p->length > 0 ? "." : "", s->keys[i], "");
        return;
    }
    (void)snprintf(number, sizeof number, "%zu", i);
    path_add(p, "[", number, "]");
}

/* Down to the tensor that *index counts to, in a structure that is not malformed. Behind its end
 * *index has become less. */
static bool find_path(path *p, const ph_structure *s, size_t *index)
{
    size_t length = p->length;
    if (s->kind == PH_STRUCTURE_TENSOR)
        return (*index)-- == 0;
    if (!s->children) {
        if (*index < s->count) {
            path_add_child(p, s, *index);
            return true;
        }
        *index -= s->count;
        return false;
    }
    for (size_t i = 0; i < s->count; i++) {
        path_add_child(p, s, i);
        if (find_path(p, &s->children[i], index))
            return true;
        path_cut(p, length);
    }
    return false;
}

size_t ph_structure_path(char *out, size_t size, const ph_structure *structure, size_t index)
{
    path p = path_begin(out, size);
    size_t count = ph_structure_count(structure), left = index;
    if (structure && count != SIZE_MAX && index < count)
        (void)find_path(&p, structure, &left);
    else
        path_add_child(&p, &(ph_structure){.kind = PH_STRUCTURE_LIST}, index);
    return p.length;
}

/* ---- comparing ---- */
typedef struct comparison {
    path place;
    char *where;
    size_t size;
} comparison;

static const char *in_words(char out[WORDS_BYTES], const ph_structure *s)
{
    const char *several = s->count == 1 ? "entry" : "entries";
    if (s->kind == PH_STRUCTURE_TENSOR)
        (void)snprintf(out, WORDS_BYTES, "a tensor");
    else if (s->kind == PH_STRUCTURE_LIST)
        (void)snprintf(out, WORDS_BYTES, "a list of %zu %s", s->count, several);
    else if (s->kind == PH_STRUCTURE_DICT)
        (void)snprintf(out, WORDS_BYTES, "a dict of %zu %s", s->count, several);
    else
        (void)snprintf(out, WORDS_BYTES, "an unknown kind, %d", (int)s->kind);
    return out;
}

static bool report_difference(const comparison *c, const char *a, const char *b)
{
    const char *place = c->place.length > 0 ? c->place.at : "the structure";
    if (c->size > 0)
        (void)snprintf(c->where, c->size, "%s: %s, and %s", place, a, b);
    return false;
}

static const char *key_in_words(char out[WORDS_BYTES], const ph_structure *s, size_t i)
{
    const char *key = s->keys ? s->keys[i] : NULL;
    (void)snprintf(out, WORDS_BYTES, key ? "the key '%s'" : "a key that is NULL%s", key ? key : "");
    return out;
}

static bool same_key(const comparison *c, const ph_structure *a, const ph_structure *b, size_t i)
{
    char one[WORDS_BYTES], other[WORDS_BYTES];
    if (a->kind != PH_STRUCTURE_DICT)
        return true;
    if (a->keys && b->keys && a->keys[i] && b->keys[i] && strcmp(a->keys[i], b->keys[i]) == 0)
        return true;
    return report_difference(c, key_in_words(one, a, i), key_in_words(other, b, i));
}

static bool structures_equal(comparison *c, const ph_structure *a, const ph_structure *b,
                             size_t depth)
{
    char one[WORDS_BYTES], other[WORDS_BYTES];
    bool known = a->kind == PH_STRUCTURE_TENSOR || a->kind == PH_STRUCTURE_LIST ||
                 a->kind == PH_STRUCTURE_DICT;
    bool leaf = a->kind == PH_STRUCTURE_TENSOR;
    if (!known || a->kind != b->kind || (!leaf && a->count != b->count))
        return report_difference(c, in_words(one, a), in_words(other, b));
    if (leaf)
        return true;
    if (depth == MOST_DEPTH)
        return report_difference(c, "deeper than 16", "deeper than 16");
    for (size_t i = 0; i < a->count; i++) {
        size_t length = c->place.length;
        if (!same_key(c, a, b, i))
            return false;
        if (!a->children && !b->children)
            continue;
        path_add_child(&c->place, a, i);
        if (!structures_equal(c, structure_child(a, i), structure_child(b, i), depth + 1))
            return false;
        path_cut(&c->place, length);
    }
    return true;
}

/* One of the two is NULL: a flat array of any length. */
static bool equals_flat(comparison *c, const ph_structure *a, const ph_structure *b)
{
    const ph_structure *s = a ? a : b;
    char words[WORDS_BYTES];
    if (!s)
        return true;
    if (s->kind != PH_STRUCTURE_LIST)
        return report_difference(c, a ? in_words(words, s) : "a flat list",
                                 a ? "a flat list" : in_words(words, s));
    for (size_t i = 0; s->children && i < s->count; i++)
        if (s->children[i].kind != PH_STRUCTURE_TENSOR) {
            path_add_child(&c->place, s, i);
            (void)in_words(words, &s->children[i]);
            return report_difference(c, a ? words : "a tensor", a ? "a tensor" : words);
        }
    return true;
}

bool ph_structure_equal(const ph_structure *a, const ph_structure *b, char *where, size_t size)
{
    char place[PATH_BYTES];
    comparison c = {path_begin(place, sizeof place), where, where ? size : 0};
    if (c.size > 0)
        where[0] = '\0';
    return a && b ? structures_equal(&c, a, b, 0) : equals_flat(&c, a, b);
}
