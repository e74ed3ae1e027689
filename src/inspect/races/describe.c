/* SPDX-License-Identifier: MIT */
/* inspect/races/describe.c: names, scopes and the sentence of a race. */
#include "inspect/races/describe.h"
#include "base/demangle.h"
#include "base/text.h"
#include "record/foreign.h"
#include "record/sparse.h"

/* ---- strings of the list ---- */
static const char *keep_text(const ph__describer *with, ph__text *text)
{
    ph__text_add(text, "");
    char *string = ph__text_detach(text);
    if (string == NULL)
        return NULL;
    if (!ph__vec_push(&with->races->strings, string)) {
        ph__free(string);
        return NULL;
    }
    return string;
}

static void add_names(ph__text *text, const ph__flat *flat, uint32_t node, unsigned depth)
{
    const ph__flat_node *at = &flat->nodes.at[node];
    char room[PH__READABLE];
    if (at->parent != UINT32_MAX && depth < 32) {
        add_names(text, flat, at->parent, depth + 1);
        ph__text_add(text, ": ");
    }
    ph__text_add(text, ph__record_readable(room, at->record, at->at->info.name));
}

static void add_pairs(ph__text *text, const ph__annotation *annotation)
{
    for (size_t i = 0; annotation && i < annotation->count; i++) {
        const ph_annotation_pair *pair = &annotation->pairs[i];
        ph__text_format(text, "%s%s: ", i ? ", " : "", pair->key);
        if (pair->type == PH_ANNOTATION_INTEGER)
            ph__text_format(text, "%lld", (long long)pair->integer);
        else if (pair->type == PH_ANNOTATION_REAL)
            ph__text_format(text, "%g", pair->real);
        else if (pair->type == PH_ANNOTATION_BOOL)
            ph__text_add(text, pair->boolean ? "true" : "false");
        else
            ph__text_add(text, pair->text ? pair->text : "");
    }
}

static bool describe_side(ph_race_side *out, const ph__describer *with, const ph__access *access)
{
    const ph__flat_node *node = &with->flat->nodes.at[access->node];
    ph__text name = {0}, scope = {0}, word = {0};
    ph_word room;
    add_names(&name, with->flat, access->node, 0);
    add_pairs(&scope, node->at->annotation);
    ph__text_add(&word, ph__record_word(&room, node->at, access->word)->name);
    out->node = node->outer;
    out->name = keep_text(with, &name);
    out->scope = keep_text(with, &scope);
    out->word = keep_text(with, &word);
    out->access = access->kind;
    out->declared = access->declared;
    out->address = access->address;
    out->bytes = (size_t)(access->end - access->begin);
    return out->name && out->scope && out->word;
}

/* ---- the sentence ---- */
static void add_side(ph__text *text, const ph_race_side *side)
{
    static const char *const verbs[] = {"uses", "reads", "writes", "reads and writes"};
    ph__text_format(text, "node %zu (%s)", side->node, side->name);
    if (side->scope[0])
        ph__text_format(text, " {%s}", side->scope);
    ph__text_format(text, " %s %s", verbs[side->access], side->word);
}

static bool write_sentence(ph_race *race, const ph__describer *with)
{
    ph__text text = {0};
    ph__text_add(&text, race->certain ? "a race: " : "possibly a race: ");
    add_side(&text, &race->first);
    ph__text_add(&text, " and ");
    add_side(&text, &race->second);
    ph__text_format(&text, ": both %s the %zu byte%s at 0x%llx", race->certain ? "use" : "may use",
                    race->bytes, race->bytes == 1 ? "" : "s", (unsigned long long)race->address);
    if (race->base)
        ph__text_format(&text, ", from byte %llu on of the %zu allocated at 0x%llx",
                        (unsigned long long)(race->address - race->base), race->allocation_bytes,
                        (unsigned long long)race->base);
    ph__text_add(&text, ", with no path between them (a missing ph_stream_wait_event)");
    race->text = keep_text(with, &text);
    return race->text != NULL;
}

bool ph__races_describe(const ph__describer *with, const ph__meeting *meeting, bool certain)
{
    const ph__access *one = &with->accesses->at[meeting->first],
                     *two = &with->accesses->at[meeting->second];
    uint64_t begin = one->begin > two->begin ? one->begin : two->begin,
             end = one->end < two->end ? one->end : two->end;
    ph_race race = {.certain = certain,
                    .address = begin,
                    .bytes = (size_t)(end - begin),
                    .base = one->base,
                    .allocation_bytes = (size_t)one->block_bytes};
    return describe_side(&race.first, with, one) && describe_side(&race.second, with, two) &&
           write_sentence(&race, with) && ph__vec_push(&with->races->list, race);
}
