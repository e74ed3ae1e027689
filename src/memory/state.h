/* SPDX-License-Identifier: MIT */
/* memory/state.h: what the files of the memory layer share: the state that hangs on a device,
 * its pools, and what hangs on segments and blocks. Nobody outside this layer includes it. */
#ifndef PH_MEMORY_STATE_H
#define PH_MEMORY_STATE_H
#include "base/alloc.h"
#include "base/range_map.h"
#include "memory/account.h"
#include "memory/block/block.h"
#include "memory/memory.h"

typedef struct ph__memory ph__memory;
typedef struct ph__pinned ph__pinned;
typedef struct ph__walk ph__walk;
typedef struct ph__batch ph__batch;
typedef struct ph__history ph__history;

/* Who waits for work on streams, and for how much of it still. */
typedef struct ph__waiter {
    size_t left;
    bool leaves; /* memory that is given back (ph__batch), not a block (ph__uses) */
} ph__waiter;

/* A stream that uses a block beside the one that it was allocated on, or may use memory that is
 * given back. */
typedef struct ph__use {
    ph_stream *stream;    /* retained */
    uint64_t capture_id;  /* the use is captured work of this capture; 0: ordinary work */
    ph__drv_event *event; /* behind that work, once the block is freed; NULL: not recorded yet */
    struct ph__use *next; /* that waits for the same stream */
    ph__waiter *of;       /* from when it waits */
} ph__use;

typedef PH__VEC(ph__use) ph__use_list;

typedef enum ph__life {
    PH__LIVE,    /* in the caller's hands */
    PH__FREEING, /* a thread is freeing it just now, without the lock */
    /* freed; waits for captures to end, or for the captured graph to order its reuse */
    PH__DEFERRED,
    PH__PENDING, /* freed; waits for the events of its uses */
    PH__AWAITED, /* freed; a capture that is open may address it: born.c */
    PH__HELD     /* freed; in no list, until the last graph that addresses it goes */
} ph__life;

/* What hangs on a block (of either kind) that other streams use, from the first such use on. */
typedef struct ph__uses {
    ph__waiter waiter;                /* first */
    struct ph__uses *next, *previous; /* in the deferred list, or in a walk */
    struct ph__uses *beside;          /* in a walk, which waits for the same node */
    ph_pool *pool;
    ph__block *block; /* one of the two */
    ph__pinned *pinned;
    ph__life life;
    bool ordered;   /* a captured graph orders its reuse: no other capture is waited for */
    size_t holders; /* graphs that address it, and keep it from reuse */
    ph__use_list list, later; /* later: what comes while those of the list are waited for */
    /* the markers are the ends of all involved streams when it was freed, in this capture */
    uint64_t marker_capture;
    PH__VEC(ph__drv_node *) markers;
} ph__uses;

/* ph__block.user holds a ph__uses * and, in its low bits, how many trackers the block has (15:
 * that many or more, for good). Thus tracking needs no memory, and a plain block has NULL. */
#define PH__TRACKED ((uintptr_t)15)
static inline ph__uses *ph__block_uses(const ph__block *block)
{
    return (ph__uses *)((uintptr_t)block->user & ~PH__TRACKED);
}
static inline bool ph__block_is_live(const ph__block *block)
{
    const ph__uses *uses = ph__block_uses(block);
    return !uses || uses->life == PH__LIVE;
}
static inline void ph__block_set_uses(ph__block *block, ph__uses *uses)
{
    block->user = (void *)((uintptr_t)uses | ((uintptr_t)block->user & PH__TRACKED));
}

/* The memory of a segment, which the block core knows as numbers. */
typedef struct ph__mseg {
    ph_pool *pool;
    ph_stream *stream; /* retained */
    uintptr_t address;
    size_t size;
    bool small;
    bool captured; /* a capture was given blocks of it: replays write it, whatever the core says */
    ph__segment *segment;
    struct ph__mseg *next;                        /* in a batch */
    struct ph__mseg *previous_there, *next_there; /* of the same stream, while it is in a heap */
    struct ph__mseg *previous_due, *next_due;     /* to be looked at: see leaving.c */
    bool due;
} ph__mseg;

/* A pinned block: a power of two, with an allocation of its own at the driver. */
struct ph__pinned {
    uintptr_t address;
    size_t size, requested;
    unsigned size_class;
    uint64_t generation, capture_id; /* the capture that it was handed out in */
    uint64_t calls;                  /* of the device's captured_calls then */
    ph_stream *stream;               /* retained; NULL once its end is known to the uses */
    ph_pool *pool;
    ph__uses *uses;
    unsigned trackers;
    bool free, freed_by_user;   /* in a free list; freed, but waiting */
    bool held_for_good;         /* it could not be noted who holds it: until the device is closed */
    PH__VEC(ph_pool *) holders; /* pools whose captures read it; each is kept */
    ph__pinned *next;           /* in a free list, the held list or a batch */
    ph__pinned *previous;       /* in a free list */
};
enum {
    PH__PINNED_CLASSES = 48
};

typedef enum ph__recording {
    PH__IDLE,
    PH__IN_SCOPE,
    PH__IN_CAPTURE
} ph__recording;

/* Where a stream's work ended. */
typedef struct ph__mark {
    uint64_t stream;
    ph__drv_event *event;
} ph__mark;

typedef struct ph__span {
    uintptr_t base;
    size_t size;
} ph__span;

/* use_count counts handles, captures and scopes; keeps counts what the object itself must
 * outlive: segments, pinned blocks, code in progress. The object goes when both are 0. */
struct ph_pool {
    /* What every replay looks at stands together. */
    ph__mutex replay_lock;
    bool replay_marked;
    ph_stream *last_replay; /* retained */
    _Atomic uint64_t epoch;
    PH__VEC(ph__mark)
    before; /* what the next replay comes behind: eager work on memory that captures were given */
    ph__drv_event *replayed;              /* recorded behind the last replay when replay_marked */
    ph_pool *previous_there, *next_there; /* of those that were last replayed on the same stream */
    bool behind;                          /* it is among those that an event is recorded behind */

    ph__memory *memory;
    ph_device *device;        /* retained while use_count > 0; not by the default pool */
    ph_pool *previous, *next; /* next: also in the list of those that have gone */
    /* its user has it from a graph or an address, and may have it still when it has gone */
    bool told;
    ph_pool *previous_due, *next_due; /* all of it is to be looked at: see leaving.c */
    bool due;
    uint64_t begun; /* the number of the capture that records into it, rising */
    ph__heap *heap;
    ph__heap_options heap_options;
    ph_pool_id id;
    ph_pool_options options;
    size_t use_count, keeps;
    size_t graphs; /* of use_count: captures that have not been released */
    size_t reserved, waiting;
    bool trim_wanted; /* asked for while a capture was open */
    ph__account account;

    ph__recording recording;
    ph_pool *outer_scope; /* the scope that this pool's one was opened in */
    ph_pool *next_route;  /* in the list of published captures */
    /* in the list of captures that are open or whose graph is being read */
    ph_pool *next_recording;
    uint64_t born_from;   /* later allocations, of any device, have a later generation */
    uint64_t born_handed; /* what ph__handed gave then */
    uint32_t worker;      /* the thread that worked on it last; at first the one that began it */
    /* all of them: those that allocate in it, or use blocks in it, too */
    PH__VEC(uint32_t) workers;
    /* of them, the blocks of device memory that the capture itself was given */
    uint64_t noted;
    uint64_t capture_id; /* published; 0: none */
    PH__VEC(ph__span) given;
    size_t given_merged; /* of them, at the last merge */
    ph__layout layout;   /* of the open capture */
    ph__script *script;  /* NULL: none; under the lock */
    ph__walk *walks;

    ph__pinned *pinned_free[PH__PINNED_CLASSES];
    ph__pinned *parked; /* freed ones of any pool, held because graphs hold this one */
};

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

/* ---- attach.c ---- */
ph__memory *ph__memory_attach(ph_device *device, const char *call); /* NULL with the record set */
static inline ph__memory *ph__memory_of(const ph_device *device)
{
    return (ph__memory *)ph__device_attached(device, PH__ATTACH_MEMORY);
}
/* The memory that address belongs to, of any device of the process, with the device retained;
 * NULL: none. */
ph__memory *ph__memory_of_address(uintptr_t address);
bool ph__pool_is_there(const ph_pool *pool); /* of any device of the process. No lock held */
/* The first memory of the process, by next_memory; no other one comes or goes until end. lock:
 * with the locks of all of them taken, too; no lock of a memory is held, and none is taken
 * meanwhile. */
ph__memory *ph__memories_begin(void);
void ph__memories_end(void);
ph__memory *ph__memories_lock(void);
void ph__memories_unlock(void);
/* its device; false: that is on its way out */
bool ph__memory_try_retain(const ph__memory *memory);
/* In a child of fork(): whether it is memory of a device that the parent opened, which freeing
 * leaves alone. */
bool ph__memory_is_forked(uintptr_t address);
bool ph__pool_is_forked(const ph_pool *pool);    /* likewise */
void ph__memory_see_all(unsigned flag, bool on); /* in all memories of the process. No lock held */

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

/* ---- allocator.c ---- all with the lock held */
uint64_t ph__generation_chunk(void);
static inline uint64_t ph__next_generation(ph__memory *memory)
{
    if (memory->generation == memory->generation_end) {
        uint64_t chunk = ph__generation_chunk();
        memory->skipped += chunk - memory->generation;
        memory->generation = chunk;
        memory->generation_end = memory->generation + ((uint64_t)1 << 20);
    }
    return memory->generation++;
}
/* How many it has given. */
static inline uint64_t ph__handed(const ph__memory *memory)
{
    return memory->generation - memory->skipped;
}
/* The block in use that address is in, live or waiting. */
ph__block *ph__memory_block(const ph__memory *memory, uintptr_t address);
static inline void ph__hull_widen(struct ph__hull *hull, uintptr_t address, size_t size)
{
    uintptr_t highest = atomic_load_explicit(&hull->highest, memory_order_relaxed);
    if (highest == 0 || address < atomic_load_explicit(&hull->lowest, memory_order_relaxed))
        atomic_store_explicit(&hull->lowest, address, memory_order_relaxed);
    if (address + size > highest)
        atomic_store_explicit(&hull->highest, address + size, memory_order_release);
}
/* False: nothing of the memory was ever there. */
static inline bool ph__hull_has(const struct ph__hull *hull, uintptr_t address)
{
    return address < atomic_load_explicit(&hull->highest, memory_order_acquire) &&
           address >= atomic_load_explicit(&hull->lowest, memory_order_relaxed);
}
static inline bool ph__memory_may_have(const ph__memory *memory, uintptr_t address)
{
    return ph__hull_has(&memory->device_hull, address) ||
           ph__hull_has(&memory->pinned_hull, address);
}
static inline ph__mseg *ph__mseg_of(const ph__block *block)
{
    return block->segment->user;
}
/* What was decided about a request. */
typedef struct ph__request {
    size_t bytes, rounded;
    ph_stream *stream;
    ph_pool *pool;
    uint64_t capture_id; /* of the pool's capture; 0: not for one */
    const char *call;
} ph__request;
/* Takes a cached block, counts it and gives it a generation. NULL: none, or *no_memory. */
ph__block *ph__memory_take(ph__memory *memory, const ph__request *request, bool *no_memory);
/* Counts a block just taken, from wherever. */
void ph__memory_hand_out(ph__memory *memory, ph_pool *pool, ph__block *block);
/* The block leaves the caller's hands: counted, trackers told, history. It is active until
 * given. */
void ph__memory_retire(ph__memory *memory, ph__block *block, ph_stream *stream);
/* Gives an active block back to its heap; the record of uses is the caller's. */
void ph__memory_give(ph__memory *memory, ph__block *block);

/* ---- track.c ---- a tracked allocation has left the caller's hands. Lock held; allocates and
 * frees nothing. */
void ph__track_died(ph__memory *memory, uint64_t generation);
void ph__watchers_free(ph__memory *memory);

/* ---- sites.c ---- where what was just allocated, or is about to be freed, has that done to it:
 * on the calling thread, which has called the library. No lock held. forget: of the device,
 * which goes. */
void ph__sites_allocated(ph__memory *memory, const void *address);
void ph__sites_freeing(ph__memory *memory, const void *address);
void ph__sites_forget(const ph__memory *memory);
bool ph__sites_wanted(void);

/* ---- free.c ---- false: the pointer is no live block. No lock held. */
bool ph__free_slow(ph__memory *memory, void *pointer, ph_stream *stream);

/* ---- provider.c ---- does not set the error record, but for what a pool's own function sets */
typedef enum ph__growth_kind {
    PH__GREW,
    PH__NO_HOST_MEMORY,
    PH__NO_DEVICE_MEMORY, /* the driver's, or a pool's own source */
    PH__AT_DEVICE_LIMIT,
    PH__AT_POOL_LIMIT,
    PH__TOO_LARGE,
    PH__DRIVER_FAILED,
    PH__SOURCE_MISALIGNED,
    PH__SOURCE_TAKEN,   /* it gave memory that the allocator has */
    PH__SOURCE_RECURSES /* the pool's own function asks for memory of the pool */
} ph__growth_kind;
typedef struct ph__growth {
    ph__growth_kind kind;
    int result;       /* the driver's number */
    ph_status source; /* what the pool's own function returned; PH_OK when it has none */
    size_t segment_bytes;
} ph__growth;
/* Gets a segment for the request and takes the block. No lock held. */
ph__block *ph__grow(ph__growth *growth, ph__memory *memory, const ph__request *request);
/* Gives memory back that is in no heap any more, and drops the record. No lock held. */
void ph__mseg_destroy(ph__memory *memory, ph__mseg *segment);

/* ---- miss.c ---- */
ph_status ph__malloc_slow(void **out, ph__memory *memory, ph__request *request);

/* ---- routing.c ---- */
ph_status ph__fail_busy(const char *call, const ph_pool *pool, ph__recording by);
/* fills in pool and capture_id. No lock held. */
ph_status ph__route(ph__memory *memory, ph__request *request);
/* always, when the request is over */
void ph__unroute(ph__memory *memory, const ph__request *request);
/* Remembers that the capture of the pool was given the block. false: no host memory. Lock held. */
bool ph__given_reserve(ph_pool *pool);
void ph__given_note(ph_pool *pool, uint64_t capture_id, const ph__block *block);
ph_pool *ph__scope_innermost(const ph__memory *memory);

/* ---- script.c ---- note, find: with the lock held; the others without it. take: false when the
 * pool has no script, or no block in it fits; address 0: anywhere. find, knows: of blocks that a
 * script has given; knows costs one load where there is none. free: false for blocks that no
 * script is about. */
void ph__layout_note(ph_pool *pool, uint64_t capture_id, const ph__placing *placing);
bool ph__script_take(void **out, ph__memory *memory, const ph__request *request, uintptr_t address,
                     bool pinned);
bool ph__script_find(ph_allocation *out, const ph__memory *memory, uintptr_t address);
bool ph__script_free(ph__memory *memory, const void *pointer);
bool ph__script_knows(ph__memory *memory, const void *pointer);

/* ---- pool.c ---- */
bool ph__pool_init(ph_pool *pool, ph__memory *memory);
/* With the lock held; the object may be gone afterwards: *dead is then to be passed to
 * ph__pool_bury, without the lock. */
void ph__pool_unkeep(ph_pool *pool, ph_pool **dead);
void ph__pool_bury(ph_pool *dead); /* takes NULL */
/* of dead ones, but for the newest; no lock held */
void ph__pools_forget(ph__memory *memory, size_t kept);
void ph__pool_hold(ph_pool *pool); /* with the lock held; drop: without it */
void ph__pool_drop(ph_pool *pool, bool graph);

/* ---- events.c ---- no lock held, none of these touches the error record */
/* Records an event behind the work of the stream so far. NULL: not now, because a capture is
 * open or the driver failed; try again later. *failure: the driver's number where one failed,
 * else as it was. */
ph__drv_event *ph__mark_stream(ph__memory *memory, ph_stream *stream, int *failure);
/* an idle event; NULL: none to be had */
ph__drv_event *ph__mark_take(ph__memory *memory, int *failure);
/* True when the event's work is done. wait: blocks until then. */
bool ph__mark_done(ph__memory *memory, ph__drv_event *event, bool wait, int *failure);
void ph__mark_recycle(ph__memory *memory, ph__drv_event *event); /* takes NULL */
/* the lock is held */
static inline void ph__mark_recycle_locked(ph__memory *memory, ph__drv_event *event)
{
    if (event)
        memory->events.at[memory->events.count++] = event;
}

/* ---- uses.c ---- */
ph__uses *ph__uses_create(void);                           /* NULL: no memory */
void ph__uses_destroy(ph__memory *memory, ph__uses *uses); /* no lock held; takes NULL */
/* Adds a use, once per stream and capture; false when out of memory. The first two never fail. */
bool ph__uses_add(ph__uses *uses, ph_stream *stream, uint64_t capture_id);
/* A freed block whose record is in no list: waits as long as it must. freed_on may be NULL. No
 * lock held. */
void ph__uses_defer(ph__memory *memory, ph__uses *uses, ph_stream *freed_on);
/* Turns deferred blocks into pending ones, or gives them back, as far as the open captures allow;
 * capture_id: this one has ended. No lock held. */
void ph__deferred_process(ph__memory *memory, uint64_t capture_id);
/* Gives back a block of either kind whose uses are over, and destroys the record. No lock held. */
void ph__uses_finish(ph__memory *memory, ph__uses *uses);

/* Those of a freed block that no list has: waits for them, or is at once as finished. No lock
 * held. */
void ph__uses_wait(ph__memory *memory, ph__uses *uses);
void ph__waiting_count(ph__memory *memory, ph_pool *pool, bool waits); /* lock held */

/* ---- recordings.c ---- recordings: read with the lock of any memory held, changed with those of
 * all. begin: a capture into the pool is about to begin, locks of all held. end: its graph has been
 * read, or there is none; no lock held; gives the memories, whose devices are retained, that settle
 * (born.c) then does for what was freed meanwhile, without a lock. handed_out: something is, with
 * PH__SEE_BORN; lock held. */
extern ph_pool *ph__recordings;
void ph__born_begin(ph_pool *pool, ph__memory *all);
ph__memory *ph__born_end(ph_pool *pool);
void ph__born_handed_out(ph__memory *memory);
void ph__born_settle(ph__memory *unsettled);

/* ---- born.c ---- awaits: lock held, a capture is open since before the block was allocated,
 * other than the one that was given it. keeps: so that the block, which is being freed, stays
 * out of reuse until it has ended; where a thread that captures nothing gives up its own, it is
 * noted instead and may be used again. wait: a retired block without uses does, lock held; it
 * needs no memory. withhold: the freed block, whose uses are over, must stay out of reuse; it is
 * taken care of. */
bool ph__born_awaits(const ph__block *block);
bool ph__born_keeps(ph__memory *memory, const ph__block *block);
bool ph__born_withhold(ph__memory *memory, ph__uses *uses);
void ph__born_wait(ph__memory *memory, ph__block *block);

/* ---- released.c ---- lock held. work: the calling thread works on the pool's capture, or the
 * one of that id; works: the thread does. thread: ph__block.thread of what the calling thread
 * allocates. is_captured_work: a thread that works on a capture which may address the block
 * allocated it or frees it. note: false without host memory; what overlaps is noted as one, as
 * nobody can tell which of them a node addresses. find: by any address; NULL: nothing was noted
 * of it; its value is the last generation. take: out of its heap, if nobody has any of it and
 * there is host memory, else NULL. avoid: the block, just taken from the pool's heap, is not for
 * the calling thread, which works on a capture: some of it was noted; it waits for the captures'
 * ends. */
uint32_t ph__born_thread(void);
void ph__born_work(ph_pool *pool);
void ph__born_work_on(ph__memory *memory, uint64_t capture_id);
void ph__born_no_work(ph_pool *pool); /* nobody works on it yet */
bool ph__born_works(const ph_pool *pool, uint32_t thread);
bool ph__born_is_captured_work(const ph__block *block);
bool ph__released_note(ph__memory *memory, const ph__block *block);
void ph__released_forget(ph__memory *memory);
const ph__range *ph__released_find(const ph__memory *memory, uintptr_t address);
ph__block *ph__released_take(ph__memory *memory, const ph__range *released);
bool ph__released_avoid(ph__memory *memory, ph_pool *pool, ph__block *block);

/* ---- poison.c ---- fills a freed block in stream order, where that is safe. No lock held. */
void ph__poison(ph__memory *memory, const ph__block *block);
/* Says it to the log when one failed. No lock held. */
void ph__poison_report(ph__memory *memory);

/* ---- reach.c ---- */
/* Notes the ends of the streams involved in a block that is being freed; false: it must wait. No
 * lock held. */
bool ph__reach_mark(ph__memory *memory, ph__uses *uses, ph_stream *freed_on);
/* Gives back the deferred blocks of the request's stream that its next node is ordered behind. */
void ph__reach_reclaim(ph__memory *memory, const ph__request *request);
/* The freed block waits for the captured graph instead of the capture's end; false: it cannot.
 * Lock held. */
bool ph__reach_wait(ph__memory *memory, ph__uses *uses);
/* The pool's capture is over: what waited for its graph is deferred. Lock held. Gives what is to
 * be freed without it. */
ph__walk *ph__walks_end(ph__memory *memory, ph_pool *pool);
void ph__walks_free(ph__walk *walk);
/* the same, by the capture. No lock held */
void ph__capture_walks_end(ph__memory *memory, uint64_t capture_id);

/* ---- waits.c ---- what waits for work on streams, in a line for each stream, in which only the
 * first is asked for. Each use has its stream; the events are recorded here. No lock held. */
void ph__waits_begin(ph__memory *memory, ph__waiter *waiter, ph__use *uses, size_t count,
                     int *failure);
/* Finishes what waits no more: blocks are given back, memory that leaves is put into *done.
 * settling held, no capture open. */
void ph__waits_process(ph__memory *memory, bool wait, int *failure, ph__batch **done);

/* ---- leaving.c ---- what may leave, and memory on its way. The due ones: lock held, at every
 * change by which something may leave from then on. */
typedef enum ph__trim {
    PH__TRIM_ABANDONED, /* what no one can allocate from any more */
    PH__TRIM_CACHED     /* and the default pool, and one more */
} ph__trim;
void ph__pool_due(ph_pool *pool);
void ph__pool_not_due(ph_pool *pool);
void ph__mseg_due(ph__memory *memory, ph__mseg *mseg);
void ph__mseg_link(ph__mseg *mseg); /* it is in a heap now, of which it goes without a call */
void ph__mseg_unlink(ph__memory *memory, ph__mseg *mseg);
void ph__stream_segments_due(ph__memory *memory, ph_stream *stream);
/* Takes what may leave out of the heaps, which then waits. settling held, not the lock. false:
 * no host memory. */
bool ph__leave(ph__memory *memory, ph__trim what, ph_pool *extra, int *failure, ph__batch **done);
void ph__batch_done(ph__memory *memory, ph__waiter *waiter, ph__batch **done); /* settling held */
void ph__give_back(ph__memory *memory, ph__batch *done); /* takes NULL. No lock held */
void ph__batches_destroy(ph__memory *memory);            /* at the end: nothing runs any more */

/* ---- settle.c ---- giving memory back */
/* What is due, without waiting: nothing while a capture is open, or when another thread is at
 * it. */
void ph__memory_process(ph__memory *memory);
/* The same, but waits for the other thread and looks once more. false: nothing is due, or a
 * capture is open. */
bool ph__memory_process_all(ph__memory *memory);
/* Waits for all work that used it. No capture may be open. Gives the driver's number where one
 * failed: what that was about goes back at a later chance. */
int ph__memory_trim_now(ph__memory *memory, ph__trim what, ph_pool *extra);
/* Does what is due now, or when the last open capture has ended. cached: everything that
 * ph_memory_trim gives. */
int ph__memory_sweep(ph__memory *memory, bool cached);
ph_status ph__trim_status(int result, const char *call); /* of the two */

void ph__mseg_close(ph__memory *memory, ph__mseg *mseg); /* at the end: without accounts */

/* ---- pinned.c ---- */
ph__pinned *ph__pinned_find(const ph__memory *memory,
                            /* lock held: live, and interior too */
                            uintptr_t address);
void ph__pinned_give(ph__pinned *block); /* lock held; its stream has been released */
/* lock held: out of its free list, as if freed by the user and waiting */
void ph__pinned_unfree(ph__pinned *block);
/* back to the driver. No lock held */
void ph__pinned_destroy(ph__memory *memory, ph__pinned *block);
/* lock held: all free ones, a list */
ph__pinned *ph__pinned_collect(ph_pool *pool);
void ph__pinned_close(ph__memory *memory); /* at the end: all of them */

/* ---- held.c ---- */
/* A block that the user has freed waits for its readers. No lock held. */
void ph__pinned_hold(ph__memory *memory, ph__pinned *block);
/* The record of uses, made when there is none; NULL: no host memory. For who has freed the
 * block, or has the lock. */
ph__uses *ph__pinned_uses(ph__pinned *block);
void ph__pinned_unpark(ph_pool *pool);     /* no graph holds it any more. Lock held */
void ph__held_process(ph__memory *memory); /* lets go what only dead pools held. settling held */
void ph__copy_captured(ph__attachment *attachment, uint64_t capture_id, const void *dst,
                       const void *src);

/* ---- replay.c ---- */
ph_status ph__replays_before_capture(ph__attachment *attachment, ph_stream *stream);
/* Whoever used the handle of a stream under a pool's replay lock is done with it. */
void ph__replays_settle(ph__memory *memory, ph_stream *stream);
/* Orders the stream behind the replays from the pool so far: eager work is given memory that
 * they write. */
ph_status ph__replays_before_use(ph_pool *pool, ph_stream *stream, const char *call);

/* ---- streams.c ---- what memory must not leave before: each pool's last replay, also when the
 * pool has gone. Those without a remark: lock held. */
/* The pool's last replay is on the stream now. Gives how many references to *before are to be
 * released, without the lock. */
unsigned ph__pool_replayed_on(ph_pool *pool, ph_stream *stream, ph_stream **before);
/* an event stands behind it: the next capture need not look at the pool */
void ph__pool_replay_marked(ph_pool *pool);
/* The pool is going: what was last replayed behind it is remembered with the stream. */
void ph__pool_leave_replay(ph_pool *pool);
/* Forgets streams whose replays of gone pools are done. settling held, not the lock. */
void ph__left_process(ph__memory *memory, int *failure);
void ph__streams_close(ph__memory *memory); /* at the end: nothing runs any more. Not the lock */

/* ---- history.c ---- lock held; only with PH__SEE_HISTORY */
typedef enum ph__happening {
    PH__ALLOC,
    PH__FREE,
    PH__SEGMENT_ALLOC,
    PH__SEGMENT_FREE,
    PH__OOM
} ph__happening;
void ph__history_note(ph__memory *memory, ph__happening what, uintptr_t address, size_t size,
                      const ph_pool *pool, const ph_stream *stream, uint64_t generation);

static inline bool ph__sees(const ph__memory *memory, unsigned flags)
{
    return (atomic_load_explicit(&memory->attention, memory_order_acquire) & flags) != 0;
}
static inline bool ph__pool_is_default(const ph_pool *pool)
{
    return pool == &pool->memory->default_pool;
}
#endif
