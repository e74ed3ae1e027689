/* SPDX-License-Identifier: MIT */
/* cache/lesson_slots.c: a slot for each group of pointers that has words, and for each value that
 * has places. */
#include "cache/lesson_slots.h"
#include "graph/slots/slots.h"
#include "graph/slots/slots_life.h"

typedef PH__VEC(ph__slot_draft) drafts;

static ph_status start_group_slots(drafts *to, ph__lesson *l, const char *call)
{
    for (size_t w = 0; w < l->words.count; w++)
        l->parts.groups.at[l->words.at[w].group].words++;
    for (uint32_t g = 1; g < l->parts.groups.count; g++) {
        ph__moved_group *group = &l->parts.groups.at[g];
        ph__slot_draft draft;
        if (!group->words)
            continue;
        group->slot = to->count;
        PH_TRY(ph__slot_start(&draft, l->graph, NULL,
                              l->learned->first[l->parts.members[group->begin]], 1, 1, call));
        draft.slot->trusted = true;
        to->at[to->count++] = draft;
    }
    return PH_OK;
}

/* Candidates are equal or have nothing in common: what was equal to one in all captures was equal
 * to all of them. */
static ph_status start_value_slots(drafts *to, ph__lesson *l, const char *call)
{
    uint64_t made = 0;
    for (size_t p = 0; p < l->places.count; p++) {
        const ph__value_place *place = &l->places.at[p];
        ph__slot_draft draft;
        if (place->candidates & made)
            continue;
        made |= place->candidates;
        l->value_slots.at[l->value_slots.count++] =
            (ph__value_slot){.candidates = place->candidates, .slot = to->count};
        PH_TRY(ph__slot_start(&draft, l->graph, NULL, NULL, place->bytes, 0, call));
        to->at[to->count++] = draft;
    }
    return PH_OK;
}

static size_t slot_of_candidates(const ph__lesson *l, uint64_t candidates)
{
    size_t i = 0;
    while (l->value_slots.at[i].candidates != candidates)
        i++;
    return l->value_slots.at[i].slot;
}

static ph_status add_places(drafts *to, ph__lesson *l, const char *call)
{
    for (size_t w = 0; w < l->words.count; w++) {
        const ph__moved_word *word = &l->words.at[w];
        size_t slot = l->parts.groups.at[word->group].slot;
        if (slot != PH_SLOT_NONE)
            PH_TRY(ph__slot_add(&to->at[slot], l->graph, word->node, word->offset, call));
    }
    for (size_t p = 0; p < l->places.count; p++) {
        const ph__value_place *place = &l->places.at[p];
        PH_TRY(ph__slot_add(&to->at[slot_of_candidates(l, place->candidates)], l->graph,
                            place->node, place->offset, call));
    }
    return PH_OK;
}

ph_status ph__lesson_make_slots(ph__lesson *l, const char *call)
{
    drafts made = {0};
    ph_status status = PH_OK;
    if (!ph__vec_reserve(&made, l->parts.groups.count + l->learned->value_count) ||
        !ph__vec_reserve(&l->value_slots, l->learned->value_count))
        status = ph__fail_host_memory(call, "the slots");
    if (status == PH_OK)
        status = start_group_slots(&made, l, call);
    if (status == PH_OK)
        status = start_value_slots(&made, l, call);
    if (status == PH_OK)
        status = add_places(&made, l, call);
    if (status == PH_OK && made.count)
        status = ph__slots_replace(l->graph, made.at, made.count, call);
    for (size_t i = 0; i < made.count; i++)
        ph__slot_abandon(&made.at[i]);
    ph__vec_free(&made);
    return status;
}
