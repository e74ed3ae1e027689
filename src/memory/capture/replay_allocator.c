/* SPDX-License-Identifier: MIT */
/* memory/capture/replay_allocator.c: requests that a replay allocator answers with the blocks of an
 * allocation log. */
#include "memory/capture/replay_allocator.h"
#include "base/map.h"
#include "base/range_map.h"
#include "base/rng.h"
#include "memory/capture/allocation_log.h"
#include "memory/capture/ranges.h"
#include "memory/state/allocation.h"
#include "memory/state/find.h"
#include "memory/state/memory_state.h"
#include "memory/state/pool_state.h"
#include "memory/state/request.h"

uint64_t ph__script_key(size_t requested, uint64_t stream, bool pinned)
{
    ph__rng rng = {2 * requested + pinned};
    uint64_t key = ph__rng_next(&rng) ^ stream;
    return key ? key : 1;
}

ph__part **ph__script_head(const ph__script *script, const ph__placing *placing)
{
    return ph__map_get(&script->lines,
                       ph__script_key(placing->requested, placing->stream, placing->pinned));
}

/* ---- requests ---- lock held */
/* A run that frees later than the capture did must not be given one block twice. There is room:
 * false says that they overlap. */
static bool make_live(ph__script *script, ph__part *one)
{
    return ph__ranges_add(&script->live, one->placing->address, one->placing->size, one);
}

static bool fits(const ph__script *script, const ph__part *one, const ph__placing *asked)
{
    const ph__placing *placing = one->placing;
    return placing->requested == asked->requested && placing->stream == asked->stream &&
           placing->pinned == asked->pinned &&
           (asked->address == 0 || asked->address == placing->address) &&
           ph__placing_is_in(script->memory, placing);
}

/* It is live from then on. In a capture, memory that has no stream of its own is its stream's, else
 * the default one's (ph_memory_stream). */
static ph__part *take_part(ph__script *script, const ph__request *request, uintptr_t address,
                           bool pinned)
{
    bool there = request->stream->id == script->to || request->stream->is_default;
    uint64_t stream = there ? script->from : request->stream->id;
    const ph__placing asked = {
        .stream = stream, .address = address, .requested = request->bytes, .pinned = pinned};
    for (ph__part **link = ph__script_head(script, &asked); link && *link; link = &(*link)->next) {
        ph__part *one = *link;
        script->looked++;
        if (fits(script, one, &asked) && make_live(script, one)) {
            *link = one->next;
            return one;
        }
    }
    return NULL;
}

bool ph__script_take(void **out, ph__memory *memory, const ph__request *request, uintptr_t address,
                     bool pinned)
{
    bool found = false;
    ph__spin_lock(&memory->lock);
    ph_pool *pool = request->pool;
    ph__script *script = pool->script;
    bool given = request->capture_id && !pinned;
    bool room = script && (!given || ph__given_reserve(pool));
    ph__part *one = room ? take_part(script, request, address, pinned) : NULL;
    if (one) {
        one->used = true;
        one->generation = ph__next_generation(memory);
        if (given)
            pool->given.at[pool->given.count++] =
                (ph__span){one->placing->address, one->placing->size};
        *out = (void *)one->placing->address;
        found = true;
    } else if (script && script->missed++ == 0) {
        script->missed_bytes = request->bytes;
    }
    ph__spin_unlock(&memory->lock);
    return found;
}

/* The live ph__part around the address; *script has it. */
static const ph__part *find_live(ph__script **script, const ph__memory *memory, uintptr_t address)
{
    for (*script = memory->scripts; *script; *script = (*script)->next) {
        const ph__range *range = ph__ranges_find(&(*script)->live, address);
        if (range)
            return range->value;
    }
    return NULL;
}

bool ph__script_find(ph_allocation *out, const ph__memory *memory, uintptr_t address)
{
    ph__script *script;
    const ph__part *one = find_live(&script, memory, address);
    if (one == NULL)
        return false;
    *out = (ph_allocation){.base = (void *)one->placing->address,
                           .requested = one->placing->requested,
                           .size = one->placing->size,
                           .generation = one->generation,
                           .pool = script->home,
                           .pinned = one->placing->pinned};
    return true;
}

/* ---- frees ---- */
/* A run frees what an earlier one left where it is about to be given a block itself. */
static bool owe(const ph__memory *memory, uintptr_t address)
{
    for (ph__script *script = memory->scripts; script; script = script->next) {
        ph__part *one =
            script->thread == ph__thread_id() ? ph__map_get(&script->at, address) : NULL;
        if (one) {
            one->owed = true;
            return true;
        }
    }
    return false;
}

bool ph__script_free(ph__memory *memory, const void *pointer)
{
    ph__script *script;
    uintptr_t address = (uintptr_t)pointer;
    ph__spin_lock(&memory->lock);
    const ph__part *one = find_live(&script, memory, address);
    bool known = one && ph__ranges_remove(&script->live, address);
    if (!known)
        known = address && owe(memory, address);
    ph__spin_unlock(&memory->lock);
    return known;
}

bool ph__script_knows(ph__memory *memory, const void *pointer)
{
    ph_allocation found;
    if (!ph__sees(memory, PH__SEE_SCRIPT))
        return false;
    ph__spin_lock(&memory->lock);
    bool known = ph__script_find(&found, memory, (uintptr_t)pointer) && found.base == pointer;
    ph__spin_unlock(&memory->lock);
    return known;
}
