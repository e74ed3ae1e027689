/* SPDX-License-Identifier: MIT */
/* memory/state/memory_state.h: the memory state of a device. */
#ifndef PH_MEMORY_STATE_MEMORY_STATE_H
#define PH_MEMORY_STATE_MEMORY_STATE_H
#include "base/map.h"
#include "base/range_map.h"
#include "device/device.h"
#include "memory/state/pool_state.h"
#include "memory/state/segment.h"
#include "memory/state/stream_uses.h"

typedef struct ph__history ph__history;

/* Reasons for a call to leave the short path. */
enum {
    PH__SEE_SCOPES = 1,
    PH__SEE_ROUTES = 2,
    PH__SEE_PENDING = 4,
    PH__SEE_DEFERRED = 8,
    PH__SEE_RETIRE = 16,
    PH__SEE_HISTORY = 32,
    PH__SEE_POISON = 64,
    PH__SEE_SITES = 128,
    PH__SEE_SCRIPT = 256,
    PH__SEE_BORN = 512
};

struct ph__memory {
    ph__attachment attachment; /* first */
    ph_device *device;         /* borrowed: the state is a part of it */
    const ph__driver *driver;
    atomic_uint attention; /* PH__SEE_*, changed under the lock */
    /* everything below that has no other lock; never held across driver or user code */
    ph__spinlock lock;
    uint64_t generation, generation_end;
    uint64_t skipped; /* generations that were not used, see ph__handed */
    ph_pool default_pool;
    ph__account account;
    ph__range_map segments; /* of all pools; values are ph__segment */
    /* all but the default one: their addresses, as handles that may have gone are looked up */
    ph__map pools;
    /* dead ones, which are nothing but an address that no other pool gets */
    ph_pool *gone, **gone_last;
    size_t gone_count;
    size_t reserved, limit;
    size_t scopes;
    ph_pool *routes;
    ph__script *scripts;
    ph__uses *awaited;         /* see born.c */
    ph__block *awaited_blocks; /* those without a record of uses, by their links */
    /* memory was allocated while a capture is open: the device is retained for that */
    bool born;
    bool unsettled; /* it is among those that a thread is about to settle, by next_unsettled */
    ph__memory *next_unsettled;
    /* What went back to its heap while captures are open that might address it: its generation. */
    ph__range_map released;
    size_t released_kept; /* of them, when it was last looked for old ones */
    ph__uses *deferred;
    ph_stream *first_awaited, *last_awaited; /* streams that something waits for */
    size_t awaited_streams;
    ph_pool *due_pools;
    ph__mseg *due_segments;
    uint64_t begun;         /* captures */
    _Atomic uint64_t steps; /* how many things were looked at one by one; for tests */
    /* streams that replays may be running on; of them, those with replays of pools that have
     * gone */
    ph_stream *replayed, *left;
    uint64_t round;  /* of counting streams; under `settling` */
    ph__uses *spare; /* one record kept for a free when there is no host memory */
    ph__range_map pinned;
    ph__pinned *held;
    /* All that segments and pinned has ever been lies in [lowest, highest) of its own hull: most
     * words that are looked up are no addresses at all. They grow under the lock, and are read
     * without it: memory is handed out after that. */
    struct ph__hull {
        atomic_uintptr_t lowest, highest;
    } device_hull, pinned_hull;
    _Atomic uint64_t deaths;
    ph__map watchers; /* generation -> ph__watcher: see track.c */
    ph__history *history;
    PH__VEC(ph__drv_event *) events; /* idle ones; capacity for all that exist */
    size_t event_count;

    /* the driver's number of a poisoning that failed, until it is said */
    atomic_int poison_failure;
    pthread_mutex_t
        settling; /* who polls, waits and gives back: pending removals and batches; above `lock` */
    /* that wait for streams; for which streams has not been found out */
    ph__batch *batches, *unlisted;
    ph__batch *let_go; /* that are about to; under the lock */
    /* what waits for the end of all captures; these two under the lock: */
    ph__deferred sweep;
    /* it is in the device's queue; ph_memory_trim asked for it */
    bool sweep_deferred, sweep_cached;
    ph__memory *next_memory; /* in the process's list */
};

static inline ph__memory *ph__memory_of(const ph_device *device)
{
    return (ph__memory *)ph__device_attached(device, PH__ATTACH_MEMORY);
}
static inline void ph__see(ph__memory *memory, unsigned flag, bool on)
{
    unsigned old = atomic_load_explicit(&memory->attention, memory_order_relaxed);
    atomic_store_explicit(&memory->attention, on ? old | flag : old & ~flag, memory_order_release);
}
static inline void ph__step(ph__memory *memory)
{
    atomic_fetch_add_explicit(&memory->steps, 1, memory_order_relaxed);
}
static inline bool ph__capturing(const ph__memory *memory)
{
    return atomic_load_explicit(&memory->device->open_captures, memory_order_acquire) != 0;
}

static inline bool ph__sees(const ph__memory *memory, unsigned flags)
{
    return (atomic_load_explicit(&memory->attention, memory_order_acquire) & flags) != 0;
}
static inline bool ph__pool_is_default(const ph_pool *pool)
{
    return pool == &pool->memory->default_pool;
}
#endif
