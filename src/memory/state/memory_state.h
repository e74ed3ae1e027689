/* SPDX-License-Identifier: MIT */
/* memory/state/memory_state.h: the memory state of a device. */
#ifndef PH_MEMORY_STATE_MEMORY_STATE_H
#define PH_MEMORY_STATE_MEMORY_STATE_H
#include "base/map.h"
#include "base/range_map.h"
#include "device/handles/device.h"
#include "device/handles/stream.h"
#include "memory/state/announced.h"
#include "memory/state/freed.h"
#include "memory/state/pool_state.h"
#include "memory/state/segment.h"
#include "memory/state/stream_uses.h"

typedef struct ph__history ph__history;
typedef struct ph__plan_notes ph__plan_notes; /* plan/notes.h */

/* Reasons for a call to leave the short path. */
enum {
    PH__SLOW_SCOPES = 1,
    PH__SLOW_ROUTES = 2,
    PH__SLOW_PENDING = 4,
    PH__SLOW_DEFERRED = 8,
    PH__SLOW_RECLAIM = 16,
    PH__SLOW_HISTORY = 32,
    PH__SLOW_POISON = 64,
    PH__SLOW_SITES = 128,
    PH__SLOW_REPLAY_ALLOCATOR = 256,
    PH__SLOW_BORN = 512,
    PH__SLOW_PLAN = 1024
};

struct ph__memory {
    ph__attachment attachment; /* first */
    ph_device *device;         /* borrowed: the state is a part of it */
    const ph__driver *driver;
    atomic_uint slow_path_flags; /* PH__SLOW_*, changed under the lock */
    /* everything below that has no other lock; never held across driver or user code */
    ph__spinlock lock;
    /* The block that the heap of the default pool gave last, with nothing done to that heap since,
     * for a request of that rounded size and stream: see state/short_cycle.h. block NULL: none;
     * returned: it was freed, and is not back in the heap yet; known: the free parts that a return
     * adds and takes away were counted once. */
    struct ph__short_cycle {
        ph__block *block;
        uintptr_t address;
        size_t rounded;
        uint64_t stream;
        bool returned, known;
        ph__parts more, less;
    } cycle;
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
    ph__replay_allocator *replay_allocators;
    ph__plan_notes *plan_notes; /* of captures that are planned */
    ph__stream_uses *awaited;   /* see capture/born.c */
    ph__block *awaited_blocks;  /* awaited blocks without a record of uses, by their links */
    /* memory was allocated while a capture is open: the device is retained for that */
    bool born;
    bool to_reclaim; /* a thread is about to reclaim what waited here, by next_to_reclaim */
    ph__memory *next_to_reclaim;
    /* Blocks that went back to their heap while open captures might address them; value: the last
     * generation. */
    ph__range_map released;
    size_t released_kept; /* of them, after old ones were last dropped */
    ph__stream_uses *deferred;
    ph_stream *first_awaited, *last_awaited; /* streams that something waits for */
    size_t awaited_streams;
    ph_pool *due_pools;
    ph__mseg *due_segments;
    uint64_t begun;         /* captures */
    _Atomic uint64_t steps; /* how many things were examined one by one; for tests */
    /* streams that replays may be running on; of them, those with replays of pools that have
     * gone */
    ph_stream *replayed, *left;
    uint64_t round;         /* of counting streams; under `reclaim_lock` */
    ph__stream_uses *spare; /* one record kept for a free when there is no host memory */
    ph__range_map pinned;
    ph__pinned *held;
    ph__announcements announced;
    /* Everything that was ever in segments and pinned, or announced, lies in [lowest, highest) of
     * its own bounds: most words that are looked up are no addresses at all. They grow under the
     * lock, and are read without it: memory is handed out after that. */
    struct ph__address_bounds {
        atomic_uintptr_t lowest, highest;
    } device_bounds, pinned_bounds;
    _Atomic uint64_t free_count;
    ph__map watchers;     /* generation -> ph__watcher: see state/free_counter.c */
    ph__freed_list freed; /* for moments that are asked about later: observe/moment.h */
    ph__history *history;
    PH__VEC(ph__drv_event *) events; /* idle ones; capacity for all that exist */
    size_t event_count;

    /* the driver's number of a poisoning that failed, until it is said */
    atomic_int poison_failure;
    /* of who polls, waits and gives back: pending removals and batches; above `lock` */
    pthread_mutex_t reclaim_lock;
    /* batches that wait for streams, and batches whose streams are not known yet */
    ph__leaving_batch *batches, *unlisted;
    ph__leaving_batch *let_go; /* batches that are about to go; under the lock */
    /* the work that waits for the end of all captures; these two under the lock: */
    ph__deferred sweep;
    /* the sweep is in the device's queue; ph_memory_trim requested it */
    bool sweep_deferred, sweep_cached;
    ph__memory *next_memory; /* in the process's list */
};

static inline ph__memory *ph__memory_of(const ph_device *device)
{
    return (ph__memory *)ph__device_attached(device, PH__ATTACH_MEMORY);
}
static inline void ph__set_slow_path(ph__memory *memory, unsigned flag, bool on)
{
    unsigned old = atomic_load_explicit(&memory->slow_path_flags, memory_order_relaxed);
    atomic_store_explicit(&memory->slow_path_flags, on ? old | flag : old & ~flag,
                          memory_order_release);
}
static inline void ph__step(ph__memory *memory)
{
    atomic_fetch_add_explicit(&memory->steps, 1, memory_order_relaxed);
}
static inline bool ph__capturing(const ph__memory *memory)
{
    return atomic_load_explicit(&memory->device->open_captures, memory_order_acquire) != 0;
}

static inline bool ph__slow_path_has(const ph__memory *memory, unsigned flags)
{
    return (atomic_load_explicit(&memory->slow_path_flags, memory_order_acquire) & flags) != 0;
}
static inline bool ph__pool_is_default(const ph_pool *pool)
{
    return pool == &pool->memory->default_pool;
}
#endif
