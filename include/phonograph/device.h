/* SPDX-License-Identifier: MIT */
/* phonograph/device.h: devices: what there is, opening, properties, settings. */
#ifndef PHONOGRAPH_DEVICE_H
#define PHONOGRAPH_DEVICE_H
#include <phonograph/status.h>

PH_BEGIN_DECLS

typedef struct ph_device ph_device;
typedef struct ph_stream ph_stream;

/* Zero is the default of every member. */
typedef struct ph_device_options {
    /* host device: threads that run kernels, the caller's included; 0: one a processor */
    uint32_t host_threads;
    /* freed blocks are filled with 0xDB in stream order: stale reads become visible */
    bool debug_poison;
    /* blocks recorded on other streams and freed in a capture wait for its end */
    bool no_reuse_in_capture;
    /* host device: not 0: runs streams in a random legal order of this seed */
    uint64_t host_chaos_seed;
    /* host device: the memory it pretends to have; 0: half of the machine's */
    uint64_t host_memory_bytes;
    uint64_t reserved[4];
} ph_device_options;

/* Opens a device by name: "auto" (the first GPU that works, else the host device), "host",
 * "cuda", "cuda:1". Settings may follow after a colon, as in "host:threads=2,memory=64m"; they
 * win over the options:
 *
 *   threads=N      host_threads, 0 to 1024
 *   chaos=SEED     host_chaos_seed
 *   memory=BYTES   host_memory_bytes; k, m or g may follow
 *   poison=0|1     debug_poison
 *   reuse=0|1      0 is no_reuse_in_capture
 *
 * Each open of "host" makes an independent software device with memory and streams of its own.
 * Errors: NOT_FOUND (no such name, no such GPU, or no driver: the message says which), ARGUMENT
 * (bad setting), HOST_MEMORY. Retained once for the caller; everything that lives on a device
 * retains it too. Thread-safe. Legal in a capture.
 *
 * A child of fork() has none of its parent's threads. It may open host devices of its own,
 * whatever other threads were doing at the fork; where the parent has used a GPU, CUDA allows
 * none in the child (NOT_FOUND, at once). Calls on what the parent made (devices, and streams,
 * events, memory, pools, kernels and captured graphs of them) answer STATE there; what releases,
 * frees or destroys them returns at once and does nothing, also no release functions of
 * ph_graph_retain: the child's copy of them goes with the child. */
PH_CALL ph_device_open(ph_device **out, const char *name, const ph_device_options *options);
PH_API ph_device *ph_device_retain(ph_device *device); /* takes NULL */
/* Takes NULL. The last reference of all, whichever call drops it (a stream's or event's destroy,
 * a kernel's release ...), waits until the device's work is done and its threads have ended:
 * that call blocks. Thread-safe. Legal in a capture. */
PH_API void ph_device_release(ph_device *device);

typedef enum ph_device_kind {
    /* the software device: kernels run on the processor, device memory is the host's */
    PH_DEVICE_HOST = 0,
    PH_DEVICE_CUDA = 1 /* an NVIDIA GPU */
} ph_device_kind;

typedef struct ph_device_info {
    char name[96];         /* the name that opens it again, settings included */
    char driver[16];       /* "host" or "cuda": for people; programs ask for the kind */
    char description[128]; /* the processor or GPU, in words */
    uint64_t memory_total; /* bytes */
    /* bytes not held by this or another process, as far as the driver knows */
    uint64_t memory_free;
    uint32_t threads; /* host device: threads that run kernels; else 0 */
    int32_t stream_priority_lowest, stream_priority_highest; /* as CUDA: 0, and a negative number */
    uint32_t multiprocessors;    /* that run blocks side by side; host device: its threads */
    uint32_t compute_capability; /* major * 10 + minor: 90 for 9.0; host device: 0 */
    /* of shared memory, what a block can have at most, its kernel's own variables included */
    size_t shared_bytes_per_block_max;
    ph_device_kind kind;
    uint32_t ordinal; /* of the GPU, as CUDA counts them; host device: 0 */
    uint64_t reserved[4];
} ph_device_info;
PH_CALL ph_device_get_info(ph_device_info *out, const ph_device *device);

/* Which drivers this build knows, and for each whether it can be used: reason is "" or says why
 * not. Call with index 0, 1, ... until PH_ERROR_NOT_FOUND. Never creates a device or a context.
 * Thread-safe. */
typedef struct ph_driver_info {
    char name[16];
    uint32_t device_count;
    char version[48];
    char reason[256];
    uint64_t reserved[4];
} ph_driver_info;
PH_CALL ph_driver_get_info(ph_driver_info *out, size_t index);

/* The legacy default stream of the device: borrowed, lives as long as the device. Work on it is
 * ordered against every stream made with `blocking`. It can never capture. */
PH_API ph_stream *ph_device_default_stream(ph_device *device);

/* Waits until all work of the device is done. Blocks. Illegal in a capture: refused (CAPTURE,
 * 900) while any capture is open on the device, whatever its mode and thread, as the driver
 * would kill it. A capture that another thread begins in the very instant of the call can still
 * die of it (901); so can one with a blocking stream of a copy from the default stream to
 * pageable memory. */
PH_CALL ph_device_synchronize(ph_device *device);

/* Whether a capture that the calling thread began through this library is open on the device,
 * whatever its mode and stream; false for NULL. Cheap; thread-safe, legal in a capture. */
PH_API bool ph_device_is_capturing(const ph_device *device);

/* The calling thread's capture interaction mode, as cuThreadExchangeStreamCaptureMode: GLOBAL
 * (0) at first. Puts the previous mode into *mode. Thread-safe, legal in a capture. */
typedef enum ph_capture_mode {
    PH_CAPTURE_GLOBAL = 0,       /* potentially unsafe calls of every thread are refused */
    PH_CAPTURE_THREAD_LOCAL = 1, /* those of the capturing thread are */
    PH_CAPTURE_RELAXED = 2       /* none is */
} ph_capture_mode;
PH_CALL ph_thread_exchange_capture_mode(ph_capture_mode *mode);

PH_END_DECLS
#endif
