/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_groups.c: slots that every capture of their proof moved by one distance. A word
 * in one of their spans may follow any of them: it is right for all while they move together, and
 * nobody knows what it should be where they part. */
#include "graph/slots/slots_groups.h"
#include "base/line.h"
#include "graph/object/graph.h"

/* False: another slot of the group was met in this check, and lies at another distance. */
static bool meet_slot(ph__slots *slots, const ph__slot *slot, size_t number, uint64_t by)
{
    ph__slot *lead = slot->lead;
    if (lead->met.number == slots->group_checks)
        return lead->met.by == by;
    lead->met.number = slots->group_checks;
    lead->met.slot = number;
    lead->met.by = by;
    return true;
}

static bool is_met(const ph__slots *slots, const ph__slot *slot)
{
    return slot->lead && slot->lead->met.number == slots->group_checks;
}

static const char *sign_of(uint64_t distance)
{
    return distance > UINT64_MAX / 2 ? "-" : "";
}

static unsigned long long magnitude_of(uint64_t distance)
{
    return distance > UINT64_MAX / 2 ? 0 - distance : distance;
}

static ph_status fail_parted(const ph__slots *slots, size_t number, uint64_t by, const char *call)
{
    const ph__slot *slot = slots->list.at[number];
    size_t other = slot->lead->met.slot;
    uint64_t before = slot->lead->met.by;
    return ph_fail(
        PH_ERROR_ARGUMENT,
        "%s: slot %zu (%s) would lie %s0x%llx from its captured address, slot %zu (%s) %s0x%llx: "
        "every capture of their proof moved both by one distance, so that nobody knows which of "
        "them a word follows; move both by one distance, or prove with a further capture that "
        "moves them apart",
        call, other, slots->list.at[other]->name, sign_of(before), magnitude_of(before), number,
        slot->name, sign_of(by), magnitude_of(by));
}

ph_status ph__slot_groups_check(ph__slots *slots, const char *call)
{
    bool any = false;
    slots->group_checks++;
    for (size_t i = 0; i < slots->staged.count; i++) {
        const ph__slot_staged *staged = &slots->staged.at[i];
        if (!staged->slot->lead)
            continue;
        uint64_t by = (uintptr_t)staged->value - staged->slot->captured;
        if (!meet_slot(slots, staged->slot, staged->number, by))
            return fail_parted(slots, staged->number, by, call);
        any = true;
    }
    for (size_t i = 0; any && i < slots->list.count; i++) {
        const ph__slot *slot = slots->list.at[i];
        uint64_t by = slot->current - slot->captured;
        if (!slot->staged && is_met(slots, slot) && !meet_slot(slots, slot, i, by))
            return fail_parted(slots, i, by, call);
    }
    return PH_OK;
}

static bool is_staged_with(const ph__slots *slots, const ph__slot *lead)
{
    size_t i = 0;
    while (i < slots->staged.count && slots->staged.at[i].slot->lead != lead)
        i++;
    return i < slots->staged.count;
}

bool ph__slot_groups_next_brought(size_t *at, const ph__slots *slots)
{
    for (; *at < slots->list.count; ++*at) {
        const ph__slot *slot = slots->list.at[*at];
        if (slot->lead && !slot->set && !slot->staged && slot->uses.count &&
            slot->current != slot->captured && is_staged_with(slots, slot->lead))
            return true;
    }
    return false;
}

bool ph__slot_groups_fit(ph__slots *slots, const ph_record *record, char *why, size_t size)
{
    slots->group_checks++;
    for (size_t i = 0; i < slots->list.count; i++) {
        const ph__slot *slot = slots->list.at[i];
        if (!slot->lead || (!slot->set && slot->uses.count == 0))
            continue;
        const ph__slot_use *use = slot->uses.at;
        uint64_t at = slot->set
                          ? slot->current
                          : ph__slot_field(&record->nodes[use->node->index].info, use->offset) -
                                use->distance;
        if (meet_slot(slots, slot, i, at - slot->captured))
            continue;
        size_t other = slot->lead->met.slot;
        ph__line_format(why, size,
                        "slots %zu (%s) and %zu (%s), which are set by one distance, would part",
                        other, slots->list.at[other]->name, i, slot->name);
        return false;
    }
    return true;
}

size_t ph__slot_group_of(const ph__slots *slots, const ph__slot *slot)
{
    size_t number = 0;
    if (!slot->lead)
        return 0;
    while (slots->list.at[number] != slot->lead)
        number++;
    return number + 1;
}
