/* SPDX-License-Identifier: MIT */
/* memory/capture/replay_allocator.c: requests that a replay allocator answers with the blocks of an
 * allocation log. */
#include "memory/capture/replay_allocator.h"
#include "base/map.h"
#include "base/range_map.h"
#include "base/rng.h"
#include "memory/block/block.h"
#include "memory/capture/allocation_log.h"
#include "memory/capture/ranges.h"
#include "memory/state/allocation.h"
#include "memory/state/find.h"
#include "memory/state/free_counter.h"
#include "memory/state/memory_state.h"
#include "memory/state/pool_state.h"
#include "memory/state/request.h"
#include "memory/state/short_cycle.h"

uint64_t ph__replay_allocator_key(size_t requested, uint64_t stream, bool pinned)
{
    ph__rng rng = {2 * requested + pinned};
    uint64_t key = ph__rng_next(&rng) ^ stream;
    return key ? key : 1;
}

ph__part **ph__replay_allocator_head(const ph__replay_allocator *allocator,
                                     const ph__logged_allocation *entry)
{
    return ph__map_get(&allocator->lines,
                       ph__replay_allocator_key(entry->requested, entry->stream, entry->pinned));
}

/* ---- requests ---- lock held */
/* A run that frees later than the capture did must not be given one block twice. There is room:
 * false says that they overlap. */
static bool add_live_part(ph__replay_allocator *allocator, ph__part *one)
{
    return ph__ranges_add(&allocator->live, one->entry->address, one->entry->size, one);
}

static bool part_fits(const ph__replay_allocator *allocator, const ph__part *one,
                      const ph__logged_allocation *asked)
{
    const ph__logged_allocation *entry = one->entry;
    return entry->requested == asked->requested && entry->stream == asked->stream &&
           entry->pinned == asked->pinned &&
           (asked->address == 0 || asked->address == entry->address) &&
           ph__allocation_entry_is_in(allocator->memory, entry);
}

/* The part is live from then on. In a capture, memory that has no stream of its own is its
 * stream's, else the default one's (ph_memory_stream). */
static ph__part *acquire_part(ph__replay_allocator *allocator, const ph__request *request,
                              uintptr_t address, bool pinned)
{
    bool there = request->stream->id == allocator->to || request->stream->is_default;
    uint64_t stream = there ? allocator->from : request->stream->id;
    const ph__logged_allocation asked = {
        .stream = stream, .address = address, .requested = request->bytes, .pinned = pinned};
    for (ph__part **link = ph__replay_allocator_head(allocator, &asked); link && *link;
         link = &(*link)->next) {
        ph__part *one = *link;
        allocator->examined++;
        if (part_fits(allocator, one, &asked) && add_live_part(allocator, one)) {
            *link = one->next;
            return one;
        }
    }
    return NULL;
}

/* The next part, or NULL. *missed: the run asks for something else. */
static ph__part *acquire_next_part(ph__replay_allocator *allocator, const ph__request *request,
                                   uintptr_t address, bool pinned, bool *missed)
{
    *missed = false;
    if (pinned || allocator->ended)
        return NULL;
    ph__part *one =
        allocator->asked < allocator->log->list.count ? &allocator->parts[allocator->asked] : NULL;
    bool same = one && address == 0 && one->entry->requested == request->bytes &&
                one->entry->stream == request->stream->id;
    if (same && one->entry->address == 0) {
        allocator->asked++;
        return NULL;
    }
    same = same && add_live_part(allocator, one);
    allocator->ended = *missed = !same;
    allocator->asked += same;
    return same ? one : NULL;
}

bool ph__replay_allocator_acquire(void **out, ph__memory *memory, const ph__request *request,
                                  uintptr_t address, bool pinned)
{
    bool found = false;
    ph__memory_lock(memory);
    ph_pool *pool = request->pool;
    ph__replay_allocator *allocator = pool->replay_allocator;
    bool captured = request->capture_id && !pinned;
    bool room = allocator && (!captured || ph__capture_ranges_reserve(pool));
    bool missed = allocator != NULL, ordered = allocator && allocator->ordered;
    ph__part *one = NULL;
    if (room && ordered)
        one = acquire_next_part(allocator, request, address, pinned, &missed);
    else if (room)
        one = acquire_part(allocator, request, address, pinned);
    if (one) {
        one->used = true;
        one->generation = ph__next_generation(memory);
        one->trackers = 0;
        if (captured)
            pool->capture_ranges.at[pool->capture_ranges.count++] =
                (ph__address_span){one->entry->address, one->entry->size};
        if (ordered) {
            ph__logged_allocation entry = *one->entry;
            entry.generation = one->generation;
            ph__layout_note(pool, request->capture_id, &entry);
        }
        *out = (void *)one->entry->address;
        found = true;
    } else if (missed && allocator->missed++ == 0) {
        allocator->missed_bytes = request->bytes;
    }
    ph__spin_unlock(&memory->lock);
    return found;
}

/* The live part around the address, of *allocator. */
static ph__part *find_live_part(ph__replay_allocator **allocator, const ph__memory *memory,
                                uintptr_t address)
{
    for (*allocator = memory->replay_allocators; *allocator; *allocator = (*allocator)->next) {
        const ph__range *range = ph__ranges_find(&(*allocator)->live, address);
        if (range)
            return range->value;
    }
    return NULL;
}

ph__part *ph__replay_allocator_live(const ph__memory *memory, const void *base)
{
    ph__replay_allocator *allocator;
    ph__part *one = find_live_part(&allocator, memory, (uintptr_t)base);
    return one && one->entry->address == (uintptr_t)base ? one : NULL;
}

bool ph__replay_allocator_find(ph_allocation *out, const ph__memory *memory, uintptr_t address)
{
    ph__replay_allocator *allocator;
    const ph__part *one = find_live_part(&allocator, memory, address);
    if (one == NULL)
        return false;
    *out = (ph_allocation){.base = (void *)one->entry->address,
                           .requested = one->entry->requested,
                           .size = one->entry->size,
                           .generation = one->generation,
                           .pool = allocator->home,
                           .pinned = one->entry->pinned};
    return true;
}

bool ph__replay_allocator_has_arena(const ph__memory *memory, const void *base)
{
    const ph__replay_allocator *allocator = base ? memory->replay_allocators : NULL;
    while (allocator && (!allocator->arena || allocator->arena->address != (uintptr_t)base))
        allocator = allocator->next;
    return allocator != NULL;
}

/* ---- frees ---- */
/* A run frees what an earlier one left where it is about to be given a block itself. */
static bool note_owed_free(const ph__memory *memory, uintptr_t address)
{
    for (ph__replay_allocator *allocator = memory->replay_allocators; allocator;
         allocator = allocator->next) {
        ph__part *one =
            allocator->thread == ph__thread_id() ? ph__map_get(&allocator->at, address) : NULL;
        if (one) {
            one->owed = true;
            return true;
        }
    }
    return false;
}

bool ph__replay_allocator_free(ph__memory *memory, const void *pointer)
{
    ph__replay_allocator *allocator;
    uintptr_t address = (uintptr_t)pointer;
    ph__memory_lock(memory);
    const ph__part *one = find_live_part(&allocator, memory, address);
    bool known = one && ph__ranges_remove(&allocator->live, address);
    if (known && one->trackers)
        ph__free_counter_add(memory, one->generation);
    if (!known)
        known = address && note_owed_free(memory, address);
    ph__spin_unlock(&memory->lock);
    return known;
}

bool ph__replay_allocator_knows(ph__memory *memory, const void *pointer)
{
    ph_allocation found;
    if (!ph__slow_path_has(memory, PH__SLOW_REPLAY_ALLOCATOR))
        return false;
    ph__memory_lock(memory);
    bool known =
        ph__replay_allocator_find(&found, memory, (uintptr_t)pointer) && found.base == pointer;
    ph__spin_unlock(&memory->lock);
    return known;
}

void *ph__replay_allocator_arena_at(ph__memory *memory, const void *pointer)
{
    ph__replay_allocator *allocator;
    ph__memory_lock(memory);
    const ph__part *one = find_live_part(&allocator, memory, (uintptr_t)pointer);
    bool has = one && one->entry->address == (uintptr_t)pointer && allocator->arena;
    void *arena = has ? (void *)allocator->arena->address : NULL;
    ph__spin_unlock(&memory->lock);
    return arena;
}
