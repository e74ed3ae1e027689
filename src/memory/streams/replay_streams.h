/* SPDX-License-Identifier: MIT */
/* memory/streams/replay_streams.h: the streams that memory must not leave before: those of the last
 * replay of each pool, also when the pool has gone. Those without a remark: lock held. */
#ifndef PH_MEMORY_STREAMS_REPLAY_STREAMS_H
#define PH_MEMORY_STREAMS_REPLAY_STREAMS_H
#include "memory/state/memory_state.h"

/* The pool's last replay is on the stream now. Gives how many references to *before are to be
 * released, without the lock. */
unsigned ph__pool_replayed_on(ph_pool *pool, ph_stream *stream, ph_stream **before);
/* an event stands behind it: the next capture need not examine the pool */
void ph__pool_replay_marked(ph_pool *pool);
/* The pool is going: what was last replayed behind it is remembered with the stream. */
void ph__pool_leave_replay(ph_pool *pool);
/* Forgets streams whose replays of gone pools are done. reclaim_lock held, not the lock. */
void ph__left_process(ph__memory *memory, int *failure);
void ph__streams_close(ph__memory *memory); /* at the end: nothing runs any more. Not the lock */
#endif
