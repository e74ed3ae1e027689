/* SPDX-License-Identifier: MIT */
/* memory/streams/dependency_walk.h: reuse inside a capture, in the order of its graph. */
#ifndef PH_MEMORY_STREAMS_DEPENDENCY_WALK_H
#define PH_MEMORY_STREAMS_DEPENDENCY_WALK_H
#include "memory/state/memory_state.h"
#include "memory/state/request.h"

/* Notes the ends of the streams involved in a block that is being freed; false: it must wait. No
 * lock held. */
bool ph__dependency_walk_mark(ph__memory *memory, ph__stream_uses *uses, ph_stream *freed_on);
/* Gives back the deferred blocks of the request's stream that its next node is ordered behind. */
void ph__dependency_walk_reclaim(ph__memory *memory, const ph__request *request);
/* The freed block waits for the captured graph instead of the capture's end; false: it cannot.
 * Lock held. */
bool ph__dependency_walk_wait(ph__memory *memory, ph__stream_uses *uses);
/* The pool's capture is over: what waited for its graph is deferred. Lock held. Gives what is to
 * be freed without it. */
ph__dependency_walk *ph__dependency_walks_end(ph__memory *memory, ph_pool *pool);
void ph__dependency_walks_free(ph__dependency_walk *walk);
/* the same, by the capture. No lock held */
void ph__dependency_walks_end_capture(ph__memory *memory, uint64_t capture_id);
#endif
