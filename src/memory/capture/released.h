/* SPDX-License-Identifier: MIT */
/* memory/capture/released.h: blocks that were freed while a capture was open. Lock held. */
#ifndef PH_MEMORY_CAPTURE_RELEASED_H
#define PH_MEMORY_CAPTURE_RELEASED_H
#include "base/range_map.h"
#include "memory/state/memory_state.h"

/* Notes the block. What overlaps is noted as one, as nobody can tell which of them a node
 * addresses. false: no host memory. */
bool ph__released_note(ph__memory *memory, const ph__block *block);
void ph__released_forget(ph__memory *memory); /* forgets the entries of captures that are over */
/* The note around an address; its value is the last generation. NULL: nothing was noted of it. */
const ph__range *ph__released_find(const ph__memory *memory, uintptr_t address);
/* Takes the block out of its heap. NULL: somebody has some of it, or there is no host memory. */
ph__block *ph__released_acquire(ph__memory *memory, const ph__range *released);
/* Whether the block, just taken from the heap of the pool, is not for the calling thread, which
 * works on a capture: some of it was noted. It waits for the ends of the captures then. */
bool ph__released_avoid(ph__memory *memory, ph_pool *pool, ph__block *block);
#endif
