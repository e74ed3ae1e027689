/* SPDX-License-Identifier: MIT */
/* memory/alloc/pinned.c: pinned host memory: powers of two, cached per pool, reused only when no
 * work reads them any more. */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/log.h"
#include "base/range_map.h"
#include "device/capture/refuse.h"
#include "device/wrap_cuda.h"
#include "memory/alloc/free.h"
#include "memory/capture/allocation_log.h"
#include "memory/capture/replay_allocator.h"
#include "memory/observe/sites.h"
#include "memory/pool/attach.h"
#include "memory/pool/routing.h"
#include "memory/reclaim/leaving.h"
#include "memory/reclaim/pinned_holders.h"
#include "memory/reclaim/pinned_memory.h"
#include "memory/reclaim/reclaim.h"
#include "memory/state/allocation.h"
#include "memory/state/find.h"
#include "memory/state/free_counter.h"
#include "memory/state/handout.h"
#include "memory/state/memories.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/pinned_lists.h"
#include "memory/state/request.h"
#include "memory/state/short_cycle.h"
#include "memory/streams/uses.h"
#include <string.h>

enum {
    SMALLEST_SHIFT = 9
};

static bool class_of(size_t bytes, unsigned *size_class)
{
    *size_class = 0;
    while (*size_class < PH__PINNED_CLASSES &&
           ((size_t)1 << (SMALLEST_SHIFT + *size_class)) < bytes)
        ++*size_class;
    return *size_class < PH__PINNED_CLASSES;
}

/* ---- taking ---- */

static void hand_out_block(ph__memory *memory, ph__pinned *block, const ph__request *request)
{
    block->free = block->freed_by_user = false;
    block->requested = request->bytes;
    block->capture_id = request->capture_id;
    block->calls = atomic_load_explicit(&memory->device->captured_calls, memory_order_relaxed);
    block->generation = ph__next_generation(memory);
    if (ph__slow_path_has(memory, PH__SLOW_BORN))
        ph__born_handed_out(memory);
    block->stream = ph__stream_retain(request->stream);
    if (request->capture_id)
        ph__layout_note(request->pool, request->capture_id,
                        &(ph__logged_allocation){.stream = request->stream->id,
                                                 .address = block->address,
                                                 .requested = block->requested,
                                                 .size = block->size,
                                                 .generation = block->generation,
                                                 .pinned = true});
    memory->account.pinned += block->size;
    if (!ph__pool_is_default(block->pool))
        block->pool->account.pinned += block->size;
}

/* No work uses a free block, whatever pool it was of. */
static ph__pinned *acquire_cached_pinned(ph__memory *memory, const ph__request *request,
                                         unsigned size_class)
{
    ph_pool *dead = NULL; /* none: the default pool does not go */
    ph__memory_lock(memory);
    ph__pinned *block = request->pool->pinned_free[size_class];
    if (!block)
        block = memory->default_pool.pinned_free[size_class];
    if (block) {
        ph__pinned_unfree(block);
        ph__pinned_move(block, request->pool, &dead);
        hand_out_block(memory, block, request);
    }
    ph__spin_unlock(&memory->lock);
    return block;
}

/* Notes a new block and hands it out; false without host memory. */
static bool adopt_block(ph__memory *memory, ph__pinned *block, const ph__request *request)
{
    ph__memory_lock(memory);
    bool added = ph__range_map_add(&memory->pinned, block->address, block->size, block);
    if (added) {
        ph__announced_displace(memory, block->address, block->size);
        ph__address_bounds_widen(&memory->pinned_bounds, block->address, block->size);
        block->pool->keeps++;
        memory->account.pinned_reserved += block->size;
        if (!ph__pool_is_default(block->pool))
            block->pool->account.pinned_reserved += block->size;
        hand_out_block(memory, block, request);
    }
    ph__spin_unlock(&memory->lock);
    return added;
}

static ph__pinned *make_block(ph__memory *memory, const ph__request *request, unsigned size_class,
                              int *result)
{
    void *address = NULL;
    size_t size = (size_t)1 << (SMALLEST_SHIFT + size_class);
    *result = PH__R_OK;
    ph__pinned *block = ph__calloc(1, sizeof *block);
    if (!block)
        return NULL;
    *result = ph__pinned_driver_alloc(&address, memory, size);
    if (*result != PH__R_OK) {
        ph__free(block);
        return NULL;
    }
    block->address = (uintptr_t)address;
    block->size = size;
    block->size_class = size_class;
    block->pool = request->pool;
    if (adopt_block(memory, block, request))
        return block;
    ph__pinned_driver_free(memory, block->address);
    ph__free(block);
    return NULL;
}

ph_status ph_malloc_pinned(void *out_pointer, size_t count, size_t size, ph_stream *stream)
{
    static const char call[] = "ph_malloc_pinned";
    void *address = NULL;
    unsigned size_class;
    int result = PH__R_OK;
    if (!out_pointer)
        return ph__fail_null(call, "out_pointer");
    memcpy(out_pointer, &address, sizeof address);
    PH_TRY(ph__stream_check(stream, call));
    ph__memory *memory = ph__memory_attach(stream->device, call);
    if (!memory)
        return ph_error_last()->status;
    ph__request request = {.stream = stream, .call = call};
    if (!ph__mul(count, size, &request.bytes) || !class_of(request.bytes, &size_class))
        return ph__fail_native(PH_ERROR_SIZE, 0, NULL, "%s: %zu elements of %zu bytes are too many",
                               call, count, size);
    if (request.bytes == 0)
        return PH_OK;
    ph__memory_reclaim(memory);
    PH_TRY(ph__route(memory, &request));
    if (ph__slow_path_has(memory, PH__SLOW_REPLAY_ALLOCATOR) &&
        ph__replay_allocator_acquire(&address, memory, &request, 0, true)) {
        ph__unroute(memory, &request);
        memcpy(out_pointer, &address, sizeof address);
        return PH_OK;
    }
    ph__pinned *block = acquire_cached_pinned(memory, &request, size_class);
    /* Threads that free and ask in turn would else take ever more new memory while one reclaims
     * what they have freed. */
    if (!block && ph__memory_reclaim_all(memory))
        block = acquire_cached_pinned(memory, &request, size_class);
    if (!block)
        block = make_block(memory, &request, size_class, &result);
    if (!block && result == PH__R_OUT_OF_MEMORY && !ph__capturing(memory)) {
        (void)ph__memory_trim_now(memory, PH__TRIM_CACHED, request.pool);
        block = make_block(memory, &request, size_class, &result);
    }
    ph__unroute(memory, &request);
    if (!block && (result == PH__R_OK || result == PH__R_OUT_OF_MEMORY))
        return ph__fail_host_memory(call, "a pinned block");
    if (!block)
        return ph__driver_fail(result, PH__NAME_MEM_HOST_ALLOC, "%s: %zu bytes", call,
                               request.bytes);
    address = (void *)block->address;
    if (ph__slow_path_has(memory, PH__SLOW_SITES))
        ph__sites_allocated(memory, address);
    memcpy(out_pointer, &address, sizeof address);
    return PH_OK;
}

static void note_pinned_freed(ph__memory *memory, const ph__pinned *block)
{
    const ph_allocation was = {.base = (void *)block->address,
                               .requested = block->requested,
                               .size = block->size,
                               .generation = block->generation,
                               .pinned = true};
    const ph_pool_id none = {0, 0};
    ph__freed_list_add(&memory->freed, &was,
                       ph__pool_is_default(block->pool) ? none : block->pool->id);
}

/* In the caller's hands no more: counted, reported to trackers. Lock held. */
static void retire_block(ph__memory *memory, ph__pinned *block)
{
    block->freed_by_user = true;
    if (block->trackers > 0)
        ph__free_counter_add(memory, block->generation);
    block->trackers = 0;
    if (block->generation < memory->freed.bound)
        note_pinned_freed(memory, block);
    memory->account.pinned -= block->size;
    if (!ph__pool_is_default(block->pool))
        block->pool->account.pinned -= block->size;
}

static bool remember_stream(ph__memory *memory, ph__pinned *block, ph_stream *stream)
{
    if (stream == block->stream)
        return true;
    if (ph__pinned_uses(block) && ph__stream_uses_add(block->uses, stream, 0, false))
        return true;
    if (ph__capturing(memory) || ph__stream_capture_id(stream) != 0)
        return false;
    return ph__stream_wait(stream);
}

static bool free_pinned_block(ph__memory *memory, uintptr_t address, ph_stream *stream)
{
    uint64_t capture_id = stream ? ph__stream_capture_id(stream) : 0;
    if (ph__slow_path_has(memory, PH__SLOW_REPLAY_ALLOCATOR) &&
        ph__replay_allocator_free(memory, (const void *)address))
        return true;
    if (ph__slow_path_has(memory, PH__SLOW_SITES))
        ph__sites_freeing(memory, (const void *)address);
    ph__memory_lock(memory);
    ph__pinned *block = ph__pinned_find(memory, address);
    if (!block || block->address != address) {
        ph__spin_unlock(&memory->lock);
        return false;
    }
    retire_block(memory, block);
    ph_stream *own = block->stream;
    bool in_capture = block->capture_id != 0 && block->capture_id == block->pool->capture_id &&
                      (!stream || stream == own || capture_id == block->capture_id);
    /* Handed out in the open capture, in no copy of it, and no kernel or host function came
     * after that: no work can be reading it. */
    bool unused =
        in_capture && block->holders.count == 0 && !block->held_for_good && !block->uses &&
        block->calls == atomic_load_explicit(&memory->device->captured_calls, memory_order_relaxed);
    if (unused) {
        block->stream = NULL;
        ph__pinned_give(block);
    }
    ph__spin_unlock(&memory->lock);
    if (unused) {
        ph__stream_release(own);
        return true;
    }
    if (stream && !remember_stream(memory, block, stream))
        block->held_for_good = true;
    ph__pinned_hold(memory, block);
    ph__memory_reclaim(memory);
    return true;
}

void ph_free_pinned(void *pointer, ph_stream *stream)
{
    if (!pointer || (stream && ph__free_on_destroyed(stream, pointer, "ph_free_pinned")))
        return;
    ph__memory *memory =
        stream ? ph__memory_of(stream->device) : ph__memory_of_address((uintptr_t)pointer);
    bool freed = memory && free_pinned_block(memory, (uintptr_t)pointer, stream);
    if (!freed && !ph__memory_is_forked((uintptr_t)pointer))
        PH__LOG_ONCE(PH_LOG_WARNING,
                     "ph_free_pinned: %p is no live pinned allocation of the stream's device "
                     "(freed twice, or "
                     "not from ph_malloc_pinned); nothing was done; said once",
                     pointer);
    if (memory && !stream)
        ph_device_release(memory->device);
}
