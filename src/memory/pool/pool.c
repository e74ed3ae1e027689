/* SPDX-License-Identifier: MIT */
/* memory/pool/pool.c: pools: making them, who holds them, and their end. */
#include "memory/pool/pool.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/map.h"
#include "base/option.h"
#include "memory/block/block.h"
#include "memory/block/block_heap.h"
#include "memory/pool/attach.h"
#include "memory/reclaim/leaving.h"
#include "memory/reclaim/pinned_holders.h"
#include "memory/reclaim/pool_lifetime.h"
#include "memory/reclaim/reclaim.h"
#include "memory/state/due.h"
#include "memory/state/memories.h"
#include "memory/state/memory_state.h"
#include "memory/state/pool_state.h"
#include "memory/state/short_cycle.h"

/* One count for all pools of the process, whoever made them: no number is ever used twice. */
static uint64_t next_number(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

static ph_status create_pool(ph_pool **out, ph_device *device, const ph_pool_options *options,
                             bool by_user, const char *call)
{
    ph__memory *memory = ph__memory_attach(device, call);
    if (!memory)
        return ph_error_last()->status;
    ph_pool *pool = ph__calloc(1, sizeof *pool);
    if (!pool)
        return ph__fail_host_memory(call, "the pool");
    if (options)
        pool->options = *options;
    if (!ph__pool_init(pool, memory)) {
        ph__free(pool);
        return ph__fail_host_memory(call, "the pool");
    }
    uint64_t number = next_number();
    pool->id = by_user ? (ph_pool_id){0, number} : (ph_pool_id){number, 0};
    pool->device = ph_device_retain(device);
    ph_pool *first = &memory->default_pool;
    ph__memory_lock(memory);
    bool listed = ph__map_put(&memory->pools, (uint64_t)(uintptr_t)pool, pool);
    if (!listed) {
        ph__spin_unlock(&memory->lock);
        ph_device_release(pool->device);
        ph__heap_destroy(pool->heap);
        ph__free(pool);
        return ph__fail_host_memory(call, "the pool");
    }
    pool->previous = first;
    pool->next = first->next;
    if (first->next)
        first->next->previous = pool;
    first->next = pool;
    ph__spin_unlock(&memory->lock);
    *out = pool;
    return PH_OK;
}

ph_status ph_pool_create(ph_pool **out, ph_device *device, const ph_pool_options *options)
{
    static const char call[] = "ph_pool_create";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!device)
        return ph__fail_null(call, "device");
    if (options && !PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_pool_options");
    if (options && !options->alloc != !options->free)
        return ph__fail_native(
            PH_ERROR_ARGUMENT, 0, NULL,
            "%s: only one of alloc and free is set; a source of segments needs both", call);
    if (options)
        PH_TRY(ph__option_no_zero(options->limit, "limit", call));
    return create_pool(out, device, options, true, call);
}

ph_status ph__pool_create_sourced(ph_pool **out, ph_device *device, const ph_pool_options *options,
                                  void (*ended)(void *user), const char *call)
{
    PH_TRY(create_pool(out, device, options, true, call));
    (*out)->ended = ended;
    return PH_OK;
}

ph_status ph__pool_create_private(ph_pool **out, ph_device *device)
{
    *out = NULL;
    return create_pool(out, device, NULL, false, "ph_graph_capture_begin");
}

ph_device *ph__pool_device(const ph_pool *pool)
{
    return pool->memory->device;
}

/* For calls that cannot fail. */
static bool is_there_or_said(const ph_pool *pool, const char *call)
{
    bool there = ph__pool_is_there(pool);
    if (!there && !ph__pool_is_forked(pool))
        PH__LOG_ONCE(PH_LOG_WARNING,
                     "%s: %p is no pool, or was one that went with its last holder, as a graph's "
                     "pool does when the graph is reset; "
                     "nothing was done; said once",
                     call, (const void *)pool);
    return there;
}

ph_pool *ph_pool_retain(ph_pool *pool)
{
    if (!pool || !is_there_or_said(pool, "ph_pool_retain"))
        return NULL;
    ph__memory_lock(pool->memory);
    ph__pool_hold(pool);
    ph__spin_unlock(&pool->memory->lock);
    return pool;
}

ph_status ph__pool_check(const ph_pool *pool, const char *call)
{
    if (!pool)
        return ph__fail_null(call, "pool");
    if (ph__pool_is_there(pool))
        return PH_OK;
    if (ph__pool_is_forked(pool))
        return ph__fail_forked(pool->memory->device, call);
    return ph__fail_native(
        PH_ERROR_ARGUMENT, 0, NULL,
        "%s: %p is no pool, or was one that went with its last holder: a graph's pool goes when "
        "the graph is reset, destroyed or "
        "aborted; take a reference before that (ph_pool_retain), and release it later",
        call, (const void *)pool);
}

/* The last holder has gone. What is free goes back now when nothing uses it any more, else at
 * the next chance. */
static void end_pool(ph__memory *memory, ph_pool *pool)
{
    ph_device *device = pool->device;
    ph_pool *dead = NULL;
    ph_error saved;
    ph__error_save(&saved);
    (void)ph__memory_sweep(memory, false);
    ph__memory_lock(memory);
    ph__pool_unkeep(pool, &dead);
    ph__spin_unlock(&memory->lock);
    ph__pool_bury(dead);
    ph__error_restore(&saved);
    ph_device_release(device);
}

void ph__pool_drop(ph_pool *pool, bool graph)
{
    ph__memory *memory = pool->memory;
    if (memory->device->forked)
        return;
    ph__memory_lock(memory);
    /* Pinned blocks may be held for the replays that are over now. */
    bool idle = graph && --pool->graphs == 0;
    if (idle)
        ph__pinned_unpark(pool);
    bool due = idle && memory->held;
    bool last = --pool->use_count == 0;
    if (last)
        pool->keeps++;
    if (last || idle)
        ph__pool_due(pool);
    ph__spin_unlock(&memory->lock);
    if (last)
        end_pool(memory, pool);
    else if (due)
        ph__memory_reclaim(memory);
}

void ph_pool_release(ph_pool *pool)
{
    if (pool && is_there_or_said(pool, "ph_pool_release"))
        ph__pool_drop(pool, false);
}

void ph__pool_graph_retain(ph_pool *pool)
{
    ph__memory_lock(pool->memory);
    ph__pool_hold(pool);
    pool->graphs++;
    ph__spin_unlock(&pool->memory->lock);
}

void ph__pool_graph_release(ph_pool *pool)
{
    if (pool)
        ph__pool_drop(pool, true);
}

ph_pool_id ph__pool_id(const ph_pool *pool)
{
    return pool ? pool->id : (ph_pool_id){0, 0};
}

ph_pool_id ph_pool_get_id(const ph_pool *pool)
{
    return pool && ph__pool_is_there(pool) ? pool->id : (ph_pool_id){0, 0};
}

size_t ph_pool_use_count(const ph_pool *pool)
{
    if (!pool || !ph__pool_is_there(pool))
        return 0;
    ph__memory_lock(pool->memory);
    size_t count = pool->use_count;
    ph__spin_unlock(&pool->memory->lock);
    return count;
}

ph_status ph_pool_trim(ph_pool *pool)
{
    static const char call[] = "ph_pool_trim";
    PH_TRY(ph__pool_check(pool, call));
    ph__memory *memory = pool->memory;
    ph__memory_lock(memory);
    bool idle = pool->recording == PH__IDLE && pool->graphs == 0;
    bool later = idle && ph__capturing(memory);
    if (later) {
        pool->trim_wanted = true;
        ph__pool_due(pool);
    }
    ph__spin_unlock(&memory->lock);
    if (later)
        return ph__trim_status(ph__memory_sweep(memory, false), call);
    return idle ? ph__trim_status(ph__memory_trim_now(memory, PH__TRIM_ABANDONED, pool), call)
                : PH_OK;
}
