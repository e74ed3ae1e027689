/* SPDX-License-Identifier: MIT */
/* memory/pool/checkpoint.c: remembering which blocks of a pool are in use, and bringing that layout
 * back. */
#include "base/alloc.h"
#include "base/range_map.h"
#include "base/vec.h"
#include "memory/block/block.h"
#include "memory/capture/born.h"
#include "memory/pool/pool.h"
#include "memory/reclaim/reclaim.h"
#include "memory/state/handout.h"
#include "memory/state/memory_state.h"
#include "memory/state/pool_state.h"
#include "memory/state/segment.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"
#include "memory/streams/uses.h"
#include <stdlib.h>

/* A block in use, and where it was. */
typedef struct placed {
    uintptr_t segment, address;
    size_t size, requested;
    uint64_t stream, generation;
    void *user;
} placed;

typedef PH__VEC(placed) layout;
typedef PH__VEC(uintptr_t) address_list;

struct ph_pool_checkpoint {
    ph_pool_id pool;
    layout blocks;
    PH__VEC(ph__address_span) segments;
};

static size_t used_blocks(const ph_pool *pool)
{
    ph__heap_stats stats;
    ph__heap_get_stats(pool->heap, &stats);
    return stats.used_blocks[0] + stats.used_blocks[1];
}

static size_t segment_count(const ph_pool *pool)
{
    ph__heap_stats stats;
    ph__heap_get_stats(pool->heap, &stats);
    return stats.segments[0] + stats.segments[1];
}

/* Other streams were recorded for it, or graphs address it; what an ended capture recorded is
 * not running. */
static bool used_elsewhere(const ph__memory *memory, const ph__block *block)
{
    const ph__stream_uses *uses = ph__block_stream_uses(block);
    bool found = (uses && uses->holders > 0) || ph__born_awaits(block);
    for (size_t i = 0; uses && i < uses->list.count && !found; i++)
        found = uses->list.at[i].capture_id == 0 || ph__capturing(memory);
    return found;
}

/* Blocks that are freed but not free yet; to_free: and live ones that would wait when they are
 * freed. Lock held. */
static size_t waiting_blocks(const ph_pool *pool, bool to_free)
{
    size_t count = 0;
    for (const ph__segment *s = ph__heap_first_segment(pool->heap); s; s = s->next)
        for (const ph__block *b = s->first; b; b = b->next)
            if (!b->free && (!ph__block_is_live(b) || (to_free && used_elsewhere(pool->memory, b))))
                count++;
    return count;
}

/* Lock held; there is room. */
static void remember_blocks(layout *out, const ph_pool *pool)
{
    out->count = 0;
    for (const ph__segment *s = ph__heap_first_segment(pool->heap); s; s = s->next)
        for (const ph__block *b = s->first; b; b = b->next)
            if (!b->free)
                out->at[out->count++] = (placed){s->address, b->address,    b->size, b->requested,
                                                 s->stream,  b->generation, b->user};
}

static ph_status fail_waiting(const char *call, size_t waiting)
{
    return ph__fail_native(
        PH_ERROR_STATE, 0, NULL,
        "%s: %zu blocks of the pool wait for other streams; free what ph_record_stream was "
        "called for, then synchronize those streams, and destroy the graphs that address memory of "
        "the pool",
        call, waiting);
}

ph_status ph_pool_checkpoint_create(ph_pool_checkpoint **out, ph_pool *pool)
{
    static const char call[] = "ph_pool_checkpoint_create";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(ph__pool_check(pool, call));
    ph__memory *memory = pool->memory;
    ph__memory_reclaim(memory);
    ph_pool_checkpoint *checkpoint = ph__calloc(1, sizeof *checkpoint);
    if (!checkpoint)
        return ph__fail_host_memory(call, "the checkpoint");
    checkpoint->pool = pool->id;
    for (;;) {
        ph__memory_lock(memory);
        size_t waiting = waiting_blocks(pool, false), blocks = used_blocks(pool),
               segments = segment_count(pool);
        bool fits =
            blocks <= checkpoint->blocks.capacity && segments <= checkpoint->segments.capacity;
        if (fits && waiting == 0) {
            remember_blocks(&checkpoint->blocks, pool);
            for (const ph__segment *s = ph__heap_first_segment(pool->heap); s; s = s->next)
                checkpoint->segments.at[checkpoint->segments.count++] =
                    (ph__address_span){s->address, s->size};
        }
        ph__spin_unlock(&memory->lock);
        if (waiting > 0) {
            ph_pool_checkpoint_destroy(checkpoint);
            return fail_waiting(call, waiting);
        }
        if (fits)
            break;
        if (!ph__vec_reserve(&checkpoint->blocks, blocks) ||
            !ph__vec_reserve(&checkpoint->segments, segments)) {
            ph_pool_checkpoint_destroy(checkpoint);
            return ph__fail_host_memory(call, "the checkpoint");
        }
    }
    *out = checkpoint;
    return PH_OK;
}

void ph_pool_checkpoint_destroy(ph_pool_checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    ph__vec_free(&checkpoint->blocks);
    ph__vec_free(&checkpoint->segments);
    ph__free(checkpoint);
}

/* ---- restoring ---- all with the lock held */

static bool segments_exist(const ph_pool *pool, const ph_pool_checkpoint *checkpoint)
{
    const ph__memory *memory = pool->memory;
    for (size_t i = 0; i < checkpoint->segments.count; i++) {
        const ph__range *range =
            ph__range_map_find(&memory->segments, checkpoint->segments.at[i].base);
        const ph__segment *segment = range ? range->value : NULL;
        if (!segment || segment->heap != pool->heap ||
            segment->address != checkpoint->segments.at[i].base ||
            segment->size != checkpoint->segments.at[i].size)
            return false;
    }
    return true;
}

/* Empties the heap without any counting. */
static void give_all(ph_pool *pool, const layout *now)
{
    for (size_t i = 0; i < now->count; i++)
        (void)ph__heap_give(pool->heap, ph__heap_find(pool->heap, now->at[i].address));
}

/* Takes the layout out of an empty heap, without any counting; false: not all, and then the heap
 * is empty again. */
static bool acquire_all(ph_pool *pool, const layout *wanted)
{
    for (size_t i = 0; i < wanted->count; i++) {
        const placed *one = &wanted->at[i];
        bool no_memory;
        ph__block *block = ph__heap_acquire_at(pool->heap, one->address, one->size, one->requested,
                                               one->stream, &no_memory);
        if (block)
            continue;
        while (i-- > 0)
            (void)ph__heap_give(pool->heap, ph__heap_find(pool->heap, wanted->at[i].address));
        return false;
    }
    return true;
}

/* Restores the blocks of before. Their records exist, as the same blocks had them then. */
static void revert_blocks(ph_pool *pool, const layout *before)
{
    (void)acquire_all(pool, before);
    for (size_t i = 0; i < before->count; i++) {
        ph__block *block = ph__heap_find(pool->heap, before->at[i].address);
        block->generation = before->at[i].generation;
        block->user = before->at[i].user;
        ph__stream_uses *uses = ph__block_stream_uses(block);
        if (uses) /* the record may be another than before */
            uses->block = block;
    }
}

/* Does the uncounted exchange of layouts; then both are counted as the frees and allocations
 * that they are. *uses: the records of uses that the old blocks had, a list. */
static bool exchange_blocks(ph_pool *pool, const layout *before, const layout *wanted,
                            ph__stream_uses **uses)
{
    ph__memory *memory = pool->memory;
    give_all(pool, before);
    bool ok = acquire_all(pool, wanted);
    if (ok)
        give_all(pool, wanted);
    revert_blocks(pool, before);
    if (!ok)
        return false;
    for (size_t i = 0; i < before->count; i++) {
        ph__block *block = ph__heap_find(pool->heap, before->at[i].address);
        ph__stream_uses *record = ph__block_stream_uses(block);
        ph__memory_retire(memory, block, ph__mseg_of(block)->stream);
        if (record) {
            record->next = *uses;
            *uses = record;
        }
        block->user = NULL;
        ph__memory_give(memory, block);
    }
    for (size_t i = 0; i < wanted->count; i++) {
        const placed *one = &wanted->at[i];
        bool no_memory;
        ph__block *block = ph__heap_acquire_at(pool->heap, one->address, one->size, one->requested,
                                               one->stream, &no_memory);
        if (block)
            ph__memory_hand_out(memory, pool, block);
    }
    return true;
}

static ph_status restore_blocks(ph_pool *pool, const ph_pool_checkpoint *checkpoint, layout *before,
                                const char *call)
{
    ph__memory *memory = pool->memory;
    ph__stream_uses *uses = NULL;
    for (;;) {
        ph__memory_lock(memory);
        size_t waiting = waiting_blocks(pool, true), blocks = used_blocks(pool);
        bool fits = blocks <= before->capacity, whole = segments_exist(pool, checkpoint),
             done = false;
        if (fits && whole && waiting == 0) {
            remember_blocks(before, pool);
            done = exchange_blocks(pool, before, &checkpoint->blocks, &uses);
        }
        ph__spin_unlock(&memory->lock);
        while (uses) {
            ph__stream_uses *next = uses->next;
            ph__stream_uses_destroy(memory, uses);
            uses = next;
        }
        if (waiting > 0)
            return fail_waiting(call, waiting);
        if (!whole)
            return ph__fail_native(
                PH_ERROR_STATE, 0, NULL,
                "%s: a segment that the checkpoint remembers was given back to the device; "
                "make a new checkpoint",
                call);
        if (done)
            return PH_OK;
        if (fits || !ph__vec_reserve(before, blocks))
            return ph__fail_host_memory(call, "the layout");
    }
}

ph_status ph_pool_checkpoint_restore(ph_pool *pool, const ph_pool_checkpoint *checkpoint)
{
    static const char call[] = "ph_pool_checkpoint_restore";
    PH_TRY(ph__pool_check(pool, call));
    if (!checkpoint)
        return ph__fail_null(call, "checkpoint");
    if (checkpoint->pool.first != pool->id.first || checkpoint->pool.second != pool->id.second)
        return ph__fail_native(PH_ERROR_ARGUMENT, 0, NULL,
                               "%s: the checkpoint is of pool {%llu, %llu}", call,
                               (unsigned long long)checkpoint->pool.first,
                               (unsigned long long)checkpoint->pool.second);
    layout before = {0};
    ph__memory_reclaim(pool->memory);
    ph_status status = restore_blocks(pool, checkpoint, &before, call);
    ph__vec_free(&before);
    return status;
}

/* ---- what is allocated ---- */

static int by_address(const void *a, const void *b)
{
    const uintptr_t *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

ph_status ph_pool_check_live(bool *equal, ph_pool *pool, void *const *addresses, size_t count)
{
    static const char call[] = "ph_pool_check_live";
    if (!equal)
        return ph__fail_null(call, "equal");
    *equal = false;
    PH_TRY(ph__pool_check(pool, call));
    if (!addresses && count > 0)
        return ph__fail_null(call, "addresses");
    address_list wanted = {0};
    if (!ph__vec_reserve(&wanted, count))
        return ph__fail_host_memory(call, "the addresses");
    for (size_t i = 0; i < count; i++)
        wanted.at[wanted.count++] = (uintptr_t)addresses[i];
    if (count > 0)
        qsort(wanted.at, count, sizeof *wanted.at, by_address);
    size_t found = 0, live = 0;
    bool all = true;
    ph__memory_lock(pool->memory);
    for (size_t i = 0; i < count && all; i++) {
        if (i > 0 && wanted.at[i] == wanted.at[i - 1])
            continue;
        const ph__block *block = ph__heap_find(pool->heap, wanted.at[i]);
        all = block && block->address == wanted.at[i] && ph__block_is_live(block);
        found++;
    }
    for (const ph__segment *s = ph__heap_first_segment(pool->heap); s; s = s->next)
        for (const ph__block *b = s->first; b; b = b->next)
            live += !b->free && ph__block_is_live(b) ? 1 : 0;
    ph__spin_unlock(&pool->memory->lock);
    ph__vec_free(&wanted);
    *equal = all && found == live;
    return PH_OK;
}
