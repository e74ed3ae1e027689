/* SPDX-License-Identifier: MIT */
/* memory/reclaim/reclaim.h: memory that goes back to the device. */
#ifndef PH_MEMORY_RECLAIM_RECLAIM_H
#define PH_MEMORY_RECLAIM_RECLAIM_H
#include "memory/reclaim/leaving.h"
#include "memory/state/memory_state.h"

/* Does what is due, without waiting: nothing while a capture is open, or when another thread is at
 * it. */
void ph__memory_reclaim(ph__memory *memory);
/* The same, but waits for the other thread, and then does what is due still. false: nothing is due,
 * or a capture is open. */
bool ph__memory_reclaim_all(ph__memory *memory);
/* Waits for all work that used it. No capture may be open. Gives the driver's number where one
 * failed: what that was about goes back at a later chance. */
int ph__memory_trim_now(ph__memory *memory, ph__trim what, ph_pool *extra);
/* Does what is due now, or when the last open capture has ended. cached: everything that
 * ph_memory_trim gives. */
int ph__memory_sweep(ph__memory *memory, bool cached);
ph_status ph__trim_status(int result, const char *call); /* of the two */
#endif
