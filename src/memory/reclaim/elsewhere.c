/* SPDX-License-Identifier: MIT */
/* memory/reclaim/elsewhere.c: memory of another device that a graph held and lets go. */
#include "memory/reclaim/elsewhere.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/map.h"
#include "base/vec.h"
#include "device/wrap_cuda.h"
#include "memory/reclaim/batches.h"
#include "memory/reclaim/reclaim.h"
#include "memory/state/memory_state.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"

static ph__leaving_batch *create_let_go(ph_device *device, const ph__map *held,
                                        ph_stream *const *streams, size_t count)
{
    ph__leaving_batch *batch = ph__calloc(1, sizeof *batch);
    if (!batch || !ph__vec_reserve(&batch->streams, count)) {
        ph__free(batch);
        return NULL;
    }
    for (size_t i = 0; i < count; i++)
        batch->streams.at[i] = (ph__use){.stream = ph__stream_retain(streams[i])};
    batch->streams.count = count;
    batch->elsewhere = ph_device_retain(device);
    batch->held = *held;
    return batch;
}

/* Without host memory the work is waited for. */
static bool wait_at_once(const ph__memory *memory, ph_stream *const *streams, size_t count)
{
    bool may = !ph__capturing(memory);
    for (size_t i = 0; i < count && may; i++)
        may = ph__stream_capture_id(streams[i]) == 0;
    for (size_t i = 0; i < count && may; i++)
        may = ph__stream_wait(streams[i]);
    return may;
}

void ph__memory_let_go_elsewhere(ph_device *own, ph_device *device, ph__map *held,
                                 ph_stream *const *streams, size_t count)
{
    ph__memory *memory = ph__memory_of(own);
    ph__leaving_batch *batch = count > 0 ? create_let_go(device, held, streams, count) : NULL;
    if (batch) {
        *held = (ph__map){0};
        ph__memory_lock(memory);
        batch->next = memory->let_go;
        memory->let_go = batch;
        ph__set_slow_path(memory, PH__SLOW_RECLAIM, true);
        ph__spin_unlock(&memory->lock);
        ph__memory_reclaim(memory);
        return;
    }
    if (count == 0 || wait_at_once(memory, streams, count)) {
        ph__held_release(device, held);
        return;
    }
    (void)ph_device_retain(device); /* stays open: replays may write its memory */
    ph__map_free(held);
    PH__LOG_ONCE(PH_LOG_WARNING,
                 "no host memory to remember the replays that use memory of device %s, which their "
                 "graph lets go of; the memory stays taken until the process ends; said once",
                 device->name);
}
