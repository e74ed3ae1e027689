/* SPDX-License-Identifier: MIT */
/* memory/state/handout.h: blocks that go into the caller's hands, out of them, and back. Lock held.
 * */
#ifndef PH_MEMORY_STATE_HANDOUT_H
#define PH_MEMORY_STATE_HANDOUT_H
#include "base/sync.h"
#include "memory/state/memory_state.h"

/* The device has given something while captures are open, which PH__SLOW_BORN says. */
void ph__born_handed_out(ph__memory *memory);
/* Counts a block just taken, from wherever. */
void ph__memory_hand_out(ph__memory *memory, ph_pool *pool, ph__block *block);
/* The block leaves the caller's hands: counted, reported to trackers and to the history. It is
 * active until given. */
void ph__memory_retire(ph__memory *memory, ph__block *block, ph_stream *stream);
/* Some moment may be asked about the block, which is freed. */
void ph__block_note_freed(ph__memory *memory, const ph__block *block);
/* Gives an active block back to its heap; the record of uses is the caller's. */
void ph__memory_give(ph__memory *memory, ph__block *block);
/* One block of the pool begins to wait, or ends. */
void ph__waiting_count(ph__memory *memory, ph_pool *pool, bool waits);
/* ph__block.thread of what the calling thread allocates. */
static inline uint32_t ph__born_thread(void)
{
    return (uint32_t)ph__thread_id();
}
#endif
