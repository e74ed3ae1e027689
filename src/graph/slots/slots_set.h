/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_set.h: the values of slots. */
#ifndef PH_GRAPH_SLOTS_SLOTS_SET_H
#define PH_GRAPH_SLOTS_SLOTS_SET_H
#include "graph/slots/slots.h"
#include <string.h>

/* Puts the slot's value into all of its places; marks the nodes that it changes. */
void ph__slot_patch(ph__slots *slots, ph__slot *slot);
void ph__slot_mark(ph__slots *slots, ph__slot_node *node);

/* Checks the values and stages them: PH_OK, or none is staged. Behind all other checks follows
 * - apply: the slots have what was staged from now on, and the executable gets what it has not;
 * - or drop_staged. */
ph_status ph__slots_stage(ph_graph *graph, const ph_slot_value *values, size_t count,
                          const char *call);
/* The same as both for the usual single value, another address in an allocation of the library's,
 * of a graph that has slots and watches no inputs, where nothing stands between them: slot and
 * executable have the address from now on. *done: false: nothing was done. */
ph_status ph__slots_set_usual(bool *done, ph_graph *graph, const ph_slot_value *value,
                              const char *call);
void ph__slots_drop_staged(ph_graph *graph);
ph_status ph__slots_apply(ph_graph *graph, const char *call);
/* Whether the memory of the slot's last value was looked up, and found; or it has had none. */
static inline bool ph__slots_look_up(const ph__slots *slots, const ph_slot_value *value)
{
    const ph__slot *slot = value->slot < slots->list.count ? slots->list.at[value->slot] : NULL;
    return slot && (slot->where.base || !slot->set);
}
/* Whether the value is what the slot has, and no memory that somebody looks up: most of what a step
 * of a training sets are the values of the step before. It counts as named then. */
static inline bool ph__slots_pass_over(ph__slots *slots, const ph_slot_value *value)
{
    ph__slot *slot = slots && value->slot < slots->list.count ? slots->list.at[value->slot] : NULL;
    if (!slot || !slot->set || slot->named == slots->calls || !value->value)
        return false;
    if (slot->address ? slot->current != (uintptr_t)value->value || slot->where.base
                      : memcmp(slot->value, value->value, slot->bytes) != 0)
        return false;
    slot->named = slots->calls;
    return true;
}
#endif
