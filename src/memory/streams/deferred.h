/* SPDX-License-Identifier: MIT */
/* memory/streams/deferred.h: freed blocks that wait for other streams. No lock held. */
#ifndef PH_MEMORY_STREAMS_DEFERRED_H
#define PH_MEMORY_STREAMS_DEFERRED_H
#include "memory/state/memory_state.h"

/* A freed block whose record is in no list waits as long as it must. freed_on may be NULL. */
void ph__stream_uses_defer(ph__memory *memory, ph__stream_uses *uses, ph_stream *freed_on);
/* Waits for the uses of a freed block that no list has, or finishes it at once. */
void ph__stream_uses_wait(ph__memory *memory, ph__stream_uses *uses);
/* Gives back a block of either kind whose uses are over, and destroys the record. */
void ph__stream_uses_finish(ph__memory *memory, ph__stream_uses *uses);
/* Turns deferred blocks into pending ones, or gives them back, as far as the open captures allow;
 * capture_id: this one has ended. */
void ph__deferred_process(ph__memory *memory, uint64_t capture_id);
#endif
