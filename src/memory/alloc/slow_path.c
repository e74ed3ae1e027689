/* SPDX-License-Identifier: MIT */
/* memory/alloc/slow_path.c: the slow path of ph_malloc: routing, reuse in captures, new segments,
 * the last resorts. */
#include "memory/alloc/slow_path.h"
#include "base/unwind.h"
#include "memory/alloc/free.h"
#include "memory/alloc/shortage.h"
#include "memory/block/block.h"
#include "memory/capture/ranges.h"
#include "memory/capture/released.h"
#include "memory/capture/replay_allocator.h"
#include "memory/plan/notes.h"
#include "memory/pool/attach.h"
#include "memory/pool/replay.h"
#include "memory/pool/routing.h"
#include "memory/reclaim/cached.h"
#include "memory/reclaim/leaving.h"
#include "memory/reclaim/reclaim.h"
#include "memory/reclaim/segments.h"
#include "memory/state/handout.h"
#include "memory/state/memory_state.h"
#include "memory/state/pool_state.h"
#include "memory/state/request.h"
#include "memory/state/segment.h"
#include "memory/state/short_cycle.h"
#include "memory/streams/dependency_walk.h"
#include <string.h>

static ph__block *acquire_cached_block(ph__memory *memory, const ph__request *request,
                                       bool *no_memory)
{
    ph__memory_lock(memory);
    ph__block *block = ph__cached_block_acquire(memory, request, no_memory);
    ph__spin_unlock(&memory->lock);
    return block;
}

/* Segments that replays of a graph write are not lent. */
static bool may_lend(const ph_pool *pool, const ph__segment *segment)
{
    return !((const ph__mseg *)segment->user)->captured || pool->graphs == 0;
}

/* The best block that may be lent, where the best of all may not. */
static const ph__block *best_to_lend(const ph_pool *pool, const ph__request *request)
{
    const ph__block *best = NULL;
    for (const ph__segment *s = ph__heap_first_segment(pool->heap); s; s = s->next) {
        if (s->stream != request->stream->id || s->small != ph__block_is_small(request->rounded) ||
            !may_lend(pool, s))
            continue;
        for (const ph__block *b = s->first; b; b = b->next)
            if (b->free && b->size >= request->rounded && (!best || b->size < best->size))
                best = b;
    }
    return best;
}

/* Lock held. */
static ph__block *lend_block(const ph_pool *pool, const ph__request *request)
{
    bool no_memory;
    ph__block *block = ph__heap_acquire(pool->heap, request->rounded, request->bytes,
                                        request->stream->id, &no_memory);
    if (!block || may_lend(pool, block->segment))
        return block;
    (void)ph__heap_give(pool->heap, block);
    const ph__block *best = best_to_lend(pool, request);
    if (!best)
        return NULL;
    bool split = ph__block_splits(&pool->heap_options, best->size, request->rounded);
    return ph__heap_acquire_at(pool->heap, best->address, split ? request->rounded : best->size,
                               request->bytes, request->stream->id, &no_memory);
}

/* A cached block of a pool that lends on a shortage, unless a graph's replays write it. */
static ph__block *borrow_block(ph__memory *memory, const ph__request *request)
{
    ph__block *block = NULL;
    ph__memory_lock(memory);
    for (ph_pool *pool = memory->default_pool.next; pool && !block; pool = pool->next) {
        if (!pool->options.use_on_oom || pool->use_count == 0 || pool->recording == PH__IN_CAPTURE)
            continue;
        do
            block = lend_block(pool, request);
        while (block && ph__released_avoid(memory, pool, block));
        if (block)
            ph__memory_hand_out(memory, pool, block);
    }
    ph__spin_unlock(&memory->lock);
    return block;
}

static bool is_shortage(const ph__growth *growth)
{
    return growth->kind == PH__NO_DEVICE_MEMORY || growth->kind == PH__AT_DEVICE_LIMIT ||
           growth->kind == PH__AT_POOL_LIMIT;
}

/* The last resort: what is cached goes back, then once more. */
static ph__block *retry_after_trim(ph__memory *memory, const ph__request *request,
                                   ph__growth *growth)
{
    bool no_memory = false;
    (void)ph__memory_trim_now(memory, PH__TRIM_CACHED, request->pool);
    ph__block *block = acquire_cached_block(memory, request, &no_memory);
    if (!block && !no_memory)
        block = ph__grow(growth, memory, request);
    if (!block)
        return NULL;
    ph__memory_lock(memory);
    memory->account.retries++;
    request->pool->account.retries += ph__pool_is_default(request->pool) ? 0 : 1;
    ph__spin_unlock(&memory->lock);
    return block;
}

ph_status ph__malloc_order_behind_replays(ph__memory *memory, const ph__request *request,
                                          ph__block *block)
{
    ph__memory_lock(memory);
    ph_pool *pool = ph__mseg_of(block)->pool;
    bool captured = !request->capture_id && ph__mseg_of(block)->captured;
    block->shared = captured;
    void *address = (void *)block->address;
    ph__spin_unlock(&memory->lock);
    ph_status status =
        captured ? ph__replays_before_use(pool, request->stream, request->call) : PH_OK;
    if (status != PH_OK)
        (void)ph__free_slow(memory, address, request->stream);
    return status;
}

static ph_status serve_request(void **out, ph__memory *memory, const ph__request *request)
{
    bool no_memory = false;
    ph__growth growth;
    if (request->capture_id)
        ph__dependency_walk_reclaim(memory, request);
    ph__block *block = acquire_cached_block(memory, request, &no_memory);
    if (!block && no_memory)
        return ph__fail_host_memory(request->call, "the block's record");
    if (!block) {
        ph_error before;
        ph__error_save(&before);
        block = ph__grow(&growth, memory, request);
        if (!block && is_shortage(&growth) && ph__pool_is_default(request->pool))
            block = borrow_block(memory, request);
        if (!block && is_shortage(&growth) && !ph__capturing(memory))
            block = retry_after_trim(memory, request, &growth);
        if (!block)
            return growth.kind == PH__NO_DEVICE_MEMORY && growth.source != PH_OK
                       ? ph__fail_source(memory, request, &growth)
                       : ph__fail_growth(memory, request, &growth);
        ph__error_restore(&before);
    }
    PH_TRY(ph__malloc_order_behind_replays(memory, request, block));
    *out = (void *)block->address;
    return PH_OK;
}

typedef struct routed {
    ph__memory *memory;
    const ph__request *request;
} routed;

/* A pool's own function did not return. */
static void abandon_route(void *what)
{
    const routed *r = what;
    ph__unroute(r->memory, r->request);
}

ph_status ph__malloc_slow(void **out, ph__memory *memory, ph__request *request)
{
    ph__memory_reclaim(memory);
    PH_TRY(ph__route(memory, request));
    routed r = {memory, request};
    PH__UNWIND unwind = {abandon_route, &r};
    bool replayed = ph__slow_path_has(memory, PH__SLOW_REPLAY_ALLOCATOR) &&
                    ph__replay_allocator_acquire(out, memory, request, 0, false);
    ph_status status = replayed ? PH_OK : serve_request(out, memory, request);
    unwind.undo = NULL;
    if (status == PH_OK && ph__slow_path_has(memory, PH__SLOW_PLAN))
        ph__plan_note_allocation(memory, request, *out);
    ph__unroute(memory, request);
    return status;
}

ph_status ph__malloc_from(void **out, ph_pool *pool, ph_stream *stream, size_t bytes,
                          const char *call)
{
    ph__request request = {
        .bytes = bytes, .stream = stream, .pool = pool, .call = call, .own_segment = true};
    if (!ph__block_round(bytes, &request.rounded))
        return ph__fail_host_memory(call, "the size of the block");
    ph__memory_reclaim(pool->memory);
    return serve_request(out, pool->memory, &request);
}

ph_status ph__malloc_outside(void **out, ph_device *device, size_t bytes, const char *call)
{
    ph__memory *memory = ph__memory_attach(device, call);
    if (!memory)
        return ph_error_last()->status;
    ph__request request = {.bytes = bytes,
                           .stream = &device->default_stream,
                           .pool = &memory->default_pool,
                           .call = call};
    if (!ph__block_round(bytes, &request.rounded))
        return ph__fail_native(PH_ERROR_SIZE, 0, NULL, "%s: %zu bytes overflow", call, bytes);
    ph__memory_reclaim(memory);
    return serve_request(out, memory, &request);
}
