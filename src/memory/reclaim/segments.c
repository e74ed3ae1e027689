/* SPDX-License-Identifier: MIT */
/* memory/reclaim/segments.c: where segments come from and go to: the driver, or a pool's own
 * functions; within the limits. */
#include "memory/reclaim/segments.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/range_map.h"
#include "base/unwind.h"
#include "device/capture/refuse.h"
#include "memory/block/block.h"
#include "memory/block/block_heap.h"
#include "memory/reclaim/cached.h"
#include "memory/reclaim/pool_lifetime.h"
#include "memory/state/account.h"
#include "memory/state/due.h"
#include "memory/state/find.h"
#include "memory/state/history.h"
#include "memory/state/memory_state.h"
#include "memory/state/request.h"
#include "memory/state/segment.h"
#include "memory/state/short_cycle.h"

/* Promises bytes to the pool, before they are asked for, so that no two threads pass a limit
 * together. */
static ph__growth_kind reserve_bytes(ph__memory *memory, ph_pool *pool, size_t bytes)
{
    ph__growth_kind kind = PH__GREW;
    ph__memory_lock(memory);
    size_t limit = memory->limit, pool_limit = pool->options.limit;
    if (pool_limit && (bytes > pool_limit || pool->reserved > pool_limit - bytes))
        kind = PH__AT_POOL_LIMIT;
    else if (limit && (bytes > limit || memory->reserved > limit - bytes))
        kind = PH__AT_DEVICE_LIMIT;
    else {
        memory->reserved += bytes;
        pool->reserved += bytes;
        pool->keeps++;
    }
    ph__spin_unlock(&memory->lock);
    return kind;
}

static void unreserve_bytes(ph__memory *memory, ph_pool *pool, size_t bytes)
{
    ph_pool *dead = NULL;
    ph__memory_lock(memory);
    memory->reserved -= bytes;
    pool->reserved -= bytes;
    ph__pool_unkeep(pool, &dead);
    ph__spin_unlock(&memory->lock);
    ph__pool_bury(dead);
}

static void release_memory(ph__memory *memory, const ph_pool *pool, uintptr_t address, size_t bytes)
{
    if (!pool->options.free) {
        memory->driver->segment_destroy(memory->device->handle, (void *)address, bytes);
        return;
    }
    ph_capture_mode mode;
    ph__relaxed_begin(memory->device, &mode);
    pool->options.free((void *)address, bytes, pool->options.user);
    ph__relaxed_end(memory->device, mode);
}

/* The state that a pool's own function leaves where it does not return. */
typedef struct growing {
    ph__memory *memory;
    ph_pool *pool;
    size_t bytes;
    ph__mseg *mseg;
    ph_capture_mode mode; /* of the thread, before it */
} growing;

static void abandon_growth(void *what)
{
    const growing *g = what;
    ph__relaxed_end(g->memory->device, g->mode);
    ph__free(g->mseg);
    unreserve_bytes(g->memory, g->pool, g->bytes);
}

/* The pools whose alloc functions are running on the calling thread, one called by the other. */
typedef struct source {
    const ph_pool *pool;
    const struct source *outer;
} source;
static _Thread_local const source *sources;

static void leave_source(const source *left)
{
    sources = left->outer;
}

static bool is_running(const ph_pool *pool)
{
    const source *at = sources;
    while (at && at->pool != pool)
        at = at->outer;
    return at != NULL;
}

/* An exception of the function's leaves it too. */
static ph_status call_alloc(void **out, const ph__request *request, size_t bytes)
{
    const ph_pool_options *options = &request->pool->options;
    __attribute__((cleanup(leave_source))) const source here = {request->pool, sources};
    sources = &here;
    return options->alloc(out, bytes, request->stream, options->user);
}

/* Some of it is in a segment already. */
static bool is_reserved(ph__memory *memory, uintptr_t address, size_t bytes)
{
    ph__memory_lock(memory);
    const ph__range *next = ph__range_map_from(&memory->segments, address);
    bool reserved = next && (next->base <= address || next->base - address < bytes);
    ph__spin_unlock(&memory->lock);
    return reserved;
}

static void *own_source(ph__growth *growth, ph__memory *memory, const ph__request *request,
                        ph__mseg *mseg)
{
    void *address = NULL;
    growing g = {
        .memory = memory, .pool = request->pool, .bytes = growth->segment_bytes, .mseg = mseg};
    if (is_running(request->pool)) {
        growth->kind = PH__SOURCE_RECURSES;
        return NULL;
    }
    ph__relaxed_begin(memory->device, &g.mode);
    PH__UNWIND unwind = {abandon_growth, &g};
    growth->source = call_alloc(&address, request, growth->segment_bytes);
    unwind.undo = NULL;
    ph__relaxed_end(memory->device, g.mode);
    if (growth->source != PH_OK || !address) {
        growth->kind = PH__NO_DEVICE_MEMORY;
        return NULL;
    }
    bool reserved = is_reserved(memory, (uintptr_t)address, growth->segment_bytes);
    if (!reserved && (uintptr_t)address % PH__BLOCK_MIN == 0)
        return address;
    growth->kind = reserved ? PH__SOURCE_OVERLAPS : PH__SOURCE_MISALIGNED;
    release_memory(memory, request->pool, (uintptr_t)address, growth->segment_bytes);
    return NULL;
}

static void *obtain_memory(ph__growth *growth, ph__memory *memory, const ph__request *request,
                           ph__mseg *mseg)
{
    void *address = NULL;
    if (request->pool->options.alloc)
        return own_source(growth, memory, request, mseg);
    growth->result =
        memory->driver->segment_create(&address, memory->device->handle, growth->segment_bytes);
    if (growth->result == PH__R_OK)
        return address;
    growth->kind = growth->result == PH__R_OUT_OF_MEMORY ? PH__NO_DEVICE_MEMORY : PH__DRIVER_FAILED;
    return NULL;
}

static void count_segment(ph__account *account, const ph__mseg *mseg, bool added)
{
    unsigned half = mseg->small ? 0 : 1;
    if (added) {
        ph__tally_add(&account->tally[PH__COUNT_SEGMENTS], half, 1);
        ph__tally_add(&account->tally[PH__COUNT_RESERVED], half, mseg->size);
    } else {
        ph__tally_remove(&account->tally[PH__COUNT_SEGMENTS], half, 1);
        ph__tally_remove(&account->tally[PH__COUNT_RESERVED], half, mseg->size);
    }
}

/* Counts the segment, and reports it to the history. Lock held. */
static void account_segment(ph__memory *memory, const ph__mseg *mseg, bool added)
{
    count_segment(&memory->account, mseg, added);
    if (!ph__pool_is_default(mseg->pool))
        count_segment(&mseg->pool->account, mseg, added);
    if (ph__slow_path_has(memory, PH__SLOW_HISTORY))
        ph__history_note(memory, added ? PH__SEGMENT_ALLOC : PH__SEGMENT_FREE, mseg->address,
                         mseg->size, mseg->pool, mseg->stream, 0);
}

/* Puts the memory into the heap and takes the request's block. Lock held. NULL: no host memory, and
 * nothing changed; or, with *kept, the memory lies where an open capture may have nodes and its
 * blocks wait for that capture: the segment stays, and the request needs another one. */
static ph__block *adopt_segment(ph__memory *memory, ph__mseg *mseg, const ph__request *request,
                                bool *kept)
{
    ph_pool *pool = request->pool;
    bool no_memory = false;
    ph__segment *segment =
        ph__heap_add_segment(pool->heap, mseg->address, mseg->size, mseg->stream->id, mseg->small);
    if (!segment)
        return NULL;
    segment->user = mseg;
    if (!ph__range_map_add(&memory->segments, mseg->address, mseg->size, segment)) {
        ph__heap_remove_segment(pool->heap, segment);
        return NULL;
    }
    mseg->segment = segment;
    ph__mseg_link(mseg);
    ph__announced_displace(memory, mseg->address, mseg->size);
    ph__address_bounds_widen(&memory->device_bounds, mseg->address, mseg->size);
    account_segment(memory, mseg, true);
    ph__block *block = ph__cached_block_acquire(memory, request, &no_memory);
    *kept = !block && segment->used_blocks > 0;
    if (block || *kept)
        return block;
    account_segment(memory, mseg, false);
    ph__mseg_unlink(memory, mseg);
    (void)ph__range_map_remove(&memory->segments, mseg->address);
    ph__heap_remove_segment(pool->heap, segment);
    return NULL;
}

static ph__block *grow_once(ph__growth *growth, ph__memory *memory, const ph__request *request,
                            bool *kept)
{
    ph_pool *pool = request->pool;
    *growth = (ph__growth){.kind = PH__TOO_LARGE};
    size_t bytes;
    bool sized = request->own_segment
                     ? ph__round_up(request->rounded, PH__SEGMENT_UNIT, &bytes)
                     : ph__segment_size(&pool->heap_options, request->rounded, &bytes);
    if (!sized || !ph__round_up(bytes, memory->device->segment_granularity, &bytes))
        return NULL;
    growth->segment_bytes = bytes;
    growth->kind = reserve_bytes(memory, pool, bytes);
    if (growth->kind != PH__GREW)
        return NULL;
    ph__mseg *mseg = ph__calloc(1, sizeof *mseg);
    if (!mseg)
        growth->kind = PH__NO_HOST_MEMORY;
    void *address = mseg ? obtain_memory(growth, memory, request, mseg) : NULL;
    if (!address) {
        ph__free(mseg);
        unreserve_bytes(memory, pool, bytes);
        return NULL;
    }
    *mseg = (ph__mseg){.pool = pool,
                       .stream = ph__stream_retain(request->stream),
                       .address = (uintptr_t)address,
                       .size = bytes,
                       .small = ph__block_is_small(request->rounded)};
    ph__memory_lock(memory);
    ph__block *block = adopt_segment(memory, mseg, request, kept);
    ph__spin_unlock(&memory->lock);
    if (block || *kept)
        return block;
    growth->kind = PH__NO_HOST_MEMORY;
    release_memory(memory, pool, mseg->address, bytes);
    ph__stream_release(mseg->stream);
    ph__free(mseg);
    unreserve_bytes(memory, pool, bytes);
    return NULL;
}

/* Segments that are kept take their addresses out of the driver's hands, so that the next one lies
 * elsewhere. */
ph__block *ph__grow(ph__growth *growth, ph__memory *memory, const ph__request *request)
{
    ph__block *block;
    bool kept;
    do {
        kept = false;
        block = grow_once(growth, memory, request, &kept);
    } while (kept);
    return block;
}

void ph__mseg_destroy(ph__memory *memory, ph__mseg *mseg)
{
    release_memory(memory, mseg->pool, mseg->address, mseg->size);
    ph__memory_lock(memory);
    account_segment(memory, mseg, false);
    ph__spin_unlock(&memory->lock);
    unreserve_bytes(memory, mseg->pool, mseg->size);
    ph__stream_release(mseg->stream);
    ph__free(mseg);
}

void ph__mseg_close(ph__memory *memory, ph__mseg *mseg)
{
    release_memory(memory, mseg->pool, mseg->address, mseg->size);
    ph__stream_release(mseg->stream);
    ph__free(mseg);
}
