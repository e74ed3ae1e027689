/* SPDX-License-Identifier: MIT */
/* device/annotate/pairs.c: single pairs of annotations: whether two are the same, and how they are
 * written, and the check of those that a caller gives. */
#include "device/annotate/pairs.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include <inttypes.h>
#include <string.h>

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

bool ph__pair_same(const ph_annotation_pair *a, const ph_annotation_pair *b)
{
    if (a->type != b->type || strcmp(a->key, b->key) != 0)
        return false;
    switch (a->type) {
    case PH_ANNOTATION_TEXT:
        return same_text(a->text, b->text);
    case PH_ANNOTATION_INTEGER:
        return a->integer == b->integer;
    case PH_ANNOTATION_REAL:
        return memcmp(&a->real, &b->real, sizeof a->real) == 0;
    case PH_ANNOTATION_BOOL:
        return a->boolean == b->boolean;
    }
    return false;
}

void ph__pair_to_json(ph__json *json, const ph_annotation_pair *pair)
{
    ph__json_key(json, pair->key);
    switch (pair->type) {
    case PH_ANNOTATION_TEXT:
        ph__json_string(json, pair->text);
        break;
    case PH_ANNOTATION_INTEGER:
        ph__json_i64(json, pair->integer);
        break;
    case PH_ANNOTATION_REAL:
        ph__json_f64(json, pair->real);
        break;
    case PH_ANNOTATION_BOOL:
        ph__json_bool(json, pair->boolean);
        break;
    }
}

void ph__pairs_to_json(ph__json *json, const ph_annotation_pair *pairs, size_t count)
{
    ph__json_key(json, "annotation");
    ph__json_open(json, '{');
    for (size_t i = 0; i < count; i++)
        ph__pair_to_json(json, &pairs[i]);
    ph__json_close(json, '}');
}

void ph__pair_to_text(ph__text *text, const ph_annotation_pair *pair)
{
    ph__text_format(text, "%s=", pair->key);
    switch (pair->type) {
    case PH_ANNOTATION_TEXT:
        ph__text_add(text, pair->text);
        break;
    case PH_ANNOTATION_INTEGER:
        ph__text_format(text, "%" PRId64, pair->integer);
        break;
    case PH_ANNOTATION_REAL:
        ph__text_format(text, "%g", pair->real);
        break;
    case PH_ANNOTATION_BOOL:
        ph__text_add(text, pair->boolean ? "true" : "false");
        break;
    }
}

bool ph__pairs_have(const ph_annotation_pair *pairs, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(pairs[i].key, key) == 0)
            return true;
    return false;
}

ph_status ph__pairs_check(const ph_annotation_pair *pairs, size_t count, const char *name,
                          const char *call)
{
    if (pairs == NULL && count)
        return ph__fail_null(call, "pairs");
    for (size_t i = 0; i < count; i++) {
        const ph_annotation_pair *pair = &pairs[i];
        if (pair->key == NULL || pair->key[0] == '\0')
            return ph_fail(PH_ERROR_ARGUMENT, "%s: pair %zu has no key", call, i);
        if ((unsigned)pair->type > PH_ANNOTATION_BOOL)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: \"%s\" has type %d, which is none of ph_annotation_type", call,
                           pair->key, (int)pair->type);
        if (pair->type == PH_ANNOTATION_TEXT && pair->text == NULL)
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: \"%s\" is a text (PH_ANNOTATION_TEXT, as a pair is whose type is "
                           "not set), and its text "
                           "is NULL",
                           call, pair->key);
        if (ph__pairs_have(pairs, i, pair->key) || (name && strcmp(pair->key, "name") == 0))
            return ph_fail(PH_ERROR_ARGUMENT,
                           "%s: \"%s\" is given twice; a scope has one value for a key", call,
                           pair->key);
    }
    return PH_OK;
}
