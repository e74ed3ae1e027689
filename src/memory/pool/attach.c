/* SPDX-License-Identifier: MIT */
/* memory/pool/attach.c: the memory state of a device: made at first use, found by address, ended
 * with the device. */
#include "base/fork.h"
#include "memory/state.h"

/* All memories of the process, for calls that have an address and no device. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static ph__memory *all;

/* Retains a device that may be on its way out: false when it is. */
static bool try_retain(ph_device *device)
{
    int count = atomic_load(&device->references);
    while (count > 0)
        if (atomic_compare_exchange_weak(&device->references, &count, count + 1))
            return true;
    return false;
}

bool ph__memory_try_retain(const ph__memory *memory)
{
    return try_retain(memory->device);
}

ph__memory *ph__memory_of_address(uintptr_t address)
{
    ph__memory *found = NULL;
    pthread_mutex_lock(&all_lock);
    for (ph__memory *memory = all; memory && !found; memory = memory->next_memory) {
        ph__spin_lock(&memory->lock);
        bool here = ph__range_map_find(&memory->segments, address) ||
                    ph__range_map_find(&memory->pinned, address);
        ph__spin_unlock(&memory->lock);
        if (here && try_retain(memory->device))
            found = memory;
    }
    pthread_mutex_unlock(&all_lock);
    return found;
}

bool ph__pool_is_there(const ph_pool *pool)
{
    bool there = false;
    pthread_mutex_lock(&all_lock);
    for (ph__memory *memory = all; memory && !there; memory = memory->next_memory) {
        ph__spin_lock(&memory->lock);
        there = memory->pools.count > 0 &&
                ph__map_get(&memory->pools, (uint64_t)(uintptr_t)pool) != NULL;
        ph__spin_unlock(&memory->lock);
    }
    pthread_mutex_unlock(&all_lock);
    return there;
}

void ph__memory_see_all(unsigned flag, bool on)
{
    pthread_mutex_lock(&all_lock);
    for (ph__memory *memory = all; memory; memory = memory->next_memory) {
        ph__spin_lock(&memory->lock);
        ph__see(memory, flag, on);
        ph__spin_unlock(&memory->lock);
    }
    pthread_mutex_unlock(&all_lock);
}

/* ---- all of them ---- */
static void lock_all(void)
{
    for (ph__memory *memory = all; memory; memory = memory->next_memory)
        ph__spin_lock(&memory->lock);
}

static void unlock_all(void)
{
    for (ph__memory *memory = all; memory; memory = memory->next_memory)
        ph__spin_unlock(&memory->lock);
}

ph__memory *ph__memories_begin(void)
{
    pthread_mutex_lock(&all_lock);
    return all;
}

void ph__memories_end(void)
{
    pthread_mutex_unlock(&all_lock);
}

ph__memory *ph__memories_lock(void)
{
    pthread_mutex_lock(&all_lock);
    lock_all();
    return all;
}

void ph__memories_unlock(void)
{
    unlock_all();
    pthread_mutex_unlock(&all_lock);
}

/* ---- fork ---- what an allocation is changes under the memories' locks, so that they come across
 * whole. */

/* The parent's: their addresses are known, and nothing is done with them. */
static ph__memory *all_forked;

static void abandon_all(void)
{
    unlock_all();
    for (ph__memory *memory = all, *next; memory; memory = next) {
        next = memory->next_memory;
        memory->driver = &ph__driver_forked;
        pthread_mutex_init(&memory->settling, NULL);
        for (ph_pool *pool = &memory->default_pool; pool; pool = pool->next)
            pool->replay_lock = (ph__mutex){0};
        memory->next_memory = all_forked;
        all_forked = memory;
    }
    all = NULL;
    ph__recordings = NULL;
}
PH__FORK_PART(.order = PH__FORK_MEMORIES, .lock = &all_lock, .prepare = lock_all,
              .parent = unlock_all, .child = abandon_all)

bool ph__memory_is_forked(uintptr_t address)
{
    bool found = false;
    pthread_mutex_lock(&all_lock);
    for (const ph__memory *memory = all_forked; memory && !found; memory = memory->next_memory)
        found = ph__range_map_find(&memory->segments, address) ||
                ph__range_map_find(&memory->pinned, address);
    pthread_mutex_unlock(&all_lock);
    return found;
}

bool ph__pool_is_forked(const ph_pool *pool)
{
    bool found = false;
    pthread_mutex_lock(&all_lock);
    for (const ph__memory *memory = all_forked; memory && !found; memory = memory->next_memory)
        found = memory->pools.count > 0 && ph__map_get(&memory->pools, (uint64_t)(uintptr_t)pool);
    pthread_mutex_unlock(&all_lock);
    return found;
}

static void leave_list(ph__memory *memory)
{
    pthread_mutex_lock(&all_lock);
    ph__memory **at = &all;
    while (*at != memory)
        at = &(*at)->next_memory;
    *at = memory->next_memory;
    pthread_mutex_unlock(&all_lock);
}

/* Blocks that were never freed die with the device. */
static void close_segment(ph__memory *memory, ph_pool *pool, ph__segment *segment)
{
    ph__mseg *mseg = segment->user;
    for (ph__block *block = segment->first; block;) {
        if (block->free) {
            block = block->next;
            continue;
        }
        ph__uses *uses = ph__block_uses(block);
        if (uses && uses->block == block)
            ph__uses_destroy(memory, uses);
        (void)ph__heap_give(pool->heap, block);
        block = segment->first; /* merged: at most one free block stands before the next used one */
    }
    (void)ph__range_map_remove(&memory->segments, segment->address);
    ph__heap_remove_segment(pool->heap, segment);
    ph__mseg_close(memory, mseg);
}

static void close_pools(ph__memory *memory)
{
    for (ph_pool *pool = &memory->default_pool; pool; pool = pool->next)
        for (ph__segment *segment; (segment = ph__heap_first_segment(pool->heap)) != NULL;)
            close_segment(memory, pool, segment);
    while (memory->default_pool.next) {
        ph_pool *pool = memory->default_pool.next;
        memory->default_pool.next = pool->next;
        ph__pool_bury(pool);
    }
}

static void memory_free(ph__memory *memory)
{
    ph__heap_destroy(memory->default_pool.heap);
    ph__pools_forget(memory, 0);
    ph__map_free(&memory->pools);
    for (size_t i = 0; i < memory->events.count; i++)
        memory->driver->event_destroy(memory->events.at[i]);
    ph__vec_free(&memory->events);
    ph__uses_destroy(memory, memory->spare);
    ph__range_map_free(&memory->segments);
    ph__range_map_free(&memory->pinned);
    ph__watchers_free(memory);
    ph__range_map_free(&memory->released);
    ph__free(memory->history);
    pthread_mutex_destroy(&memory->settling);
    ph__free(memory);
}

static void destroy(ph__attachment *attachment)
{
    ph__memory *memory = (ph__memory *)attachment;
    leave_list(memory);
    ph__sites_forget(memory);
    (void)memory->driver->device_synchronize(memory->device->handle);
    ph__batches_destroy(memory);
    ph__pinned_close(memory);
    close_pools(memory);
    ph__streams_close(memory);
    memory_free(memory);
}

static void stream_destroyed(ph__attachment *attachment, ph_stream *stream)
{
    ph__memory *memory = (ph__memory *)attachment;
    ph__spin_lock(&memory->lock);
    ph__stream_segments_due(memory, stream);
    ph__spin_unlock(&memory->lock);
    if (stream->wrapped)
        ph__replays_settle(memory, stream);
}

static void capture_ended(ph__attachment *attachment, uint64_t capture_id)
{
    ph__memory *memory = (ph__memory *)attachment;
    ph__capture_walks_end(memory, capture_id);
    if (ph__sees(memory, PH__SEE_DEFERRED))
        ph__deferred_process(memory, capture_id);
}

static bool find(ph__attachment *attachment, ph_allocation *out, const void *address)
{
    return ph__memory_find(out, ((ph__memory *)attachment)->device, address);
}

static ph__attachment *create(ph_device *device)
{
    ph__memory *memory = ph__calloc(1, sizeof *memory);
    if (!memory)
        return NULL;
    memory->device = device;
    memory->driver = device->driver;
    memory->gone_last = &memory->gone;
    memory->spare = ph__uses_create();
    if (!memory->spare || !ph__pool_init(&memory->default_pool, memory)) {
        ph__uses_destroy(memory, memory->spare);
        ph__free(memory);
        return NULL;
    }
    pthread_mutex_init(&memory->settling, NULL);
    atomic_init(&memory->attention, device->options.debug_poison ? PH__SEE_POISON : 0U);
    memory->attachment = (ph__attachment){.destroy = destroy,
                                          .find = find,
                                          .before_capture = ph__replays_before_capture,
                                          .copy_captured = ph__copy_captured,
                                          .stream_destroyed = stream_destroyed,
                                          .capture_ended = capture_ended};
    pthread_mutex_lock(&all_lock);
    ph__see(memory, PH__SEE_SITES, ph__sites_wanted());
    ph__see(memory, PH__SEE_BORN, ph__recordings != NULL);
    memory->next_memory = all;
    all = memory;
    pthread_mutex_unlock(&all_lock);
    return &memory->attachment;
}

ph__memory *ph__memory_attach(ph_device *device, const char *call)
{
    if (ph__device_check(device, call) != PH_OK)
        return NULL;
    ph__attachment *attachment = ph__device_attach(device, PH__ATTACH_MEMORY, create);
    if (!attachment)
        (void)ph__fail_host_memory(call, "the device's memory state");
    return (ph__memory *)attachment;
}
