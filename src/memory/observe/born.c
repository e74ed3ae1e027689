/* SPDX-License-Identifier: MIT */
/* memory/observe/born.c: blocks that were allocated while a capture was open. A node of the
 * captured graph may address them, whatever pool they are of: until the graph has been read they
 * are not used again, and those that it addresses stay out of use as long as it lives. */
#include "base/log.h"
#include "memory/state.h"

/* ---- captures that are open, or whose graph is being read ---- on whatever device */
/* own: the pool whose own capture does not count; NULL: all do. */
static bool awaits(const ph_pool *own, uint64_t generation)
{
    for (const ph_pool *pool = ph__recordings; pool; pool = pool->next_recording)
        if (pool != own && generation >= pool->born_from)
            return true;
    return false;
}

/* What a capture was given from its pool is its own to use again, in the order of its graph. */
static bool is_of_own_capture(const ph__block *block)
{
    const ph_pool *pool = ph__mseg_of(block)->pool;
    return pool->recording == PH__IN_CAPTURE && block->generation >= pool->born_from;
}

bool ph__born_awaits(const ph__block *block)
{
    return !is_of_own_capture(block) && awaits(ph__mseg_of(block)->pool, block->generation);
}

/* ---- a block that is being freed ---- */
bool ph__born_keeps(ph__memory *memory, const ph__block *block)
{
    if (is_of_own_capture(block)) /* a node of another one that is open may address it */
        return awaits(ph__mseg_of(block)->pool, block->generation) &&
               !ph__released_note(memory, block);
    return ph__born_awaits(block) &&
           (ph__born_is_captured_work(block) || !ph__released_note(memory, block));
}

/* ---- blocks that have been freed ---- */
/* The host writes pinned memory at once, in no order of a graph's: the own capture counts too. */
static bool uses_await(ph__memory *memory, const ph__uses *uses)
{
    if (uses->pinned)
        return awaits(NULL, uses->pinned->generation);
    return awaits(uses->pool, uses->block->generation) &&
           !(uses->ordered && ph__released_note(memory, uses->block));
}

bool ph__born_withhold(ph__memory *memory, ph__uses *uses)
{
    ph__spin_lock(&memory->lock);
    bool held = uses->holders > 0, waits = !held && uses_await(memory, uses);
    if (held) {
        uses->life = PH__HELD;
    } else if (waits) {
        uses->life = PH__AWAITED;
        uses->next = memory->awaited;
        memory->awaited = uses;
    }
    ph__spin_unlock(&memory->lock);
    return held || waits;
}

/* Stands in blocks that wait without a record. */
static _Alignas(16) ph__uses awaiting = {.life = PH__AWAITED};

/* While a block is in use the core has no need of its links. Lock held. */
static void link_block(ph__memory *memory, ph__block *block)
{
    ph__block_set_uses(block, &awaiting);
    block->link[0] = memory->awaited_blocks;
    block->link[1] = NULL;
    if (block->link[0])
        block->link[0]->link[1] = block;
    memory->awaited_blocks = block;
}

static void unlink_block(ph__memory *memory, ph__block *block)
{
    if (block->link[1])
        block->link[1]->link[0] = block->link[0];
    else
        memory->awaited_blocks = block->link[0];
    if (block->link[0])
        block->link[0]->link[1] = block->link[1];
}

void ph__born_wait(ph__memory *memory, ph__block *block)
{
    ph__waiting_count(memory, ph__mseg_of(block)->pool, true);
    link_block(memory, block);
}

/* Out of the list: those that no capture waits for any more, which nobody else can meet. Lock held.
 * */
static ph__block *take_due_blocks(ph__memory *memory)
{
    ph__block *due = NULL;
    for (ph__block *block = memory->awaited_blocks, *next; block; block = next) {
        next = block->link[0];
        if (ph__born_awaits(block))
            continue;
        unlink_block(memory, block);
        block->link[0] = due;
        due = block;
    }
    return due;
}

static void finish_block(ph__memory *memory, ph__block *block)
{
    ph__poison(memory, block);
    ph__spin_lock(&memory->lock);
    ph__waiting_count(memory, ph__mseg_of(block)->pool, false);
    block->user = NULL;
    ph__memory_give(memory, block);
    ph__spin_unlock(&memory->lock);
}

/* What another capture waits for as well stays where it is. */
static void settle(ph__memory *memory)
{
    ph__spin_lock(&memory->lock);
    memory->unsettled = false;
    ph__uses *uses = memory->awaited;
    ph__block *block = take_due_blocks(memory);
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
        ph__uses *next = uses->next;
        uses->next = NULL;
        ph__uses_wait(memory, uses);
        uses = next;
    }
    if (over)
        ph_device_release(memory->device);
}

void ph__born_settle(ph__memory *unsettled)
{
    while (unsettled) {
        ph__memory *memory = unsettled;
        unsettled = memory->next_unsettled;
        settle(memory);
        ph_device_release(memory->device);
    }
}

/* ---- what a graph holds ---- */
uint64_t ph__pool_record_from(const ph_pool *pool)
{
    ph__memory *memory = pool->memory;
    ph__spin_lock(&memory->lock);
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
static bool is_given_again(const ph__memory *memory, const ph__block *block, uintptr_t address)
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
    return is_given_again(memory, block, address) ? PH__BORN_AGAIN : PH__BORN_HERE;
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
    ph__block *block = ph__released_take(memory, released);
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
    ph__spin_lock(&memory->lock);
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
    ph__spin_lock(&memory->lock);
    if (find_at(memory, address, &block, &pinned))
        generation = block ? block->generation : pinned->generation;
    ph__spin_unlock(&memory->lock);
    return generation;
}

/* The record of uses of exactly that allocation, for which *fresh is taken where there is none.
 * Lock held. */
static ph__uses *uses_of(ph__memory *memory, const ph__born *born, ph__uses **fresh)
{
    ph__block *block;
    ph__pinned *pinned;
    if (!find_at(memory, (uintptr_t)born->base, &block, &pinned) ||
        (block ? block->generation : pinned->generation) != born->generation)
        return NULL;
    ph__uses *uses = block ? ph__block_uses(block) : pinned->uses;
    bool waits = uses == &awaiting;
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
            unlink_block(memory, block);
        uses->life = waits ? PH__HELD : PH__LIVE;
        ph__block_set_uses(block, uses);
        return uses;
    }
    uses->life = pinned->freed_by_user || pinned->free ? PH__FREEING : PH__LIVE;
    pinned->uses = uses;
    if (pinned->free) {
        ph__pinned_unfree(pinned);
        ph__waiting_count(memory, uses->pool, true);
        uses->life = PH__HELD;
    }
    return uses;
}

ph__tracking ph__memory_hold(const ph__born *born)
{
    ph__memory *memory = ph__memory_of(born->device);
    ph__uses *fresh = memory ? ph__uses_create() : NULL;
    if (!fresh)
        return memory ? PH__TRACK_NO_MEMORY : PH__TRACK_GONE;
    ph__spin_lock(&memory->lock);
    ph__uses *uses = uses_of(memory, born, &fresh);
    if (uses)
        uses->holders++;
    ph__spin_unlock(&memory->lock);
    ph__uses_destroy(memory, fresh);
    return uses ? PH__TRACKS : PH__TRACK_GONE;
}

/* Replays in flight may still use it. On its own stream what comes after them is behind them, but
 * for what the host does. Lock held. */
static bool add_replays(ph__uses *uses, ph_stream *const *streams, size_t count)
{
    bool added = true;
    for (size_t i = 0; i < count && added; i++)
        if (uses->pinned || streams[i]->id != uses->block->segment->stream)
            added = ph__uses_add(uses, streams[i], 0);
    return added;
}

void ph__memory_let_go(const ph__born *born, ph_stream *const *streams, size_t count)
{
    ph__memory *memory = ph__memory_of(born->device);
    ph__spin_lock(&memory->lock);
    ph__uses *uses = uses_of(memory, born, NULL);
    bool added = uses && add_replays(uses, streams, count);
    bool last = added && --uses->holders == 0 && uses->life == PH__HELD;
    if (last)
        uses->life = PH__FREEING;
    ph__spin_unlock(&memory->lock);
    if (last)
        ph__uses_wait(memory, uses);
    if (uses && !added)
        PH__LOG_ONCE(
            PH_LOG_WARNING,
            "no host memory to remember the replays that use %p, which their graph lets go of; the "
            "block stays taken until "
            "the device is closed; said once",
            born->base);
}
