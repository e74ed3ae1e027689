/* SPDX-License-Identifier: MIT */
/* memory/alloc/allocator.c: the short path of ph_malloc, and what every way of taking and giving
 * back a block goes through. */
#include "base/checked.h"
#include "base/log.h"
#include "memory/state.h"
#include <string.h>

uint64_t ph__generation_chunk(void)
{
    static _Atomic uint64_t next = 1;
    return atomic_fetch_add_explicit(&next, (uint64_t)1 << 20, memory_order_relaxed);
}

ph__block *ph__memory_block(const ph__memory *memory, uintptr_t address)
{
    ph__block *block = ph__heap_find(memory->default_pool.heap, address);
    if (block)
        return block;
    const ph__range *range = ph__range_map_find(&memory->segments, address);
    return range ? ph__heap_find(((ph__segment *)range->value)->heap, address) : NULL;
}

/* The short path is one function each way: what it is made of must not become calls. */
#define SHORT static inline __attribute__((always_inline))

/* Free blocks that are only a part of their segment. */
typedef struct parts {
    unsigned blocks;
    size_t bytes;
} parts;

/* Those around a used block. */
SHORT parts parts_around(const ph__block *block)
{
    const ph__block *previous = block->previous, *next = block->next;
    parts around = {0, 0};
    if (previous && previous->free) {
        around.blocks++;
        around.bytes += previous->size;
    }
    if (next && next->free) {
        around.blocks++;
        around.bytes += next->size;
    }
    return around;
}

/* What it and its free neighbours are, or were, as one free block. */
SHORT parts parts_merged(const ph__block *block, parts around)
{
    size_t bytes = block->size + around.bytes;
    if (bytes == block->segment->size)
        return (parts){0, 0};
    return (parts){1, bytes};
}

SHORT void count_change(ph__tally *tally, unsigned half, size_t before, size_t after)
{
    if (after > before)
        ph__tally_add(tally, half, after - before);
    else
        ph__tally_remove(tally, half, before - after);
}

SHORT void count_parts(ph__account *account, unsigned half, parts before, parts after)
{
    if (before.blocks != after.blocks)
        count_change(&account->tally[PH__COUNT_SPLIT], half, before.blocks, after.blocks);
    count_change(&account->tally[PH__COUNT_SPLIT_BYTES], half, before.bytes, after.bytes);
}

static void raise(uint64_t *peak, uint64_t now)
{
    if (now > *peak)
        *peak = now;
}

/* Only while something waits. */
static void count_active_peaks(ph__account *account)
{
    const ph__tally *blocks = &account->tally[PH__COUNT_BLOCKS],
                    *bytes = &account->tally[PH__COUNT_BYTES];
    uint64_t all_blocks = 0, all_bytes = 0;
    for (unsigned half = 0; half < 2; half++) {
        uint64_t active = blocks->current[half] + account->waiting_blocks[half];
        uint64_t active_bytes = bytes->current[half] + account->waiting_bytes[half];
        raise(&account->active_peak[1 + half], active);
        raise(&account->active_bytes_peak[1 + half], active_bytes);
        all_blocks += active;
        all_bytes += active_bytes;
    }
    raise(&account->active_peak[0], all_blocks);
    raise(&account->active_bytes_peak[0], all_bytes);
}

SHORT void count_taken(ph__account *account, unsigned half, const ph__block *block)
{
    ph__tally_add(&account->tally[PH__COUNT_BLOCKS], half, 1);
    ph__tally_add(&account->tally[PH__COUNT_BYTES], half, block->size);
    ph__tally_add(&account->tally[PH__COUNT_REQUESTED], half, block->requested);
    if (account->waiting_blocks[0] + account->waiting_blocks[1] != 0)
        count_active_peaks(account);
}

SHORT void count_retired(ph__account *account, unsigned half, const ph__block *block)
{
    ph__tally_remove(&account->tally[PH__COUNT_BLOCKS], half, 1);
    ph__tally_remove(&account->tally[PH__COUNT_BYTES], half, block->size);
    ph__tally_remove(&account->tally[PH__COUNT_REQUESTED], half, block->requested);
}

static void count_waiting(ph__account *account, unsigned half, const ph__block *block, bool waits)
{
    account->waiting_blocks[half] += waits ? 1 : (uint64_t)-1;
    account->waiting_bytes[half] += waits ? block->size : 0 - (uint64_t)block->size;
}

SHORT unsigned half_of(const ph__block *block)
{
    return block->segment->small ? 0 : 1;
}

SHORT void hand_out(ph__memory *memory, ph_pool *pool, ph__block *block)
{
    unsigned half = half_of(block);
    parts after = parts_around(block), before = parts_merged(block, after);
    block->generation = ph__next_generation(memory);
    count_taken(&memory->account, half, block);
    count_parts(&memory->account, half, before, after);
    if (pool != &memory->default_pool) {
        count_taken(&pool->account, half, block);
        count_parts(&pool->account, half, before, after);
    }
}

void ph__memory_hand_out(ph__memory *memory, ph_pool *pool, ph__block *block)
{
    hand_out(memory, pool, block);
    block->thread = ph__born_thread();
    if (ph__sees(memory, PH__SEE_BORN))
        ph__born_handed_out(memory);
    if (ph__sees(memory, PH__SEE_HISTORY))
        ph__history_note(memory, PH__ALLOC, block->address, block->size, pool,
                         ph__mseg_of(block)->stream, block->generation);
}

SHORT void retire(ph__memory *memory, ph__block *block)
{
    unsigned half = half_of(block);
    ph_pool *pool = ph__mseg_of(block)->pool;
    if ((uintptr_t)block->user & PH__TRACKED) {
        block->user = ph__block_uses(block);
        ph__track_died(memory, block->generation);
    }
    count_retired(&memory->account, half, block);
    if (pool != &memory->default_pool)
        count_retired(&pool->account, half, block);
}

void ph__memory_retire(ph__memory *memory, ph__block *block, ph_stream *stream)
{
    unsigned half = half_of(block);
    ph_pool *pool = ph__mseg_of(block)->pool;
    retire(memory, block);
    count_waiting(&memory->account, half, block, true);
    if (pool != &memory->default_pool)
        count_waiting(&pool->account, half, block, true);
    if (ph__sees(memory, PH__SEE_HISTORY))
        ph__history_note(memory, PH__FREE, block->address, block->size, ph__mseg_of(block)->pool,
                         stream, block->generation);
}

/* Nobody can allocate from the segment any more, unless replays write it, which is looked at
 * then. */
SHORT bool is_abandoned(const ph__mseg *mseg)
{
    return mseg->pool->use_count == 0 ||
           atomic_load_explicit(&mseg->stream->destroyed, memory_order_relaxed);
}

SHORT void give(ph__memory *memory, ph__block *block)
{
    unsigned half = half_of(block);
    ph_pool *pool = ph__mseg_of(block)->pool;
    parts before = parts_around(block), after = parts_merged(block, before);
    count_parts(&memory->account, half, before, after);
    if (pool != &memory->default_pool) {
        count_parts(&pool->account, half, before, after);
    }
    ph__segment *segment = ph__heap_give(pool->heap, block);
    if (segment->used_blocks == 0 && is_abandoned(segment->user))
        ph__mseg_due(memory, segment->user);
}

void ph__memory_give(ph__memory *memory, ph__block *block)
{
    unsigned half = half_of(block);
    ph_pool *pool = ph__mseg_of(block)->pool;
    count_waiting(&memory->account, half, block, false);
    if (pool != &memory->default_pool)
        count_waiting(&pool->account, half, block, false);
    give(memory, block);
}

ph__block *ph__memory_take(ph__memory *memory, const ph__request *request, bool *no_memory)
{
    ph_pool *pool = request->pool;
    if (request->capture_id && !ph__given_reserve(pool)) {
        *no_memory = true;
        return NULL;
    }
    ph__block *block;
    do
        block = ph__heap_take(pool->heap, request->rounded, request->bytes, request->stream->id,
                              no_memory);
    while (block && !request->capture_id && ph__released_avoid(memory, pool, block));
    if (!block)
        return NULL;
    ph__memory_hand_out(memory, pool, block);
    if (request->capture_id)
        ph__given_note(pool, request->capture_id, block);
    return block;
}

ph_status ph_malloc(void *out_pointer, size_t count, size_t size, ph_stream *stream)
{
    static const char call[] = "ph_malloc";
    void *address = NULL;
    if (!out_pointer)
        return ph__fail_null(call, "out_pointer");
    memcpy(out_pointer, &address, sizeof address);
    if (!stream || atomic_load_explicit(&stream->destroyed, memory_order_relaxed))
        return ph__stream_check(stream, call);
    ph__memory *memory = ph__memory_of(stream->device);
    if (!memory && !(memory = ph__memory_attach(stream->device, call)))
        return ph_error_last()->status;
    ph__request request = {.stream = stream, .pool = &memory->default_pool, .call = call};
    if (!ph__mul(count, size, &request.bytes) || request.bytes > SIZE_MAX - (PH__BLOCK_MIN - 1))
        return ph__fail_native(PH_ERROR_SIZE, 0, NULL, "%s: %zu elements of %zu bytes overflow",
                               call, count, size);
    if (request.bytes == 0)
        return PH_OK;
    request.rounded = (request.bytes + (PH__BLOCK_MIN - 1)) & ~(PH__BLOCK_MIN - 1);
    if (!ph__sees(memory, ~0U) &&
        (!atomic_load_explicit(&stream->device->foreign, memory_order_relaxed) ||
         ph__stream_is_free(stream))) {
        bool no_memory;
        ph__spin_lock(&memory->lock);
        /* Once more: a capture may just have begun, on whatever device. */
        ph__block *block = ph__sees(memory, PH__SEE_BORN)
                               ? NULL
                               : ph__heap_take(memory->default_pool.heap, request.rounded,
                                               request.bytes, stream->id, &no_memory);
        if (block) {
            hand_out(memory, &memory->default_pool, block);
            address = (void *)block->address;
        }
        ph__spin_unlock(&memory->lock);
    }
    if (!address) {
        PH_TRY(ph__malloc_slow(&address, memory, &request));
        if (ph__sees(memory, PH__SEE_SITES))
            ph__sites_allocated(memory, address);
    }
    memcpy(out_pointer, &address, sizeof address);
    return PH_OK;
}

/* device NULL: no device has the address. */
__attribute__((noinline)) static void bad_free(const char *call, const ph_device *device,
                                               const void *pointer)
{
    ph_allocation around;
    if (ph__memory_is_forked((uintptr_t)pointer))
        return;
    if (device && ph__memory_find(&around, device, pointer) && around.base != pointer &&
        !around.pinned)
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
SHORT bool free_at_once(ph__memory *memory, ph__block *block, const ph_stream *stream,
                        bool captures)
{
    if (ph__block_uses(block) || (stream && stream->id != block->segment->stream))
        return false;
    if (captures && ph__born_keeps(memory, block)) {
        ph__memory_retire(memory, block, NULL);
        ph__born_wait(memory, block);
        return true;
    }
    retire(memory, block);
    give(memory, block);
    return true;
}

SHORT void free_in(ph__memory *memory, void *pointer, ph_stream *stream, const char *call)
{
    unsigned attention = atomic_load_explicit(&memory->attention, memory_order_acquire);
    bool plain = (attention & (PH__SEE_HISTORY | PH__SEE_POISON)) == 0, done = false;
    if ((attention & PH__SEE_SCRIPT) && ph__script_free(memory, pointer))
        return;
    if (attention & PH__SEE_SITES)
        ph__sites_freeing(memory, pointer);
    ph__spin_lock(&memory->lock);
    ph__block *block = ph__heap_find(memory->default_pool.heap, (uintptr_t)pointer);
    if (!block)
        block = ph__memory_block(memory, (uintptr_t)pointer);
    bool found = block && block->address == (uintptr_t)pointer && ph__block_is_live(block);
    if (found && plain)
        done = free_at_once(memory, block, stream, attention & PH__SEE_BORN);
    ph__spin_unlock(&memory->lock);
    if (!found || (!done && !ph__free_slow(memory, pointer, stream)))
        bad_free(call, memory->device, pointer);
}

SHORT void free_of(const ph_device *device, void *pointer, ph_stream *stream, const char *call)
{
    ph__memory *memory = ph__memory_of(device);
    if (memory)
        free_in(memory, pointer, stream, call);
    else
        bad_free(call, NULL, pointer);
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
        free_of(stream->device, pointer, stream, call);
        return;
    }
    ph__memory *memory = ph__memory_of_address((uintptr_t)pointer);
    if (!memory) {
        bad_free(call, NULL, pointer);
        return;
    }
    ph_device *device = memory->device;
    free_in(memory, pointer, NULL, call);
    ph_device_release(device);
}
