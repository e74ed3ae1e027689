/* SPDX-License-Identifier: MIT */
/* memory/alloc/allocator.c: the short path of ph_malloc and ph_free. */
#include "base/checked.h"
#include "base/log.h"
#include "memory/alloc/free.h"
#include "memory/alloc/slow_path.h"
#include "memory/alloc/stream_users.h"
#include "memory/block/block.h"
#include "memory/capture/born.h"
#include "memory/capture/replay_allocator.h"
#include "memory/observe/lookup.h"
#include "memory/observe/sites.h"
#include "memory/plan/notes.h"
#include "memory/pool/attach.h"
#include "memory/state/counting.h"
#include "memory/state/cycle_counting.h"
#include "memory/state/find.h"
#include "memory/state/handout.h"
#include "memory/state/memories.h"
#include "memory/state/memory_state.h"
#include "memory/state/request.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"
#include <string.h>

/* The block that an equal request has just given back, or another one; it is counted. rounded: of
 * so many bytes. */
PH__SHORT ph__block *short_acquire(ph__memory *memory, size_t bytes, size_t rounded,
                                   const ph_stream *stream, bool *no_memory)
{
    struct ph__short_cycle *cycle = &memory->cycle;
    if (cycle->returned && cycle->rounded == rounded && cycle->stream == stream->id) {
        cycle->returned = false;
        ph__cycle_hand_out(memory, cycle->block, bytes);
        return cycle->block;
    }
    ph__cycle_end(memory);
    ph__block *block =
        ph__heap_acquire(memory->default_pool.heap, rounded, bytes, stream->id, no_memory);
    if (!block)
        return NULL;
    *cycle = (struct ph__short_cycle){
        .block = block, .address = block->address, .rounded = rounded, .stream = stream->id};
    ph__short_hand_out(memory, &memory->default_pool, block);
    return block;
}

static ph_status malloc_slow(void **address, ph__memory *memory, size_t bytes, size_t rounded,
                             ph_stream *stream, const char *call)
{
    ph__request request = {.bytes = bytes,
                           .rounded = rounded,
                           .stream = stream,
                           .pool = &memory->default_pool,
                           .call = call};
    PH_TRY(ph__malloc_slow(address, memory, &request));
    if (ph__slow_path_has(memory, PH__SLOW_SITES))
        ph__sites_allocated(memory, *address);
    return PH_OK;
}

ph_status ph_malloc(void *out_pointer, size_t count, size_t size, ph_stream *stream)
{
    static const char call[] = "ph_malloc";
    void *address = NULL;
    size_t bytes;
    if (!out_pointer)
        return ph__fail_null(call, "out_pointer");
    memcpy(out_pointer, &address, sizeof address);
    if (!stream || atomic_load_explicit(&stream->destroyed, memory_order_relaxed) ||
        ph__device_may_refuse())
        PH_TRY(ph__stream_check(stream, call));
    ph__memory *memory = ph__memory_of(stream->device);
    if (!memory && !(memory = ph__memory_attach(stream->device, call)))
        return ph_error_last()->status;
    if (!ph__mul(count, size, &bytes) || bytes > SIZE_MAX - (PH__BLOCK_MIN - 1))
        return ph__fail_native(PH_ERROR_SIZE, 0, NULL, "%s: %zu elements of %zu bytes overflow",
                               call, count, size);
    if (bytes == 0)
        return PH_OK;
    const size_t rounded = (bytes + (PH__BLOCK_MIN - 1)) & ~(PH__BLOCK_MIN - 1);
    if (!ph__slow_path_has(memory, ~0U) &&
        (!atomic_load_explicit(&stream->device->foreign, memory_order_relaxed) ||
         ph__stream_is_free(stream))) {
        bool no_memory;
        ph__spin_lock(&memory->lock);
        /* Once more: a capture may just have begun, on whatever device. */
        ph__block *block = ph__slow_path_has(memory, PH__SLOW_BORN)
                               ? NULL
                               : short_acquire(memory, bytes, rounded, stream, &no_memory);
        if (block)
            address = (void *)block->address;
        ph__spin_unlock(&memory->lock);
    }
    if (!address)
        PH_TRY(malloc_slow(&address, memory, bytes, rounded, stream, call));
    memcpy(out_pointer, &address, sizeof address);
    return PH_OK;
}

/* device NULL: no device has the address. */
__attribute__((noinline)) static void warn_bad_free(const char *call, const ph_device *device,
                                                    const void *pointer)
{
    ph_allocation around;
    if (ph__memory_is_forked((uintptr_t)pointer))
        return;
    bool found = device && ph__memory_find(&around, device, pointer);
    if (found && around.foreign)
        PH__LOG_ONCE(PH_LOG_WARNING,
                     "%s: %p lies in a block of another allocator (ph_foreign_announce), which "
                     "frees it; nothing was done; said once",
                     call, pointer);
    else if (found && around.base != pointer && !around.pinned)
        PH__LOG_ONCE(
            PH_LOG_WARNING,
            "%s: %p lies %zu bytes inside the live block %p; free that address; nothing was "
            "done; said once",
            call, pointer, (size_t)((uintptr_t)pointer - (uintptr_t)around.base), around.base);
    else
        PH__LOG_ONCE(PH_LOG_WARNING,
                     "%s: %p is no live allocation of the device (freed twice, or not "
                     "from ph_malloc); nothing was done; said once",
                     call, pointer);
}

/* The short way back: a block of its own stream that nobody else uses, but perhaps a capture
 * that is open. */
PH__SHORT bool free_at_once(ph__memory *memory, ph__block *block, const ph_stream *stream,
                            bool captures)
{
    if (ph__block_stream_uses(block) || block->shared ||
        (stream && stream->id != block->segment->stream))
        return false;
    if (captures && ph__born_keeps(memory, block)) {
        ph__memory_retire(memory, block, NULL);
        ph__born_wait(memory, block);
        return true;
    }
    ph__short_retire(memory, block);
    ph__short_give(memory, block);
    return true;
}

/* As free_at_once, of the block that the heap gave last: it stays out of the heap. */
PH__SHORT bool free_in_cycle(ph__memory *memory, const void *pointer, const ph_stream *stream,
                             bool captures)
{
    struct ph__short_cycle *cycle = &memory->cycle;
    ph__block *block = cycle->block;
    if (!block || cycle->address != (uintptr_t)pointer || cycle->returned || captures ||
        ph__block_stream_uses(block) || (stream && stream->id != cycle->stream) ||
        ph__short_is_abandoned(ph__mseg_of(block)))
        return false;
    ph__short_retire(memory, block);
    ph__cycle_count_freed(memory, block);
    cycle->returned = true;
    return true;
}

/* The work of another stream so far is waited for at the end of the block that it lies in. */
__attribute__((noinline)) static bool free_replayed(ph__memory *memory, void *pointer,
                                                    ph_stream *stream, const char *call)
{
    void *arena = stream && ph__stream_capture_id(stream) == 0
                      ? ph__replay_allocator_arena_at(memory, pointer)
                      : NULL;
    ph_error before;
    ph__error_save(&before);
    if (arena && ph__record_use(memory, arena, stream, 0, call) != PH_OK)
        ph__error_restore(&before);
    return ph__replay_allocator_free(memory, pointer);
}

PH__SHORT void free_in(ph__memory *memory, void *pointer, ph_stream *stream, const char *call)
{
    unsigned flags = atomic_load_explicit(&memory->slow_path_flags, memory_order_acquire);
    bool plain = (flags & (PH__SLOW_HISTORY | PH__SLOW_POISON)) == 0, done = false;
    if (flags & PH__SLOW_PLAN)
        ph__plan_note_free(memory, pointer, stream);
    if ((flags & PH__SLOW_REPLAY_ALLOCATOR) && free_replayed(memory, pointer, stream, call))
        return;
    if (flags & PH__SLOW_SITES)
        ph__sites_freeing(memory, pointer);
    ph__spin_lock(&memory->lock);
    if (plain && free_in_cycle(memory, pointer, stream, flags & PH__SLOW_BORN)) {
        ph__spin_unlock(&memory->lock);
        return;
    }
    ph__cycle_end(memory);
    ph__block *block = ph__heap_find(memory->default_pool.heap, (uintptr_t)pointer);
    if (!block)
        block = ph__memory_block(memory, (uintptr_t)pointer);
    bool found = block && block->address == (uintptr_t)pointer && ph__block_is_live(block);
    if (found && plain)
        done = free_at_once(memory, block, stream, flags & PH__SLOW_BORN);
    ph__spin_unlock(&memory->lock);
    if (!found || (!done && !ph__free_slow(memory, pointer, stream)))
        warn_bad_free(call, memory->device, pointer);
}

PH__SHORT void free_of(const ph_device *device, void *pointer, ph_stream *stream, const char *call)
{
    ph__memory *memory = ph__memory_of(device);
    if (memory)
        free_in(memory, pointer, stream, call);
    else
        warn_bad_free(call, NULL, pointer);
}

void ph_device_free(ph_device *device, void *pointer)
{
    if (device && pointer)
        free_of(device, pointer, NULL, "ph_device_free");
}

void ph_free(void *pointer, ph_stream *stream)
{
    static const char call[] = "ph_free";
    if (!pointer)
        return;
    if (stream) {
        if (ph__free_on_destroyed(stream, pointer, call))
            return;
        free_of(stream->device, pointer, stream, call);
        return;
    }
    ph__memory *memory = ph__memory_of_address((uintptr_t)pointer);
    if (!memory) {
        warn_bad_free(call, NULL, pointer);
        return;
    }
    ph_device *device = memory->device;
    free_in(memory, pointer, NULL, call);
    ph_device_release(device);
}
