/* SPDX-License-Identifier: MIT */
/* memory/observe/hold.c: memory that was allocated while a capture was open and that its graph
 * addresses: it stays out of use as long as the graph lives. */
#include "memory/observe/hold.h"
#include "base/log.h"
#include "base/range_map.h"
#include "base/vec.h"
#include "memory/block/block.h"
#include "memory/capture/born.h"
#include "memory/capture/released.h"
#include "memory/observe/lookup.h"
#include "memory/observe/track.h"
#include "memory/state/find.h"
#include "memory/state/handout.h"
#include "memory/state/memories.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/pinned_lists.h"
#include "memory/state/pool_state.h"
#include "memory/state/segment.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"
#include "memory/streams/deferred.h"
#include "memory/streams/poison.h"
#include "memory/streams/uses.h"

/* ---- what was allocated meanwhile ---- */
/* Blocks that the capture was given from its own pool are no such memory. */
static bool has_born(ph__memory *memory, const ph_pool *pool)
{
    ph__memory_lock(memory);
    bool has = pool->memory != memory ? memory->born && memory->generation > pool->born_from
                                      : pool->recording == PH__IN_CAPTURE &&
                                            ph__handed(memory) - pool->born_handed != pool->noted;
    ph__spin_unlock(&memory->lock);
    return has;
}

/* The devices are there until the capture has ended: see ph__born_handed_out. */
bool ph__pool_record_births(ph__births *out, ph_pool *pool)
{
    bool ok = true;
    *out = (ph__births){0};
    for (ph__memory *memory = ph__memories_begin(); memory && ok; memory = memory->next_memory) {
        ph__birthplace place = {.device = memory->device};
        if (!has_born(memory, pool))
            continue;
        ph__memory_read_bounds(&place.bounds, memory->device);
        ok = ph__vec_push(out, place);
    }
    ph__memories_end();
    if (!ok)
        ph__vec_free(out);
    return ok;
}

static void finish_block(ph__memory *memory, ph__block *block)
{
    ph__poison(memory, block);
    ph__memory_lock(memory);
    ph__waiting_count(memory, ph__mseg_of(block)->pool, false);
    block->user = NULL;
    ph__memory_give(memory, block);
    ph__spin_unlock(&memory->lock);
}

/* Blocks that another capture waits for as well stay where they are. */
static void reclaim_awaited(ph__memory *memory)
{
    ph__memory_lock(memory);
    memory->to_reclaim = false;
    ph__stream_uses *uses = memory->awaited;
    ph__block *block = ph__born_acquire_due(memory);
    memory->awaited = NULL;
    bool over = memory->born && !ph__recordings;
    if (over)
        memory->born = false;
    ph__spin_unlock(&memory->lock);
    while (block) {
        ph__block *next = block->link[0];
        finish_block(memory, block);
        block = next;
    }
    while (uses) {
        ph__stream_uses *next = uses->next;
        uses->next = NULL;
        ph__stream_uses_wait(memory, uses);
        uses = next;
    }
    if (over)
        ph_device_release(memory->device);
}

void ph__born_reclaim(ph__memory *to_reclaim)
{
    while (to_reclaim) {
        ph__memory *memory = to_reclaim;
        to_reclaim = memory->next_to_reclaim;
        reclaim_awaited(memory);
        ph_device_release(memory->device);
    }
}

/* ---- what a graph holds ---- */
uint64_t ph__pool_record_from(const ph_pool *pool)
{
    ph__memory *memory = pool->memory;
    ph__memory_lock(memory);
    uint64_t from = pool->born_from;
    ph__spin_unlock(&memory->lock);
    return from;
}

/* The block of either kind around the address that has not gone to a heap again; pinned ones that
 * are in a free list too. Lock held. */
static bool find_at(const ph__memory *memory, uintptr_t address, ph__block **block,
                    ph__pinned **pinned)
{
    *pinned = NULL;
    *block = ph__memory_may_have(memory, address) ? ph__memory_block(memory, address) : NULL;
    const ph__range *range = *block ? NULL : ph__range_map_find(&memory->pinned, address);
    *pinned = range ? range->value : NULL;
    return *block || *pinned;
}

/* The block is in somebody's hands who may know nothing of the capture. */
static bool is_reallocated(const ph__memory *memory, const ph__block *block, uintptr_t address)
{
    return memory->released.count > 0 && ph__block_is_live(block) &&
           ph__released_find(memory, address) != NULL;
}

static ph__birth find_block(ph__born *out, const ph__memory *memory, const ph_pool *pool,
                            const ph__block *block, uintptr_t address)
{
    if (ph__mseg_of(block)->pool == pool || block->generation < pool->born_from)
        return PH__BORN_NONE;
    *out = (ph__born){memory->device, (const void *)block->address, block->generation};
    return is_reallocated(memory, block, address) ? PH__BORN_AGAIN : PH__BORN_HERE;
}

/* Another capture's own. */
static bool is_written_by_graphs(const ph__mseg *mseg)
{
    return mseg->captured && (mseg->pool->graphs > 0 || mseg->pool->recording == PH__IN_CAPTURE);
}

/* Freed by a thread that captured nothing, and nobody's since then: it is a block again that was
 * freed and waits. Lock held. */
static ph__birth find_free(ph__born *out, ph__memory *memory, const ph_pool *pool,
                           uintptr_t address)
{
    const ph__range *released = memory->released.count ? ph__released_find(memory, address) : NULL;
    if (!released || (uint64_t)(uintptr_t)released->value < pool->born_from)
        return PH__BORN_NONE;
    const ph__range *range = ph__range_map_find(&memory->segments, address);
    const ph__segment *segment = range ? range->value : NULL;
    if (!segment || is_written_by_graphs(segment->user))
        return PH__BORN_AGAIN;
    ph__block *block = ph__released_acquire(memory, released);
    if (!block)
        return PH__BORN_AGAIN;
    ph__memory_retire(memory, block, ph__mseg_of(block)->stream);
    ph__born_wait(memory, block);
    *out = (ph__born){memory->device, (const void *)block->address, block->generation};
    return PH__BORN_HERE;
}

ph__birth ph__memory_find_born(ph__born *out, ph_pool *pool, const ph_device *device,
                               uintptr_t address)
{
    ph__memory *memory = ph__memory_of(device);
    ph__block *block;
    ph__pinned *pinned;
    ph__birth birth;
    ph__memory_lock(memory);
    if (!find_at(memory, address, &block, &pinned)) {
        birth = find_free(out, memory, pool, address);
    } else if (block) {
        birth = find_block(out, memory, pool, block, address);
    } else {
        *out = (ph__born){memory->device, (const void *)pinned->address, pinned->generation};
        birth = pinned->generation >= pool->born_from ? PH__BORN_HERE : PH__BORN_NONE;
    }
    ph__spin_unlock(&memory->lock);
    return birth;
}

uint64_t ph__memory_generation_at(const ph_device *device, uintptr_t address)
{
    ph__memory *memory = ph__memory_of(device);
    ph__block *block;
    ph__pinned *pinned;
    uint64_t generation = 0;
    if (!memory)
        return 0;
    ph__memory_lock(memory);
    if (find_at(memory, address, &block, &pinned))
        generation = block ? block->generation : pinned->generation;
    ph__spin_unlock(&memory->lock);
    return generation;
}

/* Lock held. */
static bool is_free_block(const ph__memory *memory, uintptr_t address)
{
    const ph__range *range = ph__range_map_find(&memory->segments, address);
    return range && ph__memory_block(memory, address) == NULL &&
           ((const ph__mseg *)((ph__segment *)range->value)->user)->pool->graphs == 0;
}

/* Lock held. */
static bool is_free_pinned(const ph__memory *memory, uintptr_t address)
{
    const ph__range *range = ph__range_map_find(&memory->pinned, address);
    const ph__pinned *block = range ? range->value : NULL;
    return block && (block->free || block->freed_by_user) && !block->held_for_good &&
           block->holders.count == 0 && block->pool->graphs == 0;
}

bool ph__memory_is_free(const ph_device *device, uintptr_t address)
{
    ph__memory *memory = ph__memory_of(device);
    if (!memory || !ph__memory_may_have(memory, address))
        return false;
    ph__memory_lock(memory);
    bool is_free = is_free_block(memory, address) || is_free_pinned(memory, address);
    ph__spin_unlock(&memory->lock);
    return is_free;
}

/* The record of uses of exactly that allocation, for which *fresh is taken where there is none.
 * Lock held. */
static ph__stream_uses *uses_of(ph__memory *memory, const ph__born *born, ph__stream_uses **fresh)
{
    ph__block *block;
    ph__pinned *pinned;
    if (!find_at(memory, (uintptr_t)born->base, &block, &pinned) ||
        (block ? block->generation : pinned->generation) != born->generation)
        return NULL;
    ph__stream_uses *uses = block ? ph__block_stream_uses(block) : pinned->uses;
    bool waits = ph__born_is_waiting(uses);
    if (uses && !waits)
        return !block || uses->block == block ? uses : NULL; /* else it is on its way to its heap */
    if (!fresh)
        return NULL;
    uses = *fresh;
    *fresh = NULL;
    uses->block = block;
    uses->pinned = pinned;
    uses->pool = block ? ph__mseg_of(block)->pool : pinned->pool;
    if (block) {
        if (waits)
            ph__born_unlink(memory, block);
        uses->state = waits ? PH__BLOCK_HELD : PH__BLOCK_LIVE;
        ph__block_set_stream_uses(block, uses);
        return uses;
    }
    uses->state = pinned->freed_by_user || pinned->free ? PH__BLOCK_FREEING : PH__BLOCK_LIVE;
    pinned->uses = uses;
    if (pinned->free) {
        ph__pinned_unfree(pinned);
        ph__waiting_count(memory, uses->pool, true);
        uses->state = PH__BLOCK_HELD;
    }
    return uses;
}

ph__tracking ph__memory_hold(const ph__born *born)
{
    ph__memory *memory = ph__memory_of(born->device);
    ph__stream_uses *fresh = memory ? ph__stream_uses_create() : NULL;
    if (!fresh)
        return memory ? PH__TRACK_NO_MEMORY : PH__TRACK_GONE;
    ph__memory_lock(memory);
    ph__stream_uses *uses = uses_of(memory, born, &fresh);
    if (uses)
        uses->holders++;
    ph__spin_unlock(&memory->lock);
    ph__stream_uses_destroy(memory, fresh);
    return uses ? PH__TRACKS : PH__TRACK_GONE;
}

/* Replays in flight may still use it. On its own stream what comes after them is behind them, but
 * for what the host does. Lock held. */
static bool add_replays(ph__stream_uses *uses, ph_stream *const *streams, size_t count)
{
    bool added = true;
    for (size_t i = 0; i < count && added; i++)
        if (uses->pinned || streams[i]->id != uses->block->segment->stream)
            added = ph__stream_uses_add(uses, streams[i], 0, false);
    return added;
}

void ph__memory_let_go(const ph__born *born, ph_stream *const *streams, size_t count)
{
    ph__memory *memory = ph__memory_of(born->device);
    ph__memory_lock(memory);
    ph__stream_uses *uses = uses_of(memory, born, NULL);
    bool added = uses && add_replays(uses, streams, count);
    bool last = added && --uses->holders == 0 && uses->state == PH__BLOCK_HELD;
    if (last)
        uses->state = PH__BLOCK_FREEING;
    ph__spin_unlock(&memory->lock);
    if (last)
        ph__stream_uses_wait(memory, uses);
    if (uses && !added)
        PH__LOG_ONCE(
            PH_LOG_WARNING,
            "no host memory to remember the replays that use %p, which their graph lets go of; the "
            "block stays taken until "
            "the device is closed; said once",
            born->base);
}
