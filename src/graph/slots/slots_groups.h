/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_groups.h: slots that every capture of their proof moved by one distance. */
#ifndef PH_GRAPH_SLOTS_SLOTS_GROUPS_H
#define PH_GRAPH_SLOTS_SLOTS_GROUPS_H
#include "graph/slots/slots.h"

/* ARGUMENT where the staged values, beside those that the other slots have, would move two slots
 * of a group by distances that differ. */
ph_status ph__slot_groups_check(ph__slots *slots, const char *call);
/* *at: the next slot, from that number on, that was never set and lies where an update brought it,
 * while another one of its group is to be set: it has to keep its place together with that one. A
 * new executable would have it as captured, and them apart. */
bool ph__slot_groups_next_brought(size_t *at, const ph__slots *slots);
/* Whether an executable with the record's parameters, and the values that were set before, would
 * have each group moved by one distance; or why not. */
bool ph__slot_groups_fit(ph__slots *slots, const ph_record *record, char *why, size_t size);
/* As in ph_slot_info. */
size_t ph__slot_group_of(const ph__slots *slots, const ph__slot *slot);
#endif
