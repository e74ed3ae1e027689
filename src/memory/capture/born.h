/* SPDX-License-Identifier: MIT */
/* memory/capture/born.h: blocks that were allocated while a capture was open. */
#ifndef PH_MEMORY_CAPTURE_BORN_H
#define PH_MEMORY_CAPTURE_BORN_H
#include "memory/state/memory_state.h"

/* The capture, which is open, was given the block. Lock held. */
bool ph__born_in(const ph__stream_uses *uses, uint64_t capture_id);
/* - awaits: a capture is open since before the block was allocated, other than the one that was
 *   given it. Lock held.
 * - keeps: the block, which is being freed, stays out of reuse until that has ended. A block that
 *   a thread which captures nothing gives up is noted instead, and may be used again. Lock held. */
bool ph__born_awaits(const ph__block *block);
bool ph__born_keeps(ph__memory *memory, const ph__block *block);
/* The freed block, whose uses are over, must stay out of reuse; it is taken care of. No lock. */
bool ph__born_withhold(ph__memory *memory, ph__stream_uses *uses);
/* A retired block without uses waits. Lock held; needs no memory. */
void ph__born_wait(ph__memory *memory, ph__block *block);
bool ph__born_is_waiting(const ph__stream_uses *uses); /* stands in a block that waits so */
/* The block waits no more. Lock held. */
void ph__born_unlink(ph__memory *memory, ph__block *block);
/* Out of the list: the blocks that no capture waits for any more, linked by link[0]. Lock held. */
ph__block *ph__born_acquire_due(ph__memory *memory);
#endif
