/* SPDX-License-Identifier: MIT */
/* memory/memory.h: what the graph layer needs of pools and allocations. The public part is phonograph/memory.h. */
#ifndef PH_MEMORY_MEMORY_H
#define PH_MEMORY_MEMORY_H
#include "base/map.h"
#include "device/device.h"
#include <phonograph/memory.h>

/* ---- capturing into a pool ---- in this order: record_begin (before the driver begins: refuses a pool that is being recorded to,
 * POOL_BUSY; WRONG_DEVICE), then publish with the capture's id (from now on allocations on streams of that capture go to the pool), then
 * record_end, always, also after a failed capture (id 0: never published). record_begin retains the pool for the graph;
 * ph__pool_graph_release is the counterpart; it never blocks. graph_retain: one more graph whose replays use the pool's memory. What
 * captures were given is not given back to the device while any graph holds the pool so. */
ph_status ph__pool_record_begin(ph_pool *pool, ph_device *device, const char *call);
void ph__pool_record_publish(ph_pool *pool, uint64_t capture_id);
void ph__pool_record_end(ph_pool *pool, uint64_t capture_id);
void ph__pool_graph_retain(ph_pool *pool);
void ph__pool_graph_release(ph_pool *pool); /* takes NULL */
/* A pool {n, 0}, as captures make for themselves. */
ph_status ph__pool_create_private(ph_pool **out, ph_device *device);
ph_device *ph__pool_device(const ph_pool *pool);

/* The address ranges that the capture was given out of the pool, freed ones included, merged and sorted: what its replays may write.
 * Call between the driver's end and record_end; *out is then the caller's (ph__ranges_free). */
ph_status ph__pool_record_ranges(ph__ranges *out, ph_pool *pool, uint64_t capture_id);

/* A block of the default pool on the device's default stream, whatever captures and scopes are open: freed as any other. */
ph_status ph__malloc_outside(void **out, ph_device *device, size_t bytes, const char *call);

/* ---- replays ---- begin orders the replay on `stream` behind earlier replays of graphs of the pool on other streams and holds the pool's replay
 * lock until end. end: launched says whether the launch succeeded; gives the replay's epoch (0 if not launched). Several pools: begin in
 * ascending order of address. No driver call when the last replay was on the same stream. */
ph_status ph__pool_replay_begin(ph_pool *pool, ph_stream *stream);
uint64_t ph__pool_replay_end(ph_pool *pool, ph_stream *stream, bool launched);
uint64_t ph__pool_epoch(const ph_pool *pool);

/* ---- tracking ---- the live allocation (device or pinned) around an address. internal: in one of the ranges of record_ranges. */
bool ph__memory_find(ph_allocation *out, const ph_device *device, const void *address);
/* Whether the address is in memory that the allocator took from the driver, in use or not. */
bool ph__memory_is_taken(const ph_device *device, const void *address);
/* Marks the allocation: when it is freed, deaths() of the device grows. untrack with the same generation; a freed one is ignored. */
bool ph__memory_track(ph_device *device, const void *base,
                      uint64_t generation); /* false: not that allocation any more */
void ph__memory_untrack(ph_device *device, const void *base, uint64_t generation);
uint64_t ph__memory_deaths(const ph_device *device); /* one atomic load */
bool ph__memory_is_live(const ph_device *device, const void *base, uint64_t generation);

/* Notes that a copy in a graph of the pool uses the pinned block around address, if there is one: it is not reused while the pool
 * lives, also when it is freed. The device layer's copy_captured does this for each captured ph_memcpy as it is made. */
void ph__memory_pin_used(ph_pool *pool, const void *address);
/* Bytes of the pinned blocks that graphs of one of the pools keep from reuse so. holds: is this pool among them? Called under a spinning
 * lock. */
size_t ph__memory_pinned_held(const ph_device *device, bool (*holds)(const void *user, const ph_pool *pool),
                              const void *user);
#endif
