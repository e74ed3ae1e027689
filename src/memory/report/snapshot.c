/* SPDX-License-Identifier: MIT */
/* memory/report/snapshot.c: the whole state as JSON: copied under the lock, written out without
 * it. */
#include "base/range_map.h"
#include "base/vec.h"
#include "memory/block/block.h"
#include "memory/pool/attach.h"
#include "memory/pool/pool.h"
#include "memory/reclaim/reclaim.h"
#include "memory/report/snapshot_json.h"
#include "memory/state/account.h"
#include "memory/state/history.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/segment.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"

typedef struct counts {
    size_t pools, segments, blocks, pinned, events;
} counts;

static void copies_free(ph__snapshot *all)
{
    ph__vec_free(&all->pools);
    ph__vec_free(&all->segments);
    ph__vec_free(&all->blocks);
    ph__vec_free(&all->pinned);
    ph__vec_free(&all->events);
}

static counts count_entries(const ph__memory *memory, const ph_pool *only)
{
    counts n = {0, 0, 0, memory->pinned.count, 0};
    for (const ph_pool *pool = &memory->default_pool; pool; pool = pool->next) {
        if (only && pool != only)
            continue;
        ph__heap_stats stats;
        ph__heap_get_stats(pool->heap, &stats);
        n.pools++;
        n.segments += stats.segments[0] + stats.segments[1];
        n.blocks += stats.used_blocks[0] + stats.used_blocks[1] + stats.free_blocks[0] +
                    stats.free_blocks[1];
    }
    if (memory->history)
        n.events = memory->history->written < memory->history->capacity
                       ? (size_t)memory->history->written
                       : memory->history->capacity;
    return n;
}

static bool room_fits(const ph__snapshot *all, const counts *n)
{
    return n->pools <= all->pools.capacity && n->segments <= all->segments.capacity &&
           n->blocks <= all->blocks.capacity && n->pinned <= all->pinned.capacity &&
           n->events <= all->events.capacity;
}

static bool make_room(ph__snapshot *all, const counts *n)
{
    return ph__vec_reserve(&all->pools, n->pools) && ph__vec_reserve(&all->segments, n->segments) &&
           ph__vec_reserve(&all->blocks, n->blocks) && ph__vec_reserve(&all->pinned, n->pinned) &&
           ph__vec_reserve(&all->events, n->events);
}

static void copy_segment(ph__snapshot *all, const ph_pool *pool, const ph__segment *segment)
{
    const ph__mseg *mseg = segment->user;
    ph__snapshot_segment *copy = &all->segments.at[all->segments.count++];
    *copy = (ph__snapshot_segment){.address = segment->address,
                                   .size = segment->size,
                                   .stream = segment->stream,
                                   .pool = pool->id,
                                   .small = segment->small,
                                   .captured = mseg->captured};
    for (const ph__block *block = segment->first; block; block = block->next) {
        all->blocks.at[all->blocks.count++] = (ph__snapshot_block){
            block->address,    block->size, block->requested,
            block->generation, block->free, !block->free && ph__block_is_live(block)};
        copy->blocks++;
    }
}

static void copy_pinned(ph__snapshot *all, const ph__memory *memory, const ph_pool *only)
{
    for (const ph__range *range = ph__range_map_from(&memory->pinned, 0); range;
         range = ph__range_map_from(&memory->pinned, range->base + range->size)) {
        const ph__pinned *block = range->value;
        if (!only || block->pool == only)
            all->pinned.at[all->pinned.count++] =
                (ph__snapshot_pinned){block->address,
                                      block->size,
                                      block->requested,
                                      block->generation,
                                      block->pool->id,
                                      block->free,
                                      !block->free && !block->freed_by_user};
    }
}

/* Everything that fits the room already made. Lock held. */
static void copy_all(ph__snapshot *all, const ph__memory *memory, const ph_pool *only)
{
    for (const ph_pool *pool = &memory->default_pool; pool; pool = pool->next) {
        if (only && pool != only)
            continue;
        all->pools.at[all->pools.count++] =
            (ph__snapshot_pool){pool->id,       pool->options, pool->use_count,
                                pool->reserved, pool->waiting, ph__pool_is_default(pool)};
        for (const ph__segment *s = ph__heap_first_segment(pool->heap); s; s = s->next)
            copy_segment(all, pool, s);
    }
    copy_pinned(all, memory, only);
    const ph__history *history = memory->history;
    uint64_t first =
        history && history->written > history->capacity ? history->written - history->capacity : 0;
    for (uint64_t i = first; history && i < history->written; i++)
        all->events.at[all->events.count++] = history->at[i % history->capacity];
    all->history = history != NULL;
    const ph__account *account =
        only && !ph__pool_is_default(only) ? &only->account : &memory->account;
    const ph__tally *bytes = &account->tally[PH__COUNT_BYTES];
    all->allocated = (size_t)(bytes->current[0] + bytes->current[1]);
    all->reserved = only ? only->reserved : memory->reserved;
    all->limit = only ? only->options.limit : memory->limit;
}

static bool copy_under_lock(ph__snapshot *all, ph__memory *memory, const ph_pool *only)
{
    for (;;) {
        ph__memory_lock(memory);
        counts n = count_entries(memory, only);
        bool enough = room_fits(all, &n);
        if (enough)
            copy_all(all, memory, only);
        ph__spin_unlock(&memory->lock);
        if (enough)
            return true;
        if (!make_room(all, &n))
            return false;
    }
}

ph_status ph_memory_snapshot(char **out, const ph_device *device, const ph_pool *pool)
{
    static const char call[] = "ph_memory_snapshot";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!device)
        return ph__fail_null(call, "device");
    if (pool)
        PH_TRY(ph__pool_check(pool, call));
    if (pool && pool->memory->device != device)
        return ph__fail_devices(call, "the pool", pool->memory->device, "what is asked about",
                                device);
    ph__memory *memory = ph__memory_attach((ph_device *)(uintptr_t)device, call);
    if (!memory)
        return ph_error_last()->status;
    ph__memory_reclaim(memory);
    ph__snapshot all = {.history = false};
    if (copy_under_lock(&all, memory, pool))
        *out = ph__snapshot_write(&all, device, pool);
    copies_free(&all);
    return *out ? PH_OK : ph__fail_host_memory(call, "the snapshot");
}
