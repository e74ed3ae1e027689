/* SPDX-License-Identifier: MIT */
/* memory/pool/attach.c: the memory state of a device: made at first use, ended with the device. */
#include "memory/pool/attach.h"
#include "base/alloc.h"
#include "base/map.h"
#include "base/range_map.h"
#include "base/vec.h"
#include "memory/block/block.h"
#include "memory/block/block_heap.h"
#include "memory/observe/lookup.h"
#include "memory/observe/sites.h"
#include "memory/pool/replay.h"
#include "memory/reclaim/batches.h"
#include "memory/reclaim/pinned_holders.h"
#include "memory/reclaim/pinned_memory.h"
#include "memory/reclaim/pool_lifetime.h"
#include "memory/reclaim/segments.h"
#include "memory/state/due.h"
#include "memory/state/free_counter.h"
#include "memory/state/memories.h"
#include "memory/state/memory_state.h"
#include "memory/state/segment.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"
#include "memory/streams/deferred.h"
#include "memory/streams/dependency_walk.h"
#include "memory/streams/replay_streams.h"
#include "memory/streams/uses.h"
#include <string.h>

/* Blocks that were never freed die with the device. */
static void close_segment(ph__memory *memory, ph_pool *pool, ph__segment *segment)
{
    ph__mseg *mseg = segment->user;
    for (ph__block *block = segment->first; block;) {
        if (block->free) {
            block = block->next;
            continue;
        }
        ph__stream_uses *uses = ph__block_stream_uses(block);
        if (uses && uses->block == block)
            ph__stream_uses_destroy(memory, uses);
        (void)ph__heap_give(pool->heap, block);
        block = segment->first; /* merged: at most one free block stands before the next used one */
    }
    (void)ph__range_map_remove(&memory->segments, segment->address);
    ph__heap_remove_segment(pool->heap, segment);
    ph__mseg_close(memory, mseg);
}

static void close_pools(ph__memory *memory)
{
    ph__cycle_end(memory);
    for (ph_pool *pool = &memory->default_pool; pool; pool = pool->next)
        for (ph__segment *segment; (segment = ph__heap_first_segment(pool->heap)) != NULL;)
            close_segment(memory, pool, segment);
    while (memory->default_pool.next) {
        ph_pool *pool = memory->default_pool.next;
        memory->default_pool.next = pool->next;
        ph__pool_bury(pool);
    }
}

static void free_memory_state(ph__memory *memory)
{
    ph__heap_destroy(memory->default_pool.heap);
    ph__pools_forget(memory, 0);
    ph__map_free(&memory->pools);
    for (size_t i = 0; i < memory->events.count; i++)
        memory->driver->event_destroy(memory->events.at[i]);
    ph__vec_free(&memory->events);
    ph__stream_uses_destroy(memory, memory->spare);
    ph__range_map_free(&memory->segments);
    ph__range_map_free(&memory->pinned);
    ph__announced_close(memory);
    ph__watchers_free(memory);
    ph__vec_free(&memory->freed.list);
    ph__range_map_free(&memory->released);
    ph__free(memory->history);
    pthread_mutex_destroy(&memory->reclaim_lock);
    ph__free(memory);
}

static void destroy_memory(ph__attachment *attachment)
{
    ph__memory *memory = (ph__memory *)attachment;
    ph__memories_remove(memory);
    ph__sites_forget(memory);
    memory->driver->device_wait_streams(memory->device->handle);
    ph__batches_destroy(memory);
    ph__pinned_close(memory);
    close_pools(memory);
    ph__streams_close(memory);
    free_memory_state(memory);
}

static void stream_destroyed(ph__attachment *attachment, ph_stream *stream)
{
    ph__memory *memory = (ph__memory *)attachment;
    ph__memory_lock(memory);
    ph__stream_segments_due(memory, stream);
    ph__spin_unlock(&memory->lock);
    if (stream->wrapped)
        ph__replays_wait_idle(memory, stream);
}

static void end_capture_of_memory(ph__attachment *attachment, uint64_t capture_id)
{
    ph__memory *memory = (ph__memory *)attachment;
    ph__dependency_walks_end_capture(memory, capture_id);
    if (ph__slow_path_has(memory, PH__SLOW_DEFERRED))
        ph__deferred_process(memory, capture_id);
}

/* Blocks of other allocators are none: they bound no copy. */
static bool find_allocation_of_device(ph__attachment *attachment, ph_allocation *out,
                                      const void *address)
{
    return ph__memory_find(out, ((ph__memory *)attachment)->device, address) && !out->foreign;
}

static ph__attachment *create_memory(ph_device *device)
{
    ph__memory *memory = ph__calloc(1, sizeof *memory);
    if (!memory)
        return NULL;
    memory->device = device;
    memory->driver = device->driver;
    memory->gone_last = &memory->gone;
    memory->spare = ph__stream_uses_create();
    if (!memory->spare || !ph__pool_init(&memory->default_pool, memory)) {
        ph__stream_uses_destroy(memory, memory->spare);
        ph__free(memory);
        return NULL;
    }
    pthread_mutex_init(&memory->reclaim_lock, NULL);
    atomic_init(&memory->slow_path_flags, device->options.debug_poison ? PH__SLOW_POISON : 0U);
    memory->attachment = (ph__attachment){.destroy = destroy_memory,
                                          .find = find_allocation_of_device,
                                          .before_capture = ph__replays_before_capture,
                                          .copy_captured = ph__copy_captured,
                                          .stream_destroyed = stream_destroyed,
                                          .capture_ended = end_capture_of_memory};
    (void)ph__memories_begin();
    ph__set_slow_path(memory, PH__SLOW_SITES, ph__sites_wanted());
    ph__set_slow_path(memory, PH__SLOW_BORN, ph__recordings != NULL);
    ph__memories_add(memory);
    ph__memories_end();
    return &memory->attachment;
}

ph__memory *ph__memory_attach(ph_device *device, const char *call)
{
    if (ph__device_check(device, call) != PH_OK)
        return NULL;
    ph__attachment *attachment = ph__device_attach(device, PH__ATTACH_MEMORY, create_memory);
    if (!attachment)
        (void)ph__fail_host_memory(call, "the device's memory state");
    return (ph__memory *)attachment;
}
