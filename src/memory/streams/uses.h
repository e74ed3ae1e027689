/* SPDX-License-Identifier: MIT */
/* memory/streams/uses.h: the record of which other streams use a block. */
#ifndef PH_MEMORY_STREAMS_USES_H
#define PH_MEMORY_STREAMS_USES_H
#include "memory/state/memory_state.h"

ph__stream_uses *ph__stream_uses_create(void); /* NULL: no memory */
void ph__stream_uses_destroy(ph__memory *memory,
                             ph__stream_uses *uses); /* no lock held; takes NULL */
/* Adds a use, once per stream and capture; false when out of memory. The first two never fail.
 * older: of the captured ones, that the block was there before the capture. */
bool ph__stream_uses_add(ph__stream_uses *uses, ph_stream *stream, uint64_t capture_id, bool older);
/* Drops the use at the index. */
void ph__stream_uses_drop(ph__memory *memory, ph__stream_uses *uses, size_t i);
#endif
