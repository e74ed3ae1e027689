/* SPDX-License-Identifier: MIT */
/* memory/pool/recording.c: captures that record into a pool, from their begin to their end. */
#include "memory/pool/recording.h"
#include "memory/capture/allocation_log.h"
#include "memory/capture/captures.h"
#include "memory/observe/hold.h"
#include "memory/pool/pool.h"
#include "memory/pool/scopes.h"
#include "memory/reclaim/pool_lifetime.h"
#include "memory/state/allocation.h"
#include "memory/state/memories.h"
#include "memory/state/memory_state.h"
#include "memory/state/pool_state.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"
#include "memory/streams/dependency_walk.h"
#include "memory/streams/uses.h"

static ph__recording start_capture(ph_pool *pool)
{
    ph__memory *all = ph__memories_lock();
    ph__recording before = pool->recording;
    if (before == PH__IDLE) {
        pool->recording = PH__IN_CAPTURE;
        ph__pool_hold(pool);
        pool->graphs++;
        pool->begun = ++pool->memory->begun;
        ph__born_begin(pool, all);
    }
    ph__memories_unlock();
    return before;
}

/* ---- captures ---- */

ph_status ph__pool_record_begin(ph_pool *pool, ph_device *device, const char *call)
{
    PH_TRY(ph__pool_check(pool, call));
    if (pool->memory->device != device)
        return ph__fail_devices(call, "the pool", pool->memory->device, "the capture", device);
    ph__recording by = start_capture(pool);
    return by == PH__IDLE ? PH_OK : ph__fail_busy(call, pool, by == PH__IN_SCOPE);
}

void ph__pool_record_publish(ph_pool *pool, uint64_t capture_id)
{
    ph__memory *memory = pool->memory;
    ph__memory_lock(memory);
    pool->capture_id = capture_id;
    pool->next_route = memory->routes;
    memory->routes = pool;
    ph__set_slow_path(memory, PH__SLOW_ROUTES, true);
    ph__spin_unlock(&memory->lock);
}

/* Allocations of the capture do not go to the pool any more. Lock held. */
static void remove_route(ph__memory *memory, ph_pool *pool, uint64_t capture_id)
{
    if (capture_id != 0 && pool->capture_id == capture_id)
        for (ph_pool **at = &memory->routes; *at; at = &(*at)->next_route)
            if (*at == pool) {
                *at = pool->next_route;
                break;
            }
    ph__set_slow_path(memory, PH__SLOW_ROUTES, memory->routes != NULL);
}

void ph__pool_record_pause(ph_pool *pool, uint64_t capture_id)
{
    ph__memory *memory = pool->memory;
    ph__memory_lock(memory);
    remove_route(memory, pool, capture_id);
    ph__dependency_walk *walks = ph__dependency_walks_end(memory, pool);
    ph__layout log = pool->allocation_log;
    pool->allocation_log = (ph__layout){0};
    pool->capture_id = 0;
    ph__spin_unlock(&memory->lock);
    ph__dependency_walks_free(walks);
    ph__layout_free(&log);
}

void ph__pool_record_end(ph_pool *pool, uint64_t capture_id)
{
    ph__memory *memory = pool->memory, *to_reclaim = ph__born_end(pool);
    ph__memory_lock(memory);
    remove_route(memory, pool, capture_id);
    ph__dependency_walk *walks = ph__dependency_walks_end(memory, pool);
    ph__layout log = pool->allocation_log;
    pool->allocation_log = (ph__layout){0};
    pool->capture_id = 0;
    pool->recording = PH__IDLE;
    pool->capture_ranges.count = pool->capture_ranges_merged = 0;
    bool spent = memory->spare == NULL;
    ph__spin_unlock(&memory->lock);
    ph__dependency_walks_free(walks);
    ph__layout_free(&log);
    ph__born_reclaim(to_reclaim);
    if (!spent)
        return;
    ph__stream_uses *spare = ph__stream_uses_create();
    ph__memory_lock(memory);
    if (!memory->spare) {
        memory->spare = spare;
        spare = NULL;
    }
    ph__spin_unlock(&memory->lock);
    ph__stream_uses_destroy(memory, spare);
}
