/* SPDX-License-Identifier: MIT */
/* phonograph/device.h: devices: drivers, opening, properties, settings. */
#ifndef PHONOGRAPH_DEVICE_H
#define PHONOGRAPH_DEVICE_H
#include <phonograph/status.h>

PH_BEGIN_DECLS

typedef struct ph_device ph_device;
typedef struct ph_stream ph_stream;

/* Zero is the default of every member. */
typedef struct ph_device_options {
    /* host device: threads that run kernels, the caller's included; 0: one for each processor */
    uint32_t host_threads;
    /* freed blocks are filled with 0xDB in stream order, so that stale reads become visible */
    bool debug_poison;
    /* blocks that were recorded on other streams and are freed in a capture wait for its end */
    bool no_reuse_in_capture;
    /* host device: if not 0, streams run in a random legal order with this seed */
    uint64_t host_chaos_seed;
    /* host device: the size of its memory; 0: half of the machine's */
    uint64_t host_memory_bytes;
    uint64_t reserved[4];
} ph_device_options;

/* Opens a device by name: "auto" (the first GPU that works, else the host device), "host", "cuda",
 * "cuda:1". Settings may follow after a colon, as in "host:threads=2,memory=64m". They win over the
 * options:
 *
 *   threads=N      host_threads, 0 to 1024
 *   chaos=SEED     host_chaos_seed
 *   memory=BYTES   host_memory_bytes; k, m or g may follow
 *   poison=0|1     debug_poison
 *   reuse=0|1      0 is no_reuse_in_capture
 *
 * - Each open of "host" makes an independent software device with memory and streams of its own.
 * - Errors: NOT_FOUND (no such name, no such GPU, or no driver: the message says which), ARGUMENT
 *   (a bad setting), HOST_MEMORY.
 * - The caller has one reference. Every object on a device retains it too.
 * - Thread-safe. Legal in a capture.
 *
 * A child of fork() has none of its parent's threads:
 * - The child may open host devices of its own, whatever other threads did at the fork. Where the
 *   parent has used a GPU, CUDA allows none in the child (NOT_FOUND, at once).
 * - Calls on objects of the parent (devices, and their streams, events, memory, pools, kernels and
 *   captured graphs) return STATE in the child.
 * - Their release, free and destroy return at once and do nothing, and call no release functions of
 *   ph_graph_retain. The child's copies go with the child. */
PH_CALL ph_device_open(ph_device **out, const char *name, const ph_device_options *options);
PH_API ph_device *ph_device_retain(ph_device *device); /* takes NULL */
/* Takes NULL. Thread-safe. Legal in a capture.
 * - The last release of all, by whatever call (destroy of a stream or event, release of a kernel
 *   ...), blocks: it waits until the device's work is done and its threads have ended.
 * - Inside of a host function or the body of a kernel of a host device it does not block: a thread
 *   of the library's closes the device. */
PH_API void ph_device_release(ph_device *device);

typedef enum ph_device_kind {
    /* the software device: kernels run on the processor, device memory is host memory */
    PH_DEVICE_HOST = 0,
    PH_DEVICE_CUDA = 1 /* an NVIDIA GPU */
} ph_device_kind;

typedef struct ph_device_info {
    char name[96];         /* a name that opens it again, with its settings */
    char driver[16];       /* "host" or "cuda", for people; programs use the kind */
    char description[128]; /* the name of the processor or GPU */
    uint64_t memory_total; /* bytes */
    /* bytes that neither this nor another process holds, as far as the driver knows */
    uint64_t memory_free;
    uint32_t threads; /* host device: threads that run kernels; else 0 */
    /* as in CUDA: 0, and a negative number */
    int32_t stream_priority_lowest, stream_priority_highest;
    uint32_t multiprocessors;    /* they run blocks in parallel; host device: its threads */
    uint32_t compute_capability; /* major * 10 + minor: 90 for 9.0; host device: 0 */
    /* the most shared memory of a block, with the kernel's own variables */
    size_t shared_bytes_per_block_max;
    ph_device_kind kind;
    uint32_t ordinal; /* number of the GPU in CUDA; host device: 0 */
    uint64_t reserved[4];
} ph_device_info;
PH_CALL ph_device_get_info(ph_device_info *out, const ph_device *device);

/* The drivers of this build, and whether each can be used: reason is "", or says why not. Call with
 * index 0, 1, ... until PH_ERROR_NOT_FOUND. Never creates a device or a context. Thread-safe. */
typedef struct ph_driver_info {
    char name[16];
    uint32_t device_count;
    char version[48];
    char reason[256];
    uint64_t reserved[4];
} ph_driver_info;
PH_CALL ph_driver_get_info(ph_driver_info *out, size_t index);

/* The legacy default stream of the device, borrowed for the life of the device. Its work is ordered
 * against every stream made with `blocking`. It can never capture. */
PH_API ph_stream *ph_device_default_stream(ph_device *device);

/* Waits until all work of the device is done. Blocks.
 * - Refused (CAPTURE, 900) while any capture is open on the device, whatever its mode and thread,
 *   as the driver would kill it.
 * - A capture that another thread begins at the very moment of the call can still die of it (901).
 * - A capture with a blocking stream can also die so of a copy from the default stream to pageable
 *   memory. */
PH_CALL ph_device_synchronize(ph_device *device);

/* Whether a capture that the calling thread began through this library is open on the device, in
 * any mode and on any stream; false for NULL. Cheap. Thread-safe, legal in a capture. */
PH_API bool ph_device_is_capturing(const ph_device *device);

/* The calling thread's capture interaction mode, as in cuThreadExchangeStreamCaptureMode. The
 * initial mode is GLOBAL (0). exchange returns the previous mode in *mode. Thread-safe, legal in a
 * capture. */
typedef enum ph_capture_mode {
    PH_CAPTURE_GLOBAL = 0,       /* potentially unsafe calls of every thread are refused */
    PH_CAPTURE_THREAD_LOCAL = 1, /* potentially unsafe calls of the capturing thread are refused */
    PH_CAPTURE_RELAXED = 2       /* no call is refused */
} ph_capture_mode;
PH_CALL ph_thread_exchange_capture_mode(ph_capture_mode *mode);

PH_END_DECLS
#endif
