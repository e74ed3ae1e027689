/* SPDX-License-Identifier: MIT */
/* memory/streams/waits.h: records that wait for work on streams, in a line for each stream, of
 * which only the first is asked for. Each use has its stream; the events are recorded here. No lock
 * held. */
#ifndef PH_MEMORY_STREAMS_WAITS_H
#define PH_MEMORY_STREAMS_WAITS_H
#include "memory/state/memory_state.h"

void ph__waits_begin(ph__memory *memory, ph__waiter *waiter, ph__use *uses, size_t count,
                     int *failure);
/* Finishes the waiters that wait no more. reclaim_lock held, no capture open. */
void ph__waits_process(ph__memory *memory, bool wait, int *failure, ph__leaving_batch **done);
#endif
