/* SPDX-License-Identifier: MIT */
/* memory/state/due.h: the lists of pools and segments that reclaim examines next. Lock held, at
 * every change by which something may leave from then on. */
#ifndef PH_MEMORY_STATE_DUE_H
#define PH_MEMORY_STATE_DUE_H
#include "memory/state/memory_state.h"

void ph__pool_due(ph_pool *pool);
void ph__pool_not_due(ph_pool *pool);
void ph__mseg_due(ph__memory *memory, ph__mseg *mseg);
void ph__mseg_not_due(ph__memory *memory, ph__mseg *mseg);
void ph__mseg_link(ph__mseg *mseg); /* the segment is in a heap now, and leaves it without a call */
void ph__mseg_unlink(ph__memory *memory, ph__mseg *mseg);
void ph__stream_segments_due(ph__memory *memory, ph_stream *stream);
#endif
