/* SPDX-License-Identifier: MIT */
/* memory/alloc/replay_run.c: a replay allocator, from its begin to its end. */
#include "memory/alloc/replay_run.h"
#include "base/alloc.h"
#include "base/map.h"
#include "base/range_map.h"
#include "base/vec.h"
#include "memory/alloc/stream_users.h"
#include "memory/block/block.h"
#include "memory/capture/replay_allocator.h"
#include "memory/state/allocation.h"
#include "memory/state/find.h"
#include "memory/state/free_counter.h"
#include "memory/state/handout.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/segment.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"
#include "memory/streams/uses.h"
#include <string.h>

/* ---- a run ---- */
static void free_allocator(ph__replay_allocator *allocator)
{
    if (allocator == NULL)
        return;
    ph__ranges_free(&allocator->live);
    ph__map_free(&allocator->at);
    ph__map_free(&allocator->lines);
    ph__free(allocator->heads);
    ph__free(allocator->parts);
    ph__free(allocator);
}

/* All parts that a run may be given are in their lines again. */
static void line_up_parts(ph__replay_allocator *allocator)
{
    size_t count = allocator->log->list.count;
    memset(allocator->heads, 0, count * sizeof(ph__part *));
    for (size_t i = count; i-- > 0;) {
        ph__part **head = ph__replay_allocator_head(allocator, allocator->parts[i].entry);
        if (allocator->skip_held && allocator->parts[i].held)
            continue;
        allocator->parts[i].next = *head;
        *head = &allocator->parts[i];
    }
}

/* Memory that requests and frees need, which have the lock. */
static bool make_parts(ph__replay_allocator *allocator, const ph__layout *log)
{
    size_t count = log->list.count;
    allocator->log = log;
    allocator->parts = ph__calloc(count + 1, sizeof *allocator->parts);
    allocator->heads = ph__calloc(count + 1, sizeof(ph__part *));
    if (allocator->parts == NULL || allocator->heads == NULL ||
        !ph__vec_reserve(&allocator->live, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        const ph__logged_allocation *entry = &log->list.at[i];
        allocator->parts[i].entry = entry;
        if ((entry->address != 0 &&
             !ph__map_put(&allocator->at, entry->address, &allocator->parts[i])) ||
            !ph__map_put(&allocator->lines,
                         ph__replay_allocator_key(entry->requested, entry->stream, entry->pinned),
                         &allocator->heads[i]))
            return false;
    }
    line_up_parts(allocator);
    return true;
}

ph_status ph__replay_allocator_begin(ph__replay_allocator **out, ph_pool *pool, ph_pool *home,
                                     const ph__layout *log, uint64_t from, uint64_t to,
                                     const char *call)
{
    ph__memory *memory = pool->memory;
    *out = NULL;
    ph__replay_allocator *allocator = ph__calloc(1, sizeof *allocator);
    if (allocator == NULL || !make_parts(allocator, log)) {
        free_allocator(allocator);
        return ph__fail_host_memory(call, "the allocation log of the capture");
    }
    allocator->memory = memory;
    allocator->pool = ph_pool_retain(pool);
    allocator->home = ph_pool_retain(home);
    allocator->from = from;
    allocator->to = to;
    allocator->thread = ph__thread_id();
    ph__memory_lock(memory);
    allocator->next = memory->replay_allocators;
    memory->replay_allocators = allocator;
    pool->replay_allocator = allocator;
    /* who has looked memory up has to do so again */
    atomic_fetch_add_explicit(&memory->free_count, 1, memory_order_release);
    ph__set_slow_path(memory, PH__SLOW_REPLAY_ALLOCATOR, true);
    ph__spin_unlock(&memory->lock);
    *out = allocator;
    return PH_OK;
}

void ph__replay_allocator_order(ph__replay_allocator *allocator, void *arena)
{
    ph__memory *memory = allocator->memory;
    ph__memory_lock(memory);
    allocator->ordered = true;
    allocator->arena = ph__memory_block(memory, (uintptr_t)arena);
    ph__mseg_of(allocator->arena)->captured = true;
    ph__free_counter_add(memory, allocator->arena->generation); /* nobody's from now on */
    ph__spin_unlock(&memory->lock);
}

/* Where it has stopped, the pool may have another one by now. Lock held. */
static void leave_pool(const ph__replay_allocator *allocator)
{
    if (allocator->pool->replay_allocator == allocator)
        allocator->pool->replay_allocator = NULL;
}

void ph__replay_allocator_stop(ph__replay_allocator *allocator)
{
    ph__memory_lock(allocator->memory);
    leave_pool(allocator);
    ph__spin_unlock(&allocator->memory->lock);
}

void ph__replay_allocator_resume(ph__replay_allocator *allocator, size_t next)
{
    ph__memory_lock(allocator->memory);
    allocator->pool->replay_allocator = allocator;
    allocator->asked = next;
    ph__spin_unlock(&allocator->memory->lock);
}

size_t ph__replay_allocator_ended_at(const ph__replay_allocator *allocator)
{
    return allocator->ended ? allocator->asked : SIZE_MAX;
}

/* Whoever the capture gave it to has it. */
static bool is_held(const ph__memory *memory, const ph__logged_allocation *entry)
{
    if (entry->pinned) {
        const ph__pinned *pinned = ph__pinned_find(memory, entry->address);
        return pinned && pinned->generation == entry->generation;
    }
    const ph__block *block = ph__memory_block(memory, entry->address);
    return block && block->generation == entry->generation && ph__block_is_live(block);
}

void ph__replay_allocator_rewind(ph__replay_allocator *allocator, bool skip_held)
{
    ph__memory_lock(allocator->memory);
    allocator->skip_held = skip_held;
    for (size_t i = 0; i < allocator->log->list.count; i++) {
        ph__part *one = &allocator->parts[i];
        one->used = false;
        one->held = is_held(allocator->memory, &allocator->log->list.at[i]);
    }
    line_up_parts(allocator);
    allocator->live.count = 0;
    allocator->missed = allocator->missed_bytes = allocator->examined = 0;
    ph__spin_unlock(&allocator->memory->lock);
}

size_t ph__replay_allocator_missed(size_t *bytes, const ph__replay_allocator *allocator)
{
    *bytes = allocator->missed_bytes;
    return allocator->missed;
}

size_t ph__replay_allocator_steps(const ph__replay_allocator *allocator)
{
    return allocator->examined;
}

size_t ph__replay_allocator_unused(const ph__replay_allocator *allocator)
{
    size_t count = 0;
    for (size_t i = 0; i < allocator->log->list.count; i++)
        count += !allocator->parts[i].used && !allocator->parts[i].held;
    return count;
}

/* ---- the end ---- */
/* Which part of the arena other streams use nobody knows: each block that is left has all uses. */
static bool copy_uses(ph__block *to, const ph__stream_uses *from)
{
    ph__stream_uses *uses = from ? ph__stream_uses_create() : NULL;
    bool copied = !from || uses;
    if (!uses)
        return copied;
    uses->block = to;
    uses->pool = ph__mseg_of(to)->pool;
    ph__block_set_stream_uses(to, uses);
    for (size_t i = 0; i < from->list.count; i++)
        copied = ph__stream_uses_add(uses, from->list.at[i].stream, 0, false) && copied;
    return copied;
}

/* A block that the run has left becomes an allocation, where the capture's own is gone. false: no
 * host memory for that. Lock held. */
static bool adopt_left_block(const ph__replay_allocator *allocator, const ph__part *left,
                             const ph__stream_uses *uses)
{
    const ph__logged_allocation *entry = left->entry;
    const ph__block *there = ph__memory_block(allocator->memory, entry->address);
    bool no_memory;
    if (entry->pinned || (there && there->address == entry->address && ph__block_is_live(there)))
        return true;
    ph__block *block = ph__heap_acquire_at(allocator->home->heap, entry->address, entry->size,
                                           entry->requested, entry->stream, &no_memory);
    if (block) {
        ph__memory_hand_out(allocator->memory, allocator->home, block);
        block->generation = left->generation;
        block->user = (void *)((uintptr_t)block->user + left->trackers);
    }
    return block ? copy_uses(block, uses) : !no_memory;
}

/* Every block that the run freed and was not given again. */
static void free_owed_blocks(const ph__replay_allocator *allocator)
{
    for (size_t i = 0; i < allocator->log->list.count; i++) {
        const ph__logged_allocation *entry = allocator->parts[i].entry;
        const ph__range *live = ph__ranges_find(&allocator->live, entry->address);
        if (!allocator->parts[i].owed || (live && live->base == entry->address))
            continue;
        if (entry->pinned)
            ph_free_pinned((void *)entry->address, NULL);
        else
            ph_free((void *)entry->address, NULL);
    }
}

/* The arena goes back to its heap. Its uses are the caller's. Lock held. */
static ph__stream_uses *give_arena(const ph__replay_allocator *allocator)
{
    ph__block *arena = allocator->arena;
    ph__stream_uses *uses = arena ? ph__block_stream_uses(arena) : NULL;
    if (!arena)
        return NULL;
    ph__memory_retire(allocator->memory, arena, NULL);
    ph__block_set_stream_uses(arena, NULL);
    ph__memory_give(allocator->memory, arena);
    return uses;
}

/* Blocks that were freed are the heap's behind this: its stream waits for others that used them. */
static void wait_for_users(const ph__replay_allocator *allocator)
{
    const ph__block *arena = allocator->arena;
    ph_error before;
    if (!arena || !ph__block_stream_uses(arena) ||
        ph__stream_capture_id(ph__mseg_of(arena)->stream) != 0)
        return;
    ph__error_save(&before);
    if (ph__stream_wait_users(ph__mseg_of(arena)->stream, (const void *)arena->address,
                              "ph_memory_plan_finish") != PH_OK)
        ph__error_restore(&before);
}

bool ph__replay_allocator_end(ph__replay_allocator *allocator)
{
    bool adopted = true;
    if (allocator == NULL)
        return true;
    ph__memory *memory = allocator->memory;
    wait_for_users(allocator);
    ph__memory_lock(memory);
    ph__replay_allocator **link = &memory->replay_allocators;
    while (*link != allocator)
        link = &(*link)->next;
    *link = allocator->next;
    leave_pool(allocator);
    ph__set_slow_path(memory, PH__SLOW_REPLAY_ALLOCATOR, memory->replay_allocators != NULL);
    ph__stream_uses *uses = give_arena(allocator);
    for (size_t i = 0; i < allocator->live.count; i++)
        adopted = adopt_left_block(allocator, allocator->live.at[i].value, uses) && adopted;
    ph__spin_unlock(&memory->lock);
    ph__stream_uses_destroy(memory, uses);
    free_owed_blocks(allocator);
    ph_pool_release(allocator->pool);
    ph_pool_release(allocator->home);
    free_allocator(allocator);
    return adopted;
}
