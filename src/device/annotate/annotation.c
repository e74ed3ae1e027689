/* SPDX-License-Identifier: MIT */
/* device/annotate/annotation.c: annotations: pairs, merged and counted. */
#include "device/annotate/annotation.h"
#include "base/alloc.h"
#include <string.h>

static _Atomic uint64_t era = 1;

ph__annotation *ph__annotation_retain(ph__annotation *annotation)
{
    if (annotation)
        atomic_fetch_add_explicit(&annotation->references, 1, memory_order_relaxed);
    return annotation;
}

void ph__annotation_release(ph__annotation *annotation)
{
    if (annotation &&
        atomic_fetch_sub_explicit(&annotation->references, 1, memory_order_acq_rel) == 1)
        ph__free(annotation);
}

const char *ph__annotation_name(const ph__annotation *annotation)
{
    for (size_t i = 0; annotation && i < annotation->count; i++)
        if (annotation->pairs[i].type == PH_ANNOTATION_TEXT &&
            strcmp(annotation->pairs[i].key, "name") == 0)
            return annotation->pairs[i].text;
    return "";
}

static char *put_text(char **room, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *at = memcpy(*room, text, bytes);
    *room += bytes;
    return at;
}

static void put_pair(ph__annotation *annotation, char **room, const ph_annotation_pair *pair)
{
    size_t at = 0;
    while (at < annotation->count && strcmp(annotation->pairs[at].key, pair->key) != 0)
        at++;
    ph_annotation_pair *to = &annotation->pairs[at];
    const char *key = at < annotation->count ? to->key : put_text(room, pair->key);
    *to = *pair;
    to->key = key;
    to->text = pair->type == PH_ANNOTATION_TEXT ? put_text(room, pair->text) : NULL;
    annotation->count += at == annotation->count;
}

ph_status ph__annotation_make(ph__annotation **out, const ph__pairs *sources, size_t count,
                              const char *call)
{
    size_t pairs = 0, text = 0;
    for (size_t s = 0; s < count; s++)
        for (size_t i = 0; i < sources[s].count; i++, pairs++) {
            const ph_annotation_pair *pair = &sources[s].at[i];
            text += strlen(pair->key) + 1;
            text += pair->type == PH_ANNOTATION_TEXT ? strlen(pair->text) + 1 : 0;
        }
    *out = NULL;
    if (pairs == 0)
        return PH_OK;
    ph__annotation *annotation =
        ph__alloc(sizeof *annotation + pairs * sizeof *annotation->pairs + text);
    if (annotation == NULL)
        return ph__fail_host_memory(call, "the annotation");
    char *room = (char *)(annotation->pairs + pairs);
    atomic_init(&annotation->references, 1);
    annotation->era = ph__annotations_era();
    annotation->count = 0;
    for (size_t s = 0; s < count; s++)
        for (size_t i = 0; i < sources[s].count; i++)
            put_pair(annotation, &room, &sources[s].at[i]);
    *out = annotation;
    return PH_OK;
}

ph_status ph__annotation_merge(ph__annotation **out, ph__annotation *outer, ph__annotation *inner,
                               const char *call)
{
    if (outer == NULL || inner == NULL) {
        *out = ph__annotation_retain(outer ? outer : inner);
        return PH_OK;
    }
    const ph__pairs sources[] = {{outer->pairs, outer->count}, {inner->pairs, inner->count}};
    return ph__annotation_make(out, sources, 2, call);
}

ph_status ph__annotation_split(const char **made_for, ph__annotation **rest,
                               ph__annotation *annotation, const char *call)
{
    size_t count = annotation ? annotation->count : 0, at = 0;
    *made_for = NULL;
    *rest = NULL;
    while (at < count && strcmp(annotation->pairs[at].key, PH__MADE_FOR) != 0)
        at++;
    if (at == count || annotation->pairs[at].type != PH_ANNOTATION_TEXT) {
        *rest = ph__annotation_retain(annotation);
        return PH_OK;
    }
    *made_for = annotation->pairs[at].text;
    const ph__pairs sources[] = {{annotation->pairs, at},
                                 {annotation->pairs + at + 1, count - at - 1}};
    return ph__annotation_make(rest, sources, 2, call);
}

uint64_t ph__annotations_era(void)
{
    return atomic_load_explicit(&era, memory_order_relaxed);
}

void ph__annotations_forget(void)
{
    atomic_fetch_add(&era, 1);
}
