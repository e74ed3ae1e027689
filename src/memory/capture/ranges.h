/* SPDX-License-Identifier: MIT */
/* memory/capture/ranges.h: the address ranges that an open capture was given: what its replays may
 * write. */
#ifndef PH_MEMORY_CAPTURE_RANGES_H
#define PH_MEMORY_CAPTURE_RANGES_H
#include "base/range_map.h"
#include "memory/block/block.h"
#include <phonograph/memory.h>

typedef struct ph_pool ph_pool;

/* Room for one more. false: no host memory. Lock held, as for the next one. */
bool ph__capture_ranges_reserve(ph_pool *pool);
/* The capture of the pool was given the block. */
void ph__capture_ranges_add(ph_pool *pool, uint64_t capture_id, const ph__block *block);
/* The ranges that the capture was given out of the pool, freed ones included, merged and sorted.
 * Call between the driver's end and record_end; *out is then the caller's (ph__ranges_free). */
ph_status ph__pool_record_ranges(ph__ranges *out, ph_pool *pool, uint64_t capture_id);
/* A block that the open capture was given out of the pool, that is not freed, and that lies in one
 * of the ranges at least in part; NULL: in any place. 0: there is none. *bytes: its size. */
uintptr_t ph__capture_live_block(size_t *bytes, ph_pool *pool, uint64_t capture_id,
                                 const ph__ranges *ranges);
/* The stream of the least number above `after` that memory in the ranges (NULL: any) is of, or that
 * used freed memory there which still waits for it, where the pool is the open capture's;
 * retained. NULL: there is none. */
ph_stream *ph__capture_next_stream(ph_pool *pool, uint64_t capture_id, const ph__ranges *ranges,
                                   uint64_t after);
#endif
