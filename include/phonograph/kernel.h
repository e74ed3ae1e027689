/* SPDX-License-Identifier: MIT */
/* phonograph/kernel.h: kernels and the other work that is submitted to streams: launches,
 * copies, fills, host functions. */
#ifndef PHONOGRAPH_KERNEL_H
#define PHONOGRAPH_KERNEL_H
#include <phonograph/stream.h>

PH_BEGIN_DECLS

typedef struct ph_kernel ph_kernel;

/* What a kernel's host form is called with: run blocks [begin, end) of a grid, in the linear order
 * x fastest. Blocks of one launch may run in several calls, on several threads, in any order: a
 * block must not depend on another block of its launch. Threads are the library's; for kernels that
 * are declared inline (host_inline) also the one that calls ph_launch or ph_graph_replay: rely on
 * no thread-local state, and do not call the library. A block's threads are the kernel's own
 * affair: the usual one-dimensional kernel loops over items begin * block[0] to end * block[0],
 * clipped to its n (examples/saxpy). shared: config.shared_bytes of scratch, 64-byte aligned,
 * contents undefined, reused from block to block; NULL when 0. */
typedef struct ph_block_range {
    uint32_t grid[3], block[3];
    uint64_t begin, end;
    void *shared;
} ph_block_range;
typedef void (*ph_host_kernel_fn)(const ph_block_range *range, const void *args);

/* One parameter, for typed launches: an ADDRESS parameter is known to be a device address
 * (inspect/record.h), a VALUE never is. */
typedef enum ph_param_kind {
    PH_PARAM_VALUE = 0,
    PH_PARAM_ADDRESS = 1
} ph_param_kind;
typedef struct ph_param {
    const char *name;
    ph_param_kind kind;
    size_t offset, size; /* bytes, in the argument struct */
    uint64_t reserved[2];
} ph_param;
/* PH_PARAM(struct saxpy, x, PH_PARAM_ADDRESS) */
#define PH_PARAM(type, member, param_kind)                                                         \
    {                                                                                              \
#member, (param_kind), offsetof(type, member), sizeof(((type *)0)->member),                \
        {                                                                                          \
            0, 0                                                                                   \
        }                                                                                          \
    }

/* A kernel in the forms it has: `host` runs on the host device; on a GPU `cuda_image` where it
 * is given, else `cuda`. */
typedef struct ph_kernel_source {
    const char *name;
    /* CUDA C text with an extern "C" __global__ function `name`: compiled by NVRTC at the first
     * use, kept on disk (docs/guide/cuda.md); no headers */
    const char *cuda;
    ph_host_kernel_fn host;
    /* bytes of the argument struct: one struct, a member per parameter, in order; at most 4096;
     * 0: no parameters */
    size_t args_size;
    /* optional: makes its launches typed; must lie inside args_size, in order, without overlap */
    const ph_param *params;
    size_t param_count;
    /* PTX text, cubin or fatbin bytes with a function `name`; read during the call */
    const void *cuda_image;
    size_t cuda_image_bytes;  /* PTX: its length, with or without a final NUL */
    const char *cuda_options; /* for NVRTC, split at spaces: "-use_fast_math -DN=4"; NULL: none */
    /* The host form is short and never waits for anything, neither for another thread nor for a
     * lock that the caller may hold. On a stream that has nothing left to do it may then run on the
     * calling thread, before the call returns: in ph_launch of at most 4 blocks (not on the default
     * stream), and in a replay that takes a few microseconds, whose kernels are all inline or the
     * library's own, with no host function and no wait for an external event among its nodes.
     * Without it the host form runs on the library's threads alone, and may wait for what the
     * caller does after the call. */
    bool host_inline;
    uint64_t reserved[3];
} ph_kernel_source;

/* Creates a kernel of this device from the form that it needs; UNSUPPORTED when that form is
 * missing, or when it is CUDA C text and NVRTC is not installed; ARGUMENT when args_size is not
 * what the function's parameters take (the struct's padding at the end included), when there is
 * no function `name`, or when the text does not compile: the message has the compiler's first
 * words. On a GPU the first creation compiles: tens of milliseconds. Everything is copied.
 * Retained once for the caller; submitted work and graphs retain it too. Thread-safe, legal in a
 * capture. */
PH_CALL ph_kernel_create(ph_kernel **out, ph_device *device, const ph_kernel_source *source);
PH_API ph_kernel *ph_kernel_retain(ph_kernel *kernel);
PH_API void ph_kernel_release(ph_kernel *kernel);
PH_API const char *ph_kernel_name(const ph_kernel *kernel); /* borrowed */
PH_API size_t ph_kernel_args_size(const ph_kernel *kernel); /* what a launch takes; 0 for NULL */

/* A dimension of 0 means 1. CUDA's limits hold on every device: blocks of at most 1024 threads
 * (z at most 64), grids of at most 2^31-1 x 65535 x 65535, at most 232448 bytes of shared
 * memory. */
typedef struct ph_launch_config {
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    /* the kernel may begin before the one before it on the stream has ended, and waits by itself
     * (griddepcontrol.wait, cudaGridDependencySynchronize) before it touches that one's results.
     * A captured launch gets a programmatic edge, but a full one right behind cells (cells.h).
     * The host device and GPUs before compute capability 9.0 order it fully */
    bool programmatic;
    uint64_t reserved[4];
} ph_launch_config;

/* Launches asynchronously; recorded on a capturing stream. args are copied; args_size must be
 * the kernel's. config NULL: one block of one thread. Errors: ARGUMENT (limits, size),
 * WRONG_DEVICE, and the capture rules. Thread-safe. */
PH_CALL ph_launch(ph_stream *stream, ph_kernel *kernel, const ph_launch_config *config,
                  const void *args, size_t args_size);

/* Copies, asynchronously, between any of device, pinned and pageable host memory; the kind of an
 * address is looked up. A pageable source is read before the call returns; with a pageable
 * destination the call waits for the copy (it may block then). 0 bytes: nothing. In a capture:
 * recorded; UNPINNED, with the capture intact, where one side is pageable. Overlapping ranges:
 * ARGUMENT. SIZE: a range that leaves the allocation it starts in. The memory of a host device
 * is pageable host memory to every other device, and each ph_device_open makes one: nothing
 * orders the copy behind the work of the device whose memory it is. */
PH_CALL ph_memcpy(void *dst, const void *src, size_t bytes, ph_stream *stream);

/* Fills bytes, or 32-bit words (dst 4-byte aligned), of device or pinned memory; asynchronous,
 * recorded in a capture. ARGUMENT: other memory, also another device's that this one cannot
 * write. */
PH_CALL ph_memset(void *dst, uint8_t value, size_t bytes, ph_stream *stream);
PH_CALL ph_memset_u32(void *dst, uint32_t value, size_t count, ph_stream *stream);

/* Calls fn(user) in stream order on a thread of the library, with no lock held; recorded in a
 * capture, and then called at each replay. fn must not call the library and must not wait for
 * work that comes after it. user must outlive the last call. */
typedef void (*ph_host_fn)(void *user);
PH_CALL ph_launch_host(ph_stream *stream, ph_host_fn fn, void *user);

PH_END_DECLS
#endif
