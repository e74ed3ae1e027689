/* SPDX-License-Identifier: MIT */
/* memory/reclaim/cached.c: a cached block for a request. */
#include "memory/reclaim/cached.h"
#include "memory/block/block.h"
#include "memory/capture/ranges.h"
#include "memory/capture/released.h"
#include "memory/state/handout.h"
#include "memory/state/memory_state.h"
#include "memory/state/request.h"

ph__block *ph__cached_block_acquire(ph__memory *memory, const ph__request *request, bool *no_memory)
{
    ph_pool *pool = request->pool;
    if (request->capture_id && !ph__capture_ranges_reserve(pool)) {
        *no_memory = true;
        return NULL;
    }
    ph__block *block;
    do
        block = ph__heap_acquire(pool->heap, request->rounded, request->bytes, request->stream->id,
                                 no_memory);
    while (block && !request->capture_id && ph__released_avoid(memory, pool, block));
    if (!block)
        return NULL;
    ph__memory_hand_out(memory, pool, block);
    if (request->capture_id)
        ph__capture_ranges_add(pool, request->capture_id, block);
    return block;
}
