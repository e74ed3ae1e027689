/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_room.h: whether the kernels of a slot stay inside its span, as far as extents
 * and allocations tell. */
#ifndef PH_GRAPH_SLOTS_SLOTS_ROOM_H
#define PH_GRAPH_SLOTS_SLOTS_ROOM_H
#include "graph/slots/slots.h"

typedef struct ph__slot_room {
    size_t node; /* the first whose parameter declares no extent; SIZE_MAX: each declares one */
} ph__slot_room;

/* ARGUMENT: the span goes on behind the allocation of this library's that its first byte lies in:
 * other memory would move with it. */
ph_status ph__slot_room_check(const ph_graph *graph, const void *base, size_t bytes,
                              const char *call);
/* ARGUMENT: a declared extent reaches beyond the span. Notes the allocation in the slot. */
ph_status ph__slot_room_find(ph__slot_room *out, const ph_graph *graph, const ph__slot_draft *draft,
                             const char *call);
/* The warning of a slot that was made: its allocation goes on behind the span, and nothing says
 * that the kernels do not. */
void ph__slot_room_report(const ph__slot_room *room, const ph_graph *graph, size_t slot,
                          const char *call);
#endif
