/* SPDX-License-Identifier: MIT */
/* phonograph/memory.h: the caching allocator: device memory in stream order, private pools, pinned
 * memory, statistics. */
#ifndef PHONOGRAPH_MEMORY_H
#define PHONOGRAPH_MEMORY_H
#include <phonograph/stream.h>

PH_BEGIN_DECLS

typedef struct ph_pool ph_pool;

/* ---- device memory ---- A block belongs to the stream of its allocation. It is reused in the
 * order of that stream, without waiting. The pool of a block is, first match first:
 * - the pool of the capture that the *stream* is in, whatever thread calls;
 * - the pool that the calling thread is routed to (ph_pool_begin);
 * - the default pool of the device.
 *
 * Captures:
 * - Memory that is allocated while a capture is open, on any pool, stream, thread and device
 *   handle, and that a node of the capture addresses, belongs to the graph until its reset or
 *   destruction. It may be freed at any time, and is not used again before.
 * - Exception: memory of the capture's own pool that was freed in the capture is free for later
 *   requests to that pool.
 * - So a block that is freed while a capture is open waits for its end, if the thread that
 *   allocated or freed it works on the capture: begins it, or allocates or uses blocks in it.
 * - A block that another thread allocated and freed on its own is used again at once. The capture
 *   fails (CAPTURE) where a node addresses such memory after it was given to somebody else.
 * - On a stream in a capture that this library did not begin, allocations are refused (CAPTURE,
 *   900), until ph_pool_capture_begin (foreign.h) gives it a pool.
 *
 * Threads: all calls here are thread-safe, and legal in a capture. */

/* Allocates count * size bytes, aligned to 512.
 * - out_pointer: the address of the caller's pointer (a T **). Set to NULL on failure.
 * - A request of 0 bytes gives NULL and PH_OK.
 * - Errors: SIZE (count * size overflows), DEVICE_MEMORY (the message says who holds the memory),
 *   POOL_LIMIT, HOST_MEMORY.
 * - Blocks only on the last resort before DEVICE_MEMORY, and never while a capture is open. */
PH_CALL ph_malloc(void *out_pointer, size_t count, size_t size, ph_stream *stream);
#define PH_NEW(out, count, stream) ph_malloc((out), (count), sizeof **(out), (stream))

/* The stream for allocations that are for no stream in particular; ph_tensor_create uses it.
 * - If the calling thread has exactly one capture open on the device: the stream of that capture,
 *   so that the memory is of the capture's pool.
 * - Otherwise: the device's default stream. Captures that other threads began, or that this library
 *   did not begin, do not count.
 * - Borrowed, until that capture ends, or for the life of the device. NULL for NULL. */
PH_API ph_stream *ph_memory_stream(ph_device *device);

/* Allocates exactly at `address`, to rebuild a layout. The address must lie in free cached memory
 * of this stream, in the pool that the call is routed to. NOT_FOUND: that place is not free.
 * ARGUMENT: not aligned to 512. */
PH_CALL ph_malloc_at(void *out_pointer, void *address, size_t bytes, ph_stream *stream);

/* Gives the block back in the order of `stream`. Takes NULL.
 * - stream NULL: the stream of the allocation. Another stream: as after ph_record_stream(pointer,
 *   stream).
 * - An address that is no live allocation, or lies inside a block, and a destroyed stream, are
 *   logged once, and nothing happens.
 * - Memory of a pool that replays write, too: later replays come behind the work so far of the
 *   streams that used the block, unless they are capturing.
 * - Legal for blocks that a captured graph uses: the graph tracks them, and does not hold them. */
PH_API void ph_free(void *pointer, ph_stream *stream);
/* As ph_free with stream NULL, for memory of that device, without a search through the devices of
 * the process. Does nothing if either argument is NULL. */
PH_API void ph_device_free(ph_device *device, void *pointer);

/* Declares that `stream` uses the block around an address, which may be an interior one, too.
 * - A freed block is then reused only after that stream's work so far.
 * - In a capture: a block that the capture was given is reused where the captured graph itself
 *   orders the reuse behind that work (unless no_reuse_in_capture), otherwise at the capture's end.
 *   An older block is reused after the capture, and after that stream's work from before it. */
PH_CALL ph_record_stream(void *pointer, ph_stream *stream);

/* stream waits for the work so far of all streams that use the block (ph_record_stream), except
 * capturing ones. For memory that stays allocated and is written again, as the outputs of a graph.
 * NOT_FOUND: no live allocation. STATE: stream is capturing. Thread-safe. */
PH_CALL ph_stream_wait_users(ph_stream *stream, const void *pointer);

/* The allocation around an address, which may be an interior one. NOT_FOUND: no live allocation of
 * this device. */
typedef struct ph_allocation {
    void *base;
    size_t requested, size; /* bytes of the request, bytes of the block */
    /* unique in the process; distinguishes a new allocation at an old address from the old one */
    uint64_t generation;
    ph_pool *pool; /* borrowed; NULL for the default pool */
    bool pinned;
    bool foreign; /* a block of another allocator: ph_foreign_announce (foreign.h) */
    uint64_t reserved[4];
} ph_allocation;
PH_CALL ph_memory_lookup(ph_allocation *out, const ph_device *device, const void *address);

/* Gives cached memory back to the device: free whole segments, and pinned memory, of the default
 * pool and of pools without a holder.
 * - May block: it waits for work that used them, and for replays in flight, also of destroyed
 *   graphs. For pinned memory a driver waits for all work of the device.
 * - While a capture is open on the device, the trim is put off until none is. */
PH_CALL ph_memory_trim(ph_device *device);

/* Limits the bytes that this library takes from the device, pools included; 0: no limit. Later
 * requests beyond the limit: POOL_LIMIT. */
PH_CALL ph_memory_set_limit(ph_device *device, size_t bytes);

/* ---- pinned host memory ---- The rules of device memory hold. In a capture, blocks come from the
 * pinned half of its pool.
 * - A pinned block that a captured copy used is not reused while a graph holds the capture's pool,
 *   as replays would read changed contents.
 * - A pinned block that was allocated during the capture, and that a kernel or a host function (its
 *   user) addresses, is not reused while the graph lives.
 * - Of a pool that has gone it is cached in the default pool, and serves requests of any pool: only
 *   trims, and requests that fail else, give pinned memory back and may wait for all streams. */
PH_CALL ph_malloc_pinned(void *out_pointer, size_t count, size_t size, ph_stream *stream);
PH_API void ph_free_pinned(void *pointer, ph_stream *stream);

/* ---- private pools ---- A pool keeps its memory apart. A new pool has no device memory.
 * - Holders: the user, each capture into the pool until that graph is reset, each open scope.
 * - A handle is valid while the pool has a holder or a block in use. Later, calls refuse it
 *   (ARGUMENT). Calls without a status then do nothing, and log that once. */
typedef ph_status (*ph_pool_alloc_fn)(void **out, size_t bytes, ph_stream *stream, void *user);
typedef void (*ph_pool_free_fn)(void *pointer, size_t bytes, void *user);
typedef struct ph_pool_options {
    /* cached blocks may serve other requests, as the last resort before DEVICE_MEMORY */
    bool use_on_oom;
    bool no_split; /* a request takes a whole block, which is never split */
    /* A custom source of segments: both functions or neither. They are called with no lock held.
     * - alloc returns 512-byte aligned memory that the device can use. The memory must not come
     *   from this allocator (ARGUMENT; STATE where alloc asks the pool itself).
     * - free may be called late, on any thread. Objects that it needs must outlive the last
     *   block. */
    ph_pool_alloc_fn alloc;
    ph_pool_free_fn free;
    void *user;
    size_t limit; /* the most bytes of segments; 0: no limit of its own */
    uint64_t reserved[4];
} ph_pool_options;
PH_CALL ph_pool_create(ph_pool **out, ph_device *device, const ph_pool_options *options);
PH_API ph_pool *ph_pool_retain(ph_pool *pool);
/* After the last release, free segments go back to the device at the next opportunity. */
PH_API void ph_pool_release(ph_pool *pool);

/* {0, n}: a pool that a user made. {n, 0}: a pool that a capture made for itself. {0, 0}: the
 * default pool (NULL). n never repeats. */
typedef struct ph_pool_id {
    uint64_t first, second;
} ph_pool_id;
PH_API ph_pool_id ph_pool_get_id(const ph_pool *pool);
PH_API size_t ph_pool_use_count(const ph_pool *pool); /* how many holders it has */

/* Routes the calling thread's allocations outside captures to the pool, until the matching end.
 * Scopes nest, innermost first. Threads that start inside are not routed. The end of the thread
 * ends its scopes. POOL_BUSY: a capture or another scope records to the pool. */
PH_CALL ph_pool_begin(ph_pool *pool);
PH_CALL ph_pool_end(ph_pool *pool); /* STATE: not the innermost scope of this thread */

/* As ph_memory_trim, for one pool. Does nothing for a pool that a graph or an open scope uses. */
PH_CALL ph_pool_trim(ph_pool *pool);

/* ---- layouts ---- A checkpoint remembers the blocks in use of a pool. Its restore brings the pool
 * back into that state (torch's checkpoints). */
typedef struct ph_pool_checkpoint ph_pool_checkpoint;
PH_CALL ph_pool_checkpoint_create(ph_pool_checkpoint **out, ph_pool *pool);
PH_API void ph_pool_checkpoint_destroy(ph_pool_checkpoint *checkpoint);
/* Frees all blocks in use, whose pointers are then dead. Then allocates the blocks of the
 * checkpoint at the same addresses and sizes.
 * - Nothing orders work on them with replays that write there: wait for replays before, and for
 *   such work before the next one (ph_stream_wait_stream).
 * - STATE, and nothing changes: blocks of the pool wait for other streams or graphs, or would if
 *   they were freed, or a remembered segment is gone. */
PH_CALL ph_pool_checkpoint_restore(ph_pool *pool, const ph_pool_checkpoint *checkpoint);
/* *equal: whether exactly these addresses are allocated in the pool. */
PH_CALL ph_pool_check_live(bool *equal, ph_pool *pool, void *const *addresses, size_t count);

/* ---- statistics ---- */
typedef struct ph_counter {
    uint64_t current, peak, added, removed;
} ph_counter;
enum {
    PH_MEMORY_ALL = 0,
    PH_MEMORY_SMALL = 1,
    PH_MEMORY_LARGE = 2
};
typedef struct ph_memory_stats {
    size_t allocated, allocated_peak; /* bytes of blocks that the caller has */
    size_t reserved, reserved_peak;   /* bytes of segments from the device */
    size_t segments;
    /* requests that failed; requests that succeeded only after cached memory was given back */
    uint64_t ooms, retries;
    size_t pinned, pinned_reserved; /* bytes of pinned host memory in use, and from the driver */
    /* blocks that are freed, but wait for other streams, for a capture's end, or for graphs that
     * address them */
    size_t deferred;
    /* counts, by PH_MEMORY_ALL, SMALL and LARGE; active: allocated or deferred */
    ph_counter allocation[3], segment[3], active[3], inactive_split[3];
    ph_counter allocated_bytes[3], reserved_bytes[3], active_bytes[3], inactive_split_bytes[3];
    ph_counter requested_bytes[3];
    uint64_t unused[8];
} ph_memory_stats;
/* of all pools together */
PH_CALL ph_memory_get_stats(ph_memory_stats *out, const ph_device *device);
PH_CALL ph_pool_stats(ph_memory_stats *out, const ph_pool *pool); /* of one pool */
/* Sets the peaks to the current values, for the device and each pool. */
PH_CALL ph_memory_reset_peaks(ph_device *device);
/* Sets added, removed, ooms and retries to 0. */
PH_CALL ph_memory_reset_accumulated(ph_device *device);

/* The whole state as JSON (docs/reference/memory.md has the schema): segments with their pool,
 * stream and blocks, and with history the events. pool NULL: all pools. *out is freed with
 * ph_string_free. */
PH_CALL ph_memory_snapshot(char **out, const ph_device *device, const ph_pool *pool);
PH_API void ph_string_free(char *string);
/* Keeps the newest max_entries events (alloc, free, segment_alloc, segment_free, oom) for
 * snapshots. 0, the initial value, keeps none. */
PH_CALL ph_memory_record_history(ph_device *device, size_t max_entries);

PH_END_DECLS
#endif
