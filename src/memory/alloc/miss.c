/* SPDX-License-Identifier: MIT */
/* memory/alloc/miss.c: the long way of ph_malloc: routing, reuse in captures, new segments, the
 * last resorts, and the words of a refusal. */
#include "base/checked.h"
#include "base/unwind.h"
#include "memory/state.h"
#include <stdio.h>
#include <string.h>

static ph__block *take_cached(ph__memory *memory, const ph__request *request, bool *no_memory)
{
    ph__spin_lock(&memory->lock);
    ph__block *block = ph__memory_take(memory, request, no_memory);
    ph__spin_unlock(&memory->lock);
    return block;
}

/* What a graph's replays write is not lent. */
static bool may_lend(const ph_pool *pool, const ph__segment *segment)
{
    return !((const ph__mseg *)segment->user)->captured || pool->graphs == 0;
}

/* The best of those that may be lent; the search for when the best of all may not. */
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
static ph__block *lend(const ph_pool *pool, const ph__request *request)
{
    bool no_memory;
    ph__block *block = ph__heap_take(pool->heap, request->rounded, request->bytes,
                                     request->stream->id, &no_memory);
    if (!block || may_lend(pool, block->segment))
        return block;
    (void)ph__heap_give(pool->heap, block);
    const ph__block *best = best_to_lend(pool, request);
    if (!best)
        return NULL;
    bool split = ph__block_splits(&pool->heap_options, best->size, request->rounded);
    return ph__heap_take_at(pool->heap, best->address, split ? request->rounded : best->size,
                            request->bytes, request->stream->id, &no_memory);
}

/* A cached block of a pool that lends on a shortage, unless a graph's replays write it. */
static ph__block *borrow(ph__memory *memory, const ph__request *request)
{
    ph__block *block = NULL;
    ph__spin_lock(&memory->lock);
    for (ph_pool *pool = memory->default_pool.next; pool && !block; pool = pool->next) {
        if (!pool->options.use_on_oom || pool->use_count == 0 || pool->recording == PH__IN_CAPTURE)
            continue;
        do
            block = lend(pool, request);
        while (block && ph__released_avoid(memory, pool, block));
        if (block)
            ph__memory_hand_out(memory, pool, block);
    }
    ph__spin_unlock(&memory->lock);
    return block;
}

typedef struct shortage {
    size_t allocated, cached, private_bytes, private_cached, largest, limit, pool_limit,
        pool_reserved, reserved;
} shortage;

static size_t current_of(const ph__account *account, int kind)
{
    return (size_t)(account->tally[kind].current[0] + account->tally[kind].current[1]);
}

static size_t active_bytes(const ph__account *account)
{
    return current_of(account, PH__COUNT_BYTES) +
           (size_t)(account->waiting_bytes[0] + account->waiting_bytes[1]);
}

static void look(shortage *out, ph__memory *memory, const ph__request *request)
{
    memset(out, 0, sizeof *out);
    ph__spin_lock(&memory->lock);
    memory->account.ooms++;
    request->pool->account.ooms += ph__pool_is_default(request->pool) ? 0 : 1;
    out->allocated = current_of(&memory->account, PH__COUNT_BYTES);
    out->cached = current_of(&memory->account, PH__COUNT_RESERVED) - active_bytes(&memory->account);
    for (const ph_pool *pool = &memory->default_pool; pool; pool = pool->next) {
        if (!ph__pool_is_default(pool)) {
            out->private_bytes += current_of(&pool->account, PH__COUNT_RESERVED);
            out->private_cached +=
                current_of(&pool->account, PH__COUNT_RESERVED) - active_bytes(&pool->account);
        }
        for (const ph__segment *s = ph__heap_first_segment(pool->heap); s; s = s->next)
            for (const ph__block *b = s->first; b; b = b->next)
                if (b->free && b->size > out->largest)
                    out->largest = b->size;
    }
    out->limit = memory->limit;
    out->reserved = memory->reserved;
    out->pool_limit = request->pool->options.limit;
    out->pool_reserved = request->pool->reserved;
    if (ph__sees(memory, PH__SEE_HISTORY))
        ph__history_note(memory, PH__OOM, 0, request->rounded, request->pool, request->stream, 0);
    ph__spin_unlock(&memory->lock);
}

static const char *advice(const ph__memory *memory, const shortage *seen,
                          const ph__request *request)
{
    if (ph__capturing(memory))
        return "a capture is open, so that caches could not be emptied: capture with "
               "ph_capture_options.prepare";
    if (seen->private_cached >= request->rounded)
        return "private pools hold enough: let graphs share one (ph_capture_options.pool), or use "
               "use_on_oom";
    if (seen->cached >= request->rounded)
        return "the cache is fragmented or of other streams: ph_memory_trim, or allocate large "
               "blocks first";
    return "free memory or lower what is needed at once (on the host device, the setting memory= "
           "of its "
           "name)";
}

static ph_status fail_shortage(ph__memory *memory, const ph__request *request,
                               const ph__growth *growth)
{
    shortage seen;
    look(&seen, memory, request);
    if (growth->kind == PH__AT_POOL_LIMIT)
        return ph__fail_native(
            PH_ERROR_POOL_LIMIT, 0, NULL,
            "%s: %zu bytes (a segment of %zu) would pass the pool's limit of %zu, of which "
            "%zu are taken; raise ph_pool_options.limit or free blocks of the pool",
            request->call, request->bytes, growth->segment_bytes, seen.pool_limit,
            seen.pool_reserved);
    if (growth->kind == PH__AT_DEVICE_LIMIT)
        return ph__fail_native(
            PH_ERROR_POOL_LIMIT, 0, NULL,
            "%s: %zu bytes (a segment of %zu) would pass the device's limit of %zu, of "
            "which %zu are taken (%zu by private pools, %zu cached); raise it with "
            "ph_memory_set_limit, or free memory",
            request->call, request->bytes, growth->segment_bytes, seen.limit, seen.reserved,
            seen.private_bytes, seen.cached);
    ph__drv_device_info info = {.memory_total = 0};
    (void)memory->driver->device_info(&info, memory->device->handle);
    return ph__fail_native(
        PH_ERROR_DEVICE_MEMORY, growth->result, growth->result ? PH__NAME_MEM_CREATE : NULL,
        "%s: out of memory: %zu bytes (a segment of %zu) on %s: %llu of %llu bytes free; "
        "allocated %zu, cached %zu (largest "
        "block %zu), in private pools %zu; %s",
        request->call, request->bytes, growth->segment_bytes, memory->device->driver->name,
        (unsigned long long)info.memory_free, (unsigned long long)info.memory_total, seen.allocated,
        seen.cached, seen.largest, seen.private_bytes, advice(memory, &seen, request));
}

static ph_status fail(ph__memory *memory, const ph__request *request, const ph__growth *growth)
{
    switch (growth->kind) {
    case PH__NO_HOST_MEMORY:
        return ph__fail_host_memory(request->call, "the segment's records");
    case PH__TOO_LARGE:
        return ph__fail_native(PH_ERROR_SIZE, 0, NULL,
                               "%s: %zu bytes are more than any segment can have", request->call,
                               request->bytes);
    case PH__SOURCE_MISALIGNED:
        return ph__fail_native(
            PH_ERROR_ARGUMENT, 0, NULL,
            "%s: the pool's alloc function gave memory that is not aligned to 512 bytes",
            request->call);
    case PH__DRIVER_FAILED:
        return ph__driver_fail(growth->result, PH__NAME_MEM_CREATE, "%s: a segment of %zu bytes",
                               request->call, growth->segment_bytes);
    case PH__SOURCE_TAKEN:
        return ph__fail_native(PH_ERROR_ARGUMENT, 0, NULL,
                               "%s: the alloc function of pool {%llu, %llu} gave memory that the "
                               "allocator has already, from ph_malloc, or "
                               "twice; a source of segments takes its memory from elsewhere",
                               request->call, (unsigned long long)request->pool->id.first,
                               (unsigned long long)request->pool->id.second);
    case PH__SOURCE_RECURSES:
        return ph__fail_native(
            PH_ERROR_STATE, 0, NULL,
            "%s: the alloc function of pool {%llu, %llu} allocates from that pool, and so would be "
            "called by itself "
            "for ever; a source of segments takes its memory from elsewhere than ph_malloc",
            request->call, (unsigned long long)request->pool->id.first,
            (unsigned long long)request->pool->id.second);
    default:
        return fail_shortage(memory, request, growth);
    }
}

/* A pool's own function may have said why in the record; else only that it failed is known. */
static ph_status fail_source(ph__memory *memory, const ph__request *request,
                             const ph__growth *growth)
{
    shortage seen;
    look(&seen, memory, request);
    if (ph_error_last()->status == growth->source) {
        ph__error_prefix("%s: the pool's alloc function, for %zu bytes", request->call,
                         growth->segment_bytes);
        return growth->source;
    }
    return ph__fail_native(growth->source, 0, NULL,
                           "%s: the pool's alloc function failed for %zu bytes", request->call,
                           growth->segment_bytes);
}

static bool is_shortage(const ph__growth *growth)
{
    return growth->kind == PH__NO_DEVICE_MEMORY || growth->kind == PH__AT_DEVICE_LIMIT ||
           growth->kind == PH__AT_POOL_LIMIT;
}

/* The last resort: what is cached goes back, then once more. */
static ph__block *retry(ph__memory *memory, const ph__request *request, ph__growth *growth)
{
    bool no_memory = false;
    (void)ph__memory_trim_now(memory, PH__TRIM_CACHED, request->pool);
    ph__block *block = take_cached(memory, request, &no_memory);
    if (!block && !no_memory)
        block = ph__grow(growth, memory, request);
    if (!block)
        return NULL;
    ph__spin_lock(&memory->lock);
    memory->account.retries++;
    request->pool->account.retries += ph__pool_is_default(request->pool) ? 0 : 1;
    ph__spin_unlock(&memory->lock);
    return block;
}

/* Replays that are in flight may still write a block which captures were given: the stream comes
 * behind them. */
static ph_status order_behind_replays(ph__memory *memory, const ph__request *request,
                                      ph__block *block)
{
    ph__spin_lock(&memory->lock);
    ph_pool *pool = ph__mseg_of(block)->pool;
    bool captured = !request->capture_id && ph__mseg_of(block)->captured;
    void *address = (void *)block->address;
    ph__spin_unlock(&memory->lock);
    ph_status status =
        captured ? ph__replays_before_use(pool, request->stream, request->call) : PH_OK;
    if (status != PH_OK)
        (void)ph__free_slow(memory, address, request->stream);
    return status;
}

static ph_status serve(void **out, ph__memory *memory, const ph__request *request)
{
    bool no_memory = false;
    ph__growth growth;
    if (request->capture_id)
        ph__reach_reclaim(memory, request);
    ph__block *block = take_cached(memory, request, &no_memory);
    if (!block && no_memory)
        return ph__fail_host_memory(request->call, "the block's record");
    if (!block) {
        ph_error before;
        ph__error_save(&before);
        block = ph__grow(&growth, memory, request);
        if (!block && is_shortage(&growth) && ph__pool_is_default(request->pool))
            block = borrow(memory, request);
        if (!block && is_shortage(&growth) && !ph__capturing(memory))
            block = retry(memory, request, &growth);
        if (!block)
            return growth.kind == PH__NO_DEVICE_MEMORY && growth.source != PH_OK
                       ? fail_source(memory, request, &growth)
                       : fail(memory, request, &growth);
        ph__error_restore(&before);
    }
    PH_TRY(order_behind_replays(memory, request, block));
    *out = (void *)block->address;
    return PH_OK;
}

typedef struct routed {
    ph__memory *memory;
    const ph__request *request;
} routed;

/* A pool's own function did not return. */
static void abandon(void *what)
{
    const routed *r = what;
    ph__unroute(r->memory, r->request);
}

ph_status ph__malloc_slow(void **out, ph__memory *memory, ph__request *request)
{
    ph__memory_process(memory);
    PH_TRY(ph__route(memory, request));
    routed r = {memory, request};
    PH__UNWIND unwind = {abandon, &r};
    bool scripted =
        ph__sees(memory, PH__SEE_SCRIPT) && ph__script_take(out, memory, request, 0, false);
    ph_status status = scripted ? PH_OK : serve(out, memory, request);
    unwind.undo = NULL;
    ph__unroute(memory, request);
    return status;
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
    ph__memory_process(memory);
    return serve(out, memory, &request);
}

ph_status ph_malloc_at(void *out_pointer, void *address, size_t bytes, ph_stream *stream)
{
    static const char call[] = "ph_malloc_at";
    void *got = NULL;
    if (!out_pointer)
        return ph__fail_null(call, "out_pointer");
    memcpy(out_pointer, &got, sizeof got);
    PH_TRY(ph__stream_check(stream, call));
    if ((uintptr_t)address % PH__BLOCK_MIN != 0)
        return ph__fail_native(PH_ERROR_ARGUMENT, 0, NULL, "%s: %p is not aligned to %zu bytes",
                               call, address, PH__BLOCK_MIN);
    ph__memory *memory = ph__memory_attach(stream->device, call);
    if (!memory)
        return ph_error_last()->status;
    if (bytes == 0)
        return PH_OK;
    ph__request request = {.bytes = bytes, .stream = stream, .call = call};
    if (!ph__block_round(bytes, &request.rounded))
        return ph__fail_native(PH_ERROR_SIZE, 0, NULL, "%s: %zu bytes overflow", call, bytes);
    ph__memory_process(memory);
    PH_TRY(ph__route(memory, &request));
    if (ph__sees(memory, PH__SEE_SCRIPT) &&
        ph__script_take(&got, memory, &request, (uintptr_t)address, false)) {
        ph__unroute(memory, &request);
        memcpy(out_pointer, &got, sizeof got);
        return PH_OK;
    }
    bool no_memory = false;
    ph__spin_lock(&memory->lock);
    ph__block *block = NULL;
    if (request.capture_id && !ph__given_reserve(request.pool))
        no_memory = true;
    else
        block = ph__heap_take_at(request.pool->heap, (uintptr_t)address, request.rounded, bytes,
                                 stream->id, &no_memory);
    if (block) {
        ph__memory_hand_out(memory, request.pool, block);
        if (request.capture_id)
            ph__given_note(request.pool, request.capture_id, block);
        got = (void *)block->address;
    }
    ph__spin_unlock(&memory->lock);
    ph__unroute(memory, &request);
    if (no_memory)
        return ph__fail_host_memory(call, "the block's record");
    if (!got)
        return ph__fail_native(
            PH_ERROR_NOT_FOUND, 0, NULL,
            "%s: the exact address %p is not free for %zu bytes in the pool that this call "
            "routes to, on this stream",
            call, address, bytes);
    PH_TRY(order_behind_replays(memory, &request, block));
    memcpy(out_pointer, &got, sizeof got);
    return PH_OK;
}
