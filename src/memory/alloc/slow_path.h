/* SPDX-License-Identifier: MIT */
/* memory/alloc/slow_path.h: the slow path of ph_malloc. No lock held. */
#ifndef PH_MEMORY_ALLOC_SLOW_PATH_H
#define PH_MEMORY_ALLOC_SLOW_PATH_H
#include "memory/block/block.h"
#include "memory/state/request.h"
#include <phonograph/memory.h>

typedef struct ph__memory ph__memory;

ph_status ph__malloc_slow(void **out, ph__memory *memory, ph__request *request);
/* Replays that are in flight may still write a block which captures were given: orders the stream
 * behind them. */
ph_status ph__malloc_order_behind_replays(ph__memory *memory, const ph__request *request,
                                          ph__block *block);
/* A block of the default pool on the device's default stream, whatever captures and scopes are
 * open: freed as any other. */
ph_status ph__malloc_outside(void **out, ph_device *device, size_t bytes, const char *call);
/* A block of that pool, whatever captures and scopes are open; no capture is given it. Where none
 * is free it gets a segment that is no larger than it has to be. */
ph_status ph__malloc_from(void **out, ph_pool *pool, ph_stream *stream, size_t bytes,
                          const char *call);
#endif
