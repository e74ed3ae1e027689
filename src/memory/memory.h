/* SPDX-License-Identifier: MIT */
/* memory/memory.h: what the graph layer needs of pools and allocations. The public part is
 * phonograph/memory.h. */
#ifndef PH_MEMORY_MEMORY_H
#define PH_MEMORY_MEMORY_H
#include "base/map.h"
#include "device/device.h"
#include <phonograph/memory.h>

/* ---- capturing into a pool ---- in this order: record_begin (before the driver begins: refuses
 * a pool that is being recorded to, POOL_BUSY; WRONG_DEVICE), then publish with the capture's id
 * (from now on allocations on streams of that capture go to the pool; the device's capture_lock
 * may be held), then record_end, always, also after a failed capture (id 0: never published).
 * record_begin retains the pool for the graph; ph__pool_graph_release is the counterpart; it
 * never blocks. graph_retain: one more graph whose replays use the pool's memory. What captures
 * were given is not given back to the device while any graph holds the pool so. */
ph_status ph__pool_record_begin(ph_pool *pool, ph_device *device, const char *call);
void ph__pool_record_publish(ph_pool *pool, uint64_t capture_id);
void ph__pool_record_end(ph_pool *pool, uint64_t capture_id);
void ph__pool_graph_retain(ph_pool *pool);
void ph__pool_graph_release(ph_pool *pool); /* takes NULL */
/* A pool {n, 0}, as captures make for themselves. */
ph_status ph__pool_create_private(ph_pool **out, ph_device *device);
ph_device *ph__pool_device(const ph_pool *pool);
/* PH_OK, or ARGUMENT for NULL and for a handle of no pool that there is: for each call that a
 * user gives one. */
ph_status ph__pool_check(const ph_pool *pool, const char *call);
void ph__pool_tell(ph_pool *pool);           /* its user has the handle from now on; takes NULL */
ph_pool_id ph__pool_id(const ph_pool *pool); /* as ph_pool_get_id, of one that there is */

/* The address ranges that the capture was given out of the pool, freed ones included, merged and
 * sorted: what its replays may write. Call between the driver's end and record_end; *out is then
 * the caller's (ph__ranges_free). */
ph_status ph__pool_record_ranges(ph__ranges *out, ph_pool *pool, uint64_t capture_id);

/* Ends the pool's scope of the calling thread, also where it is not the innermost. */
void ph__pool_leave(ph_pool *pool);

/* ---- layouts ---- the blocks that a capture was given, device and pinned, in the order in
 * which it asked. take: as record_ranges, between the driver's end and record_end; *out is the
 * caller's. lost: not all of them, for want of host memory. */
typedef struct ph__placing {
    uint64_t stream;
    uintptr_t address;
    size_t requested, size;
    uint64_t generation;
    bool pinned;
} ph__placing;
typedef struct ph__layout {
    PH__VEC(ph__placing) list;
    bool lost;
} ph__layout;
void ph__pool_take_layout(ph__layout *out, ph_pool *pool, uint64_t capture_id);
void ph__layout_free(ph__layout *layout);
size_t ph__layout_bytes(const ph__layout *layout);             /* of the host, that it takes */
bool ph__layout_copy(ph__layout *out, const ph__layout *from); /* false: no host memory */
/* Whether its memory is still the graph's, which holds the pool: a pinned block that no copy
 * uses may have gone. */
bool ph__placing_is_there(const ph_device *device, const ph__placing *placing);

/* A script answers requests to `pool` with the blocks of a layout of `home`, in whose memory
 * they are: the next one that was asked for on the same stream (`from` stands for `to`) with the
 * same size, whoever may have it now. Such blocks are no allocations of the allocator: all calls
 * take them for live until they are freed, which changes nothing; freeing, on the thread that
 * began the script, what lies at an address of the layout is put off to the end. Where none
 * fits, the request is served as any. For work that is done once more while nobody uses that
 * memory. rewind: from the beginning again; skip_held: without the blocks that somebody still
 * has from the capture, as where the work asks for them the first time alone. missed: requests
 * since then that found none, and the bytes of the first; unused: blocks, but for those that are
 * held. end (takes NULL): what is left of the last run is an allocation of `home`, as far as
 * nobody has one there; false: of some it is none, for want of host memory. The graph of the
 * layout is held meanwhile. */
typedef struct ph__script ph__script;
ph_status ph__script_begin(ph__script **out, ph_pool *pool, ph_pool *home, const ph__layout *layout,
                           uint64_t from, uint64_t to, const char *call);
void ph__script_rewind(ph__script *script, bool skip_held);
size_t ph__script_missed(size_t *bytes, const ph__script *script);
size_t ph__script_unused(const ph__script *script);
size_t ph__script_looked(const ph__script *script); /* at how many blocks its requests since then */
bool ph__script_end(ph__script *script);

/* A block of the default pool on the device's default stream, whatever captures and scopes are
 * open: freed as any other. */
ph_status ph__malloc_outside(void **out, ph_device *device, size_t bytes, const char *call);

/* ---- replays ---- begin orders the replay on `stream` behind earlier replays of graphs of the
 * pool on other streams and holds the pool's replay lock until end. end: launched says whether
 * the launch succeeded; gives the replay's epoch (0 if not launched). Several pools: begin in
 * ascending order of address. No driver call when the last replay was on the same stream. */
ph_status ph__pool_replay_begin(ph_pool *pool, ph_stream *stream);
uint64_t ph__pool_replay_end(ph_pool *pool, ph_stream *stream, bool launched);
uint64_t ph__pool_epoch(const ph_pool *pool);

/* ---- tracking ---- the live allocation (device or pinned) around an address. internal: in one
 * of the ranges of record_ranges. */
bool ph__memory_find(ph_allocation *out, const ph_device *device, const void *address);
/* The same for up to PH__FIND_MOST addresses at once, which takes less than one after another:
 * what has to be read for them lies far apart. base NULL: there is none. */
enum {
    PH__FIND_MOST = 32
};
void ph__memory_find_all(ph_allocation *out, const ph_device *device, const uintptr_t *addresses,
                         size_t count);
/* Where all lies that the allocator took from the driver, of the device and of pinned memory,
 * which are far apart on a GPU: for looking at many addresses. From lowest up to, without,
 * highest; both 0: there is none. */
typedef struct ph__hulls {
    struct {
        uintptr_t lowest, highest;
    } device, pinned;
} ph__hulls;
void ph__memory_hulls(ph__hulls *out, const ph_device *device);
static inline bool ph__hulls_have(const ph__hulls *hulls, uintptr_t address)
{
    return address - hulls->device.lowest < hulls->device.highest - hulls->device.lowest ||
           address - hulls->pinned.lowest < hulls->pinned.highest - hulls->pinned.lowest;
}
ph_status ph__fail_not_live(const char *call, const void *address, const ph_device *device);
/* Whether the address is in memory that the allocator took from the driver, in use or not. */
bool ph__memory_is_taken(const ph_device *device, const void *address);
bool ph__memory_taken_by(ph_pool_id *out, const ph_device *device,
                         const void *address); /* by the pool of that id */
/* Marks the allocation: when it is freed, deaths() of the device grows, and so does the count of
 * the watch, where one is given. untrack with the same generation and watch; a freed one is
 * ignored. A watch must outlive what is tracked with it. */
typedef struct ph__watch {
    _Atomic uint64_t deaths;
} ph__watch;
typedef enum ph__tracking {
    PH__TRACK_GONE = 0, /* not that allocation any more */
    PH__TRACKS = 1,
    PH__TRACK_NO_MEMORY = 2
} ph__tracking;
ph__tracking ph__memory_track(ph_device *device, const void *base, uint64_t generation,
                              ph__watch *watch);
void ph__memory_untrack(ph_device *device, const void *base, uint64_t generation, ph__watch *watch);
uint64_t ph__memory_deaths(const ph_device *device); /* one atomic load */
bool ph__memory_is_live(const ph_device *device, const void *base, uint64_t generation);

/* ---- memory that was allocated while a capture was open ---- of the pool's capture, from
 * record_begin to record_end; of what that was given from the pool, pinned memory alone is.
 * births: the devices, of all of the process, that have such memory, and where it can lie
 * (borrowed until record_end; free with ph__vec_free; false: no host memory). find_born: of such
 * a device, the allocation around the address is such memory, in use or freed: what was freed
 * meanwhile waits until record_end, or is taken again where a thread that captured nothing had
 * freed it. hold: it is not used again, and not given back to the device, until let_go, as
 * often; streams: those of its own device on which work of the holder may still use it. hold is
 * PH__TRACK_GONE where that allocation is not there any more. */
typedef struct ph__born {
    ph_device *device; /* borrowed */
    const void *base;
    uint64_t generation;
} ph__born;
typedef struct ph__birthplace {
    ph_device *device;
    ph__hulls hulls;
} ph__birthplace;
typedef PH__VEC(ph__birthplace) ph__births;
bool ph__pool_record_births(ph__births *out, ph_pool *pool);
/* The least generation that the capture may have been given; from record_begin to record_end. */
uint64_t ph__pool_record_from(const ph_pool *pool);
typedef enum ph__birth {
    PH__BORN_NONE,
    PH__BORN_HERE,
    PH__BORN_AGAIN /* it was, and the place is somebody else's now: nothing can be held */
} ph__birth;
ph__birth ph__memory_find_born(ph__born *out, ph_pool *pool, const ph_device *device,
                               uintptr_t address);
ph__tracking ph__memory_hold(const ph__born *born);
void ph__memory_let_go(const ph__born *born, ph_stream *const *streams, size_t count);
/* Lets go of all that a holder held of another device than its streams', which are of `own`: when
 * their work so far is done. Takes the map over (generation -> base), and leaves it empty. */
void ph__memory_let_go_elsewhere(ph_device *own, ph_device *device, ph__map *held,
                                 ph_stream *const *streams, size_t count);
/* Of what is around the address, in use, freed and waiting, or held; 0: nothing is. */
uint64_t ph__memory_generation_at(const ph_device *device, uintptr_t address);

/* Notes that a copy in a graph of the pool uses the pinned block around address, if there is
 * one: it is not reused while the pool lives, also when it is freed. The device layer's
 * copy_captured does this for each captured ph_memcpy as it is made. */
void ph__memory_pin_used(ph_pool *pool, const void *address);
/* Bytes of the pinned blocks that graphs of one of the pools keep from reuse so. holds: is this
 * pool among them? Called under a spinning lock. */
size_t ph__memory_pinned_held(const ph_device *device,
                              bool (*holds)(const void *user, const ph_pool *pool),
                              const void *user);
#endif
