/* SPDX-License-Identifier: MIT */
/* memory/plan/notes.h: allocations and frees of a run of captured work, each with its position in
 * the graph. */
#ifndef PH_MEMORY_PLAN_NOTES_H
#define PH_MEMORY_PLAN_NOTES_H
#include "base/map.h"
#include "base/vec.h"
#include "memory/state/memory_state.h"
#include "memory/state/request.h"

#define PH__PLAN_NEVER SIZE_MAX

/* A position: the nodes that the next nodes of the streams in question would depend on. */
typedef struct ph__plan_position {
    size_t first, count; /* in the notes' nodes */
} ph__plan_position;

typedef struct ph__planned_block {
    size_t requested, size;
    uint64_t stream;
    size_t allocated, freed; /* numbers of events, rising; PH__PLAN_NEVER: it was left */
    ph__plan_position at_allocation, at_free;
    size_t uses; /* the last of its uses + 1, in the notes' uses */
    bool held;   /* a graph holds it for good */
} ph__planned_block;

typedef struct ph__plan_use {
    size_t stream; /* in the notes' streams */
    size_t next;   /* the use before it of the same block + 1 */
} ph__plan_use;

typedef struct ph__plan_notes ph__plan_notes;
struct ph__plan_notes {
    ph__plan_notes *next; /* in the memory's list, under its lock, as is all of it until the end */
    ph__memory *memory;
    uint64_t capture_id;
    PH__VEC(ph__planned_block) blocks;
    PH__VEC(ph__drv_node *) nodes;
    PH__VEC(ph__plan_use) uses;
    PH__VEC(ph_stream *) streams; /* retained; of allocations, frees and uses */
    ph__map live;                 /* address -> number of the block + 1 */
    size_t events;
    bool lost;   /* no host memory for some of it */
    bool served; /* a plan serves its requests */
};

/* From begin to end, requests of the capture are noted, and frees of what they got. The second
 * call of end does nothing. NULL: no host memory. */
ph__plan_notes *ph__plan_notes_begin(ph__memory *memory, uint64_t capture_id);
void ph__plan_notes_end(ph__plan_notes *notes);
void ph__plan_notes_free(ph__plan_notes *notes); /* ends them too; takes NULL */

/* Notes of single events; only while PH__SLOW_PLAN is set. No lock held.
 * - free comes before the block goes, allocation after it came.
 * - hold: the address lies in a block, which a graph holds from then on. Whether a plan serves that
 *   run: where the block is the plan's, which cannot be held, the plan ends. */
void ph__plan_note_allocation(ph__memory *memory, const ph__request *request, const void *address);
void ph__plan_note_use(ph__memory *memory, const void *pointer, ph_stream *stream);
void ph__plan_note_free(ph__memory *memory, const void *pointer, ph_stream *stream);
bool ph__plan_note_hold(ph__memory *memory, const void *base);
#endif
