/* SPDX-License-Identifier: MIT */
/* memory/plan/conflicts.h: pairs of blocks of a run that must not share memory. */
#ifndef PH_MEMORY_PLAN_CONFLICTS_H
#define PH_MEMORY_PLAN_CONFLICTS_H
#include "memory/plan/notes.h"

#define PH__PLAN_OUTSIDE SIZE_MAX
#define PH__PLAN_PAIRS   ((size_t)1 << 26) /* the most */

typedef struct ph__plan_block {
    size_t size, offset; /* offset PH__PLAN_OUTSIDE: the block is left out */
    size_t lifetime;     /* the events between its allocation and its free */
    bool left;           /* was not freed */
} ph__plan_block;

typedef struct ph__conflict {
    uint32_t a, b; /* numbers of blocks; a was allocated first */
} ph__conflict;
typedef struct ph__conflicts {
    PH__VEC(ph__conflict) pairs;
} ph__conflicts;

/* All pairs, unless the free of one is an ancestor of the other's allocation in the graph, or is
 * that node.
 * - blocks: by number of the notes' blocks; those that are left out have no pairs.
 * - Where one stream did all, no node is asked about. Time: blocks x streams, pairs, and nodes x
 *   width of the graph.
 * - The capture is open. false: no host memory, the driver failed, or there are more than 2^26. */
bool ph__plan_find_conflicts(ph__conflicts *out, const ph__plan_notes *notes,
                             const ph__plan_block *blocks);
void ph__conflicts_free(ph__conflicts *conflicts);
#endif
