/* SPDX-License-Identifier: MIT */
/* phonograph/memory.h: the caching allocator: device memory in stream order, private pools,
 * pinned memory, statistics. */
#ifndef PHONOGRAPH_MEMORY_H
#define PHONOGRAPH_MEMORY_H
#include <phonograph/stream.h>

PH_BEGIN_DECLS

typedef struct ph_pool ph_pool;

/* ---- device memory ---- A block belongs to the stream that it was allocated on and is reused
 * in that stream's order without waiting. In a capture it comes from the pool of the capture
 * that its *stream* belongs to, whatever thread calls; else from the pool that the calling
 * thread is routed to (ph_pool_begin), else from the device's default pool. All calls here are
 * thread-safe and legal in a capture; on a stream in a capture that this library did not begin,
 * allocations are refused (CAPTURE, 900).
 *
 * What is allocated while a capture is open, from whatever pool, on whatever stream, thread and
 * device handle, and what a node of that capture addresses, is the graph's until that is reset
 * or destroyed: freeing it is legal at any time, and it is not used again before. So what is
 * freed while a capture is open waits for its end, where a thread that works on the capture
 * (begins it, or allocates or uses blocks in it) allocated or frees it; what another thread
 * allocated and freed on its own is used again at once, and the capture fails (CAPTURE) where a
 * node addresses such memory that somebody else has been given since. */

/* Allocates count * size bytes (checked: SIZE on overflow), aligned to 512. out_pointer: the
 * address of your pointer (a T **); set to NULL on failure. A request of 0 bytes gives NULL and
 * PH_OK. Errors: DEVICE_MEMORY (the message says what holds the memory), POOL_LIMIT,
 * HOST_MEMORY. May block only on its last resort before DEVICE_MEMORY, and never while a capture
 * is open. */
PH_CALL ph_malloc(void *out_pointer, size_t count, size_t size, ph_stream *stream);
#define PH_NEW(out, count, stream) ph_malloc((out), (count), sizeof **(out), (stream))

/* The stream to allocate memory on that is for no stream in particular: that of the capture which
 * the calling thread has open on the device, if that is exactly one, so that the memory is of the
 * capture's pool; else the device's default stream. Captures that other threads began, or that this
 * library did not begin, do not count. ph_tensor_create asks it. Borrowed: until that capture ends,
 * or for the life of the device. NULL for NULL. */
PH_API ph_stream *ph_memory_stream(ph_device *device);

/* Allocates exactly at `address`, which must lie in free cached memory of the pool that the call
 * routes to, on this stream; for rebuilding a layout. NOT_FOUND when that place is not free;
 * ARGUMENT when not aligned to 512. */
PH_CALL ph_malloc_at(void *out_pointer, void *address, size_t bytes, ph_stream *stream);

/* Gives the block back in the order of `stream`; takes NULL. stream NULL: the stream it was
 * allocated on. Another stream than that one: as ph_record_stream(pointer, stream) first. An
 * address that is not a live allocation is reported to the log, once, as is one inside of a
 * block, and nothing else happens. Also legal for blocks that a captured graph uses: the graph
 * tracks them, it does not hold them. */
PH_API void ph_free(void *pointer, ph_stream *stream);
/* As ph_free with stream NULL, of memory of that device: the devices of the process are not
 * searched for it. Takes NULL for either, and does nothing then. */
PH_API void ph_device_free(ph_device *device, void *pointer);

/* Says that `stream`, too, uses the block: once freed it is reused only when that stream's work
 * so far is done. Inside a capture: when the captured graph itself orders the reuse behind that
 * work (unless no_reuse_in_capture), else at the capture's end. */
PH_CALL ph_record_stream(void *pointer, ph_stream *stream);

/* stream waits for what the streams that use the block (ph_record_stream) have to do so far:
 * before memory that stays allocated is written anew, as a graph's outputs are. Streams that are
 * in a capture are left out. NOT_FOUND: no live allocation. STATE when stream is capturing.
 * Thread-safe. */
PH_CALL ph_stream_wait_users(ph_stream *stream, const void *pointer);

/* What is behind an address (interior ones too): NOT_FOUND when it is no live allocation of this
 * device. */
typedef struct ph_allocation {
    void *base;
    size_t requested, size; /* bytes asked for, bytes of the block */
    /* unique in the process: tells a new allocation at an old address from the old one */
    uint64_t generation;
    ph_pool *pool; /* borrowed; NULL for the default pool */
    bool pinned;
    uint64_t reserved[4];
} ph_allocation;
PH_CALL ph_memory_lookup(ph_allocation *out, const ph_device *device, const void *address);

/* Gives cached memory back to the device: of free whole segments of the default pool and of
 * pools that nobody holds any more. Waits for the work that used them, and for replays in
 * flight, also of graphs that were destroyed; may block. While a capture is open on the device
 * it is put off until none is. */
PH_CALL ph_memory_trim(ph_device *device);

/* At most so many bytes taken from the device by this library, pools included; 0: no limit.
 * Later requests beyond it: POOL_LIMIT. */
PH_CALL ph_memory_set_limit(ph_device *device, size_t bytes);

/* ---- pinned host memory ---- the same rules; in a capture from the pool's pinned half. A
 * pinned block that a captured copy used is not reused while a graph holds the capture's pool,
 * as replays would read changed contents; nor is one that was allocated during the capture and
 * that a kernel or a host function (its user) addresses, while the graph lives. */
PH_CALL ph_malloc_pinned(void *out_pointer, size_t count, size_t size, ph_stream *stream);
PH_API void ph_free_pinned(void *pointer, ph_stream *stream);

/* ---- private pools ---- A pool keeps its memory apart. Retained: by you, by each capture into
 * it until that graph is reset, by each open scope. Creating one takes no device memory. A
 * handle is good as long as anybody retains the pool, or has a block of it; later the calls that
 * are given it refuse it (ARGUMENT), and those that return no status do nothing and tell the log
 * once. */
typedef ph_status (*ph_pool_alloc_fn)(void **out, size_t bytes, ph_stream *stream, void *user);
typedef void (*ph_pool_free_fn)(void *pointer, size_t bytes, void *user);
typedef struct ph_pool_options {
    /* cached blocks may serve requests outside it as the last resort before DEVICE_MEMORY */
    bool use_on_oom;
    bool no_split; /* blocks are never split: a request takes a whole one */
    /* A custom source of segments: both or neither, called with no lock held. alloc gives
     * 512-byte aligned memory that the device can use, from elsewhere than this allocator
     * (ARGUMENT; STATE where it asks the pool itself); free may be called late, on any thread:
     * what it needs must outlive the last block. */
    ph_pool_alloc_fn alloc;
    ph_pool_free_fn free;
    void *user;
    size_t limit; /* at most so many bytes of segments; 0: no limit of its own */
    uint64_t reserved[4];
} ph_pool_options;
PH_CALL ph_pool_create(ph_pool **out, ph_device *device, const ph_pool_options *options);
PH_API ph_pool *ph_pool_retain(ph_pool *pool);
/* At the last one, free segments go back to the device at the next chance. */
PH_API void ph_pool_release(ph_pool *pool);

/* {0, n} for pools that a user made, {n, 0} for those that captures made for themselves, {0, 0}
 * the default pool (NULL). n never repeats. */
typedef struct ph_pool_id {
    uint64_t first, second;
} ph_pool_id;
PH_API ph_pool_id ph_pool_get_id(const ph_pool *pool);
PH_API size_t ph_pool_use_count(const ph_pool *pool); /* how often it is retained */

/* Routes the calling thread's allocations outside captures to the pool until the matching end;
 * scopes nest, innermost first. Only this thread: threads started inside are not routed; its end
 * ends them. POOL_BUSY: the pool is being recorded to, by a capture or another scope. */
PH_CALL ph_pool_begin(ph_pool *pool);
PH_CALL ph_pool_end(ph_pool *pool); /* STATE: not the innermost scope of this thread */

/* As ph_memory_trim, for one pool. A pool that a graph or an open scope uses keeps its memory:
 * nothing happens then. */
PH_CALL ph_pool_trim(ph_pool *pool);

/* ---- layouts ---- remembers which blocks of a pool are in use, and puts the pool back into
 * that state (torch's checkpoints). */
typedef struct ph_pool_checkpoint ph_pool_checkpoint;
PH_CALL ph_pool_checkpoint_create(ph_pool_checkpoint **out, ph_pool *pool);
PH_API void ph_pool_checkpoint_destroy(ph_pool_checkpoint *checkpoint);
/* Frees what is allocated now (those pointers are dead), then allocates again, at the same
 * addresses and sizes, what was then. STATE when blocks of the pool wait for other streams or
 * graphs, or would if they were freed, or a remembered segment is gone; nothing changed then. */
PH_CALL ph_pool_checkpoint_restore(ph_pool *pool, const ph_pool_checkpoint *checkpoint);
/* *equal: exactly these addresses are allocated in the pool. */
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
    size_t allocated, allocated_peak; /* bytes of blocks in use by the caller */
    size_t reserved, reserved_peak;   /* bytes of segments taken from the device */
    size_t segments;
    uint64_t ooms,
        /* requests that failed; requests that were served only after cached memory was given
         * back */
        retries;
    size_t pinned, pinned_reserved; /* bytes of pinned host memory in use; taken from the driver */
    /* blocks freed but waiting for other streams, for a capture's end, or for graphs that
     * address them */
    size_t deferred;
    ph_counter allocation[3], segment[3], active[3],
        inactive_split[3]; /* counts, by PH_MEMORY_ALL, SMALL, LARGE; */
    ph_counter allocated_bytes[3], reserved_bytes[3], active_bytes[3],
        inactive_split_bytes[3]; /* active: allocated or deferred */
    ph_counter requested_bytes[3];
    uint64_t unused[8];
} ph_memory_stats;
PH_CALL ph_memory_get_stats(ph_memory_stats *out, const ph_device *device); /* all pools together */
PH_CALL ph_pool_stats(ph_memory_stats *out, const ph_pool *pool);           /* one pool */
/* peak := current, for the device and each pool */
PH_CALL ph_memory_reset_peaks(ph_device *device);
/* added and removed, ooms and retries := 0 */
PH_CALL ph_memory_reset_accumulated(ph_device *device);

/* The whole state as JSON (docs/reference/memory.md has the schema): segments with their pool,
 * stream and blocks; with history, the events. pool NULL: all pools. *out is freed with
 * ph_string_free. */
PH_CALL ph_memory_snapshot(char **out, const ph_device *device, const ph_pool *pool);
PH_API void ph_string_free(char *string);
/* Keeps the newest max_entries events (alloc, free, segment_alloc, segment_free, oom) for
 * snapshots; 0 (at first) keeps none. */
PH_CALL ph_memory_record_history(ph_device *device, size_t max_entries);

PH_END_DECLS
#endif
