/* SPDX-License-Identifier: MIT */
/* memory/reclaim/reclaim.c: memory that goes back to the device, once all work that used it is
 * done. */
#include "memory/reclaim/reclaim.h"
#include "device/handles/captures.h"
#include "memory/reclaim/batches.h"
#include "memory/reclaim/leaving.h"
#include "memory/reclaim/pinned_holders.h"
#include "memory/state/memory_state.h"
#include "memory/state/short_cycle.h"
#include "memory/streams/deferred.h"
#include "memory/streams/replay_streams.h"
#include "memory/streams/waits.h"

/* reclaim_lock held, and given back. */
static void reclaim_and_unlock(ph__memory *memory)
{
    ph__leaving_batch *done = NULL;
    int later = PH__R_OK; /* a failure here is tried again at the next opportunity */
    if (ph__slow_path_has(memory, PH__SLOW_RECLAIM))
        ph__held_process(memory);
    if (ph__slow_path_has(memory, PH__SLOW_DEFERRED))
        ph__deferred_process(memory, 0);
    if (ph__slow_path_has(memory, PH__SLOW_PENDING))
        ph__waits_process(memory, false, &later, &done);
    if (ph__slow_path_has(memory, PH__SLOW_RECLAIM)) {
        (void)ph__leave(memory, PH__TRIM_ABANDONED, NULL, &later, &done);
        ph__waits_process(memory, false, &later, &done);
        ph__left_process(memory, &later);
    }
    pthread_mutex_unlock(&memory->reclaim_lock);
    ph__give_back(memory, done, true);
}

static bool may_reclaim(const ph__memory *memory)
{
    return ph__slow_path_has(memory, PH__SLOW_PENDING | PH__SLOW_DEFERRED | PH__SLOW_RECLAIM) &&
           !ph__capturing(memory);
}

void ph__memory_reclaim(ph__memory *memory)
{
    if (may_reclaim(memory) && pthread_mutex_trylock(&memory->reclaim_lock) == 0)
        reclaim_and_unlock(memory);
}

bool ph__memory_reclaim_all(ph__memory *memory)
{
    if (!may_reclaim(memory))
        return false;
    pthread_mutex_lock(&memory->reclaim_lock);
    reclaim_and_unlock(memory);
    return true;
}

int ph__memory_trim_now(ph__memory *memory, ph__trim what, ph_pool *extra)
{
    int failure = PH__R_OK;
    ph__leaving_batch *done = NULL;
    pthread_mutex_lock(&memory->reclaim_lock);
    ph__held_process(memory);
    ph__deferred_process(memory, 0);
    ph__waits_process(memory, true, &failure, &done);
    if (!ph__leave(memory, what, extra, &failure, &done))
        failure = PH__R_OUT_OF_MEMORY;
    ph__waits_process(memory, true, &failure, &done);
    ph__left_process(memory, &failure);
    pthread_mutex_unlock(&memory->reclaim_lock);
    ph__give_back(memory, done, false);
    return failure;
}

static void sweep_now(ph__deferred *item)
{
    ph__memory *memory = (ph__memory *)((char *)item - offsetof(ph__memory, sweep));
    ph__memory_lock(memory);
    bool cached = memory->sweep_cached;
    memory->sweep_deferred = memory->sweep_cached = false;
    ph__spin_unlock(&memory->lock);
    if (cached)
        (void)ph__memory_trim_now(memory, PH__TRIM_CACHED, NULL);
    else
        ph__memory_reclaim(memory);
}

int ph__memory_sweep(ph__memory *memory, bool cached)
{
    if (!ph__capturing(memory)) {
        if (cached)
            return ph__memory_trim_now(memory, PH__TRIM_CACHED, NULL);
        ph__memory_reclaim(memory);
        return PH__R_OK;
    }
    ph__memory_lock(memory);
    bool queued = memory->sweep_deferred;
    memory->sweep_deferred = true;
    memory->sweep_cached = memory->sweep_cached || cached;
    if (!queued)
        memory->sweep.fn = sweep_now;
    ph__spin_unlock(&memory->lock);
    if (!queued)
        ph__device_defer(memory->device, &memory->sweep);
    return PH__R_OK;
}

ph_status ph__trim_status(int result, const char *call)
{
    return ph__driver_fail(
        result, PH__NAME_EVENT_SYNCHRONIZE,
        "%s: waiting for the work that used the memory; what is left goes back at a later chance",
        call);
}

ph_status ph_memory_trim(ph_device *device)
{
    if (!device)
        return ph__fail_null("ph_memory_trim", "device");
    PH_TRY(ph__device_check(device, "ph_memory_trim"));
    ph__memory *memory = ph__memory_of(device);
    return memory ? ph__trim_status(ph__memory_sweep(memory, true), "ph_memory_trim") : PH_OK;
}
