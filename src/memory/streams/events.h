/* SPDX-License-Identifier: MIT */
/* memory/streams/events.h: events behind the work of streams. No lock held, and the error record is
 * not touched. */
#ifndef PH_MEMORY_STREAMS_EVENTS_H
#define PH_MEMORY_STREAMS_EVENTS_H
#include "memory/state/memory_state.h"

/* Records an event behind the work of the stream so far. NULL: not now, because a capture is
 * open or the driver failed; try again later. *failure: the driver's number where one failed,
 * else as it was. */
ph__drv_event *ph__mark_stream(ph__memory *memory, ph_stream *stream, int *failure);
/* an idle event; NULL: none to be had */
ph__drv_event *ph__mark_acquire(ph__memory *memory, int *failure);
/* True when the event's work is done. wait: blocks until then. */
bool ph__mark_done(ph__memory *memory, ph__drv_event *event, bool wait, int *failure);
void ph__mark_recycle(ph__memory *memory, ph__drv_event *event); /* takes NULL */
/* the lock is held */
static inline void ph__mark_recycle_locked(ph__memory *memory, ph__drv_event *event)
{
    if (event)
        memory->events.at[memory->events.count++] = event;
}
#endif
