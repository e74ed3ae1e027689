/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_check.h: whether a slot takes a value. */
#ifndef PH_GRAPH_SLOTS_SLOTS_CHECK_H
#define PH_GRAPH_SLOTS_SLOTS_CHECK_H
#include "graph/slots/slots.h"

/* Whether the memory at its addresses is looked up; of the others the alignment alone counts. */
static inline bool ph__slot_needs_check(const ph__slot *slot)
{
    return slot->address && (!(slot->trusted || slot->skip_lookup) || slot->copied);
}
/* Whether the slot takes the address; where: the allocation there, base NULL: the library made
 * none. False: ph__slot_check_memory says why, or that memory of others will do. */
static inline bool ph__slot_fits(const ph__slot *slot, const void *value,
                                 const ph_allocation *where)
{
    size_t offset = (uintptr_t)value - (uintptr_t)where->base;
    return where->base && ((uintptr_t)value & (slot->alignment - 1)) == 0 &&
           offset < where->requested && where->requested - offset >= slot->bytes &&
           (!slot->copied || where->pinned == slot->from_pinned);
}
/* NOT_FOUND. */
ph_status ph__slot_fail_missing(const ph_graph *graph, size_t number, const char *call);
/* ARGUMENT or WRONG_DEVICE with what is wrong: of the slot's number, for `call`. */
ph_status ph__slot_check_alignment(const ph__slot *slot, size_t number, const void *value,
                                   const char *call);
ph_status ph__slot_check_memory(const ph_graph *graph, const ph__slot *slot, size_t number,
                                const void *value, const ph_allocation *where, const char *call);
#endif
