/* SPDX-License-Identifier: MIT */
/* memory/alloc/shortage.c: the words of a refusal. */
#include "memory/alloc/shortage.h"
#include "memory/block/block.h"
#include "memory/reclaim/segments.h"
#include "memory/state/account.h"
#include "memory/state/history.h"
#include "memory/state/memory_state.h"
#include "memory/state/request.h"
#include "memory/state/short_cycle.h"
#include <string.h>

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

static void measure_shortage(shortage *out, ph__memory *memory, const ph__request *request)
{
    memset(out, 0, sizeof *out);
    ph__memory_lock(memory);
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
    if (ph__slow_path_has(memory, PH__SLOW_HISTORY))
        ph__history_note(memory, PH__OOM, 0, request->rounded, request->pool, request->stream, 0);
    ph__spin_unlock(&memory->lock);
}

static const char *advise_on_shortage(const ph__memory *memory, const shortage *seen,
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
    measure_shortage(&seen, memory, request);
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
        seen.cached, seen.largest, seen.private_bytes, advise_on_shortage(memory, &seen, request));
}

ph_status ph__fail_growth(ph__memory *memory, const ph__request *request, const ph__growth *growth)
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
    case PH__SOURCE_OVERLAPS:
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
ph_status ph__fail_source(ph__memory *memory, const ph__request *request, const ph__growth *growth)
{
    shortage seen;
    measure_shortage(&seen, memory, request);
    if (ph_error_last()->status == growth->source) {
        ph__error_prefix("%s: the pool's alloc function, for %zu bytes", request->call,
                         growth->segment_bytes);
        return growth->source;
    }
    return ph__fail_native(growth->source, 0, NULL,
                           "%s: the pool's alloc function failed for %zu bytes", request->call,
                           growth->segment_bytes);
}
