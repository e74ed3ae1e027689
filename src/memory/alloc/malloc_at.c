/* SPDX-License-Identifier: MIT */
/* memory/alloc/malloc_at.c: an allocation at a wanted address. */
#include "memory/alloc/slow_path.h"
#include "memory/block/block.h"
#include "memory/capture/ranges.h"
#include "memory/capture/replay_allocator.h"
#include "memory/pool/attach.h"
#include "memory/pool/replay.h"
#include "memory/pool/routing.h"
#include "memory/reclaim/reclaim.h"
#include "memory/state/handout.h"
#include "memory/state/memory_state.h"
#include "memory/state/request.h"
#include "memory/state/short_cycle.h"
#include <string.h>

ph_status ph_malloc_at(void *out_pointer, void *address, size_t bytes, ph_stream *stream)
{
    static const char call[] = "ph_malloc_at";
    void *got = NULL;
    if (!out_pointer)
        return ph__fail_null(call, "out_pointer");
    memcpy(out_pointer, &got, sizeof got);
    PH_TRY(ph__stream_check(stream, call));
    if ((uintptr_t)address % PH__BLOCK_MIN != 0)
        return ph__fail_native(PH_ERROR_ARGUMENT, 0, NULL, "%s: %p is not aligned to %zu bytes",
                               call, address, PH__BLOCK_MIN);
    ph__memory *memory = ph__memory_attach(stream->device, call);
    if (!memory)
        return ph_error_last()->status;
    if (bytes == 0)
        return PH_OK;
    ph__request request = {.bytes = bytes, .stream = stream, .call = call};
    if (!ph__block_round(bytes, &request.rounded))
        return ph__fail_native(PH_ERROR_SIZE, 0, NULL, "%s: %zu bytes overflow", call, bytes);
    ph__memory_reclaim(memory);
    PH_TRY(ph__route(memory, &request));
    if (ph__slow_path_has(memory, PH__SLOW_REPLAY_ALLOCATOR) &&
        ph__replay_allocator_acquire(&got, memory, &request, (uintptr_t)address, false)) {
        ph__unroute(memory, &request);
        memcpy(out_pointer, &got, sizeof got);
        return PH_OK;
    }
    bool no_memory = false;
    ph__memory_lock(memory);
    ph__block *block = NULL;
    if (request.capture_id && !ph__capture_ranges_reserve(request.pool))
        no_memory = true;
    else
        block = ph__heap_acquire_at(request.pool->heap, (uintptr_t)address, request.rounded, bytes,
                                    stream->id, &no_memory);
    if (block) {
        ph__memory_hand_out(memory, request.pool, block);
        if (request.capture_id)
            ph__capture_ranges_add(request.pool, request.capture_id, block);
        got = (void *)block->address;
    }
    ph__spin_unlock(&memory->lock);
    ph__unroute(memory, &request);
    if (no_memory)
        return ph__fail_host_memory(call, "the block's record");
    if (!got)
        return ph__fail_native(
            PH_ERROR_NOT_FOUND, 0, NULL,
            "%s: the exact address %p is not free for %zu bytes in the pool that this call "
            "routes to, on this stream",
            call, address, bytes);
    PH_TRY(ph__malloc_order_behind_replays(memory, &request, block));
    memcpy(out_pointer, &got, sizeof got);
    return PH_OK;
}
