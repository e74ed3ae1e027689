/* SPDX-License-Identifier: MIT */
/* memory/reclaim/segments.h: where segments come from and go to. The error record is not set, but
 * for what a pool's own function sets. No lock held. */
#ifndef PH_MEMORY_RECLAIM_SEGMENTS_H
#define PH_MEMORY_RECLAIM_SEGMENTS_H
#include "memory/state/memory_state.h"
#include "memory/state/request.h"

typedef enum ph__growth_kind {
    PH__GREW,
    PH__NO_HOST_MEMORY,
    PH__NO_DEVICE_MEMORY, /* the driver's, or a pool's own source */
    PH__AT_DEVICE_LIMIT,
    PH__AT_POOL_LIMIT,
    PH__TOO_LARGE,
    PH__DRIVER_FAILED,
    PH__SOURCE_MISALIGNED,
    PH__SOURCE_OVERLAPS, /* the source returned memory that the allocator has already */
    PH__SOURCE_RECURSES  /* the pool's own function asks for memory of the pool */
} ph__growth_kind;
typedef struct ph__growth {
    ph__growth_kind kind;
    int result;       /* the driver's number */
    ph_status source; /* status of the pool's own function; PH_OK when it has none */
    size_t segment_bytes;
} ph__growth;
/* Gets a segment for the request and takes the block. */
ph__block *ph__grow(ph__growth *growth, ph__memory *memory, const ph__request *request);
/* Gives memory back that is in no heap any more, and drops the record. */
void ph__mseg_destroy(ph__memory *memory, ph__mseg *segment);
void ph__mseg_close(ph__memory *memory, ph__mseg *mseg); /* at the end: without accounts */
#endif
