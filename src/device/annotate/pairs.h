/* SPDX-License-Identifier: MIT */
/* device/annotate/pairs.h: single pairs of annotations. */
#ifndef PH_DEVICE_ANNOTATE_PAIRS_H
#define PH_DEVICE_ANNOTATE_PAIRS_H
#include "base/json.h"
#include "base/text.h"
#include <phonograph/annotation.h>
#include <stdbool.h>

/* same: key, type and value, reals to the bit. JSON: a member of the object
 * that is open; of all of them, a member "annotation". Text: "key=value", as it is. */
bool ph__pair_same(const ph_annotation_pair *a, const ph_annotation_pair *b);
void ph__pair_to_json(ph__json *json, const ph_annotation_pair *pair);
void ph__pairs_to_json(ph__json *json, const ph_annotation_pair *pairs, size_t count);
void ph__pair_to_text(ph__text *text, const ph_annotation_pair *pair);
bool ph__pairs_have(const ph_annotation_pair *pairs, size_t count, const char *key);
/* Checks pairs of a caller: keys, types and texts, and that no key comes twice, nor "name" beside a
 * name (NULL: there is none). ARGUMENT. */
ph_status ph__pairs_check(const ph_annotation_pair *pairs, size_t count, const char *name,
                          const char *call);
#endif
