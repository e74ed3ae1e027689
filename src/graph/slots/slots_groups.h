/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_groups.h: slots that every capture of their proof moved by one distance. */
#ifndef PH_GRAPH_SLOTS_SLOTS_GROUPS_H
#define PH_GRAPH_SLOTS_SLOTS_GROUPS_H
#include "graph/slots/slots.h"

/* ARGUMENT where the staged values, beside those that the other slots have, would move two slots
 * of a group by distances that differ. */
ph_status ph__slot_groups_check(ph__slots *slots, const char *call);
/* Whether an executable with the record's parameters, and the values that were set before, would
 * have each group moved by one distance; or why not. */
bool ph__slot_groups_fit(ph__slots *slots, const ph_record *record, char *why, size_t size);
/* As in ph_slot_info. */
size_t ph__slot_group_of(const ph__slots *slots, const ph__slot *slot);
#endif
