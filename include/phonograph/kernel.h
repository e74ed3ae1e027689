/* SPDX-License-Identifier: MIT */
/* phonograph/kernel.h: kernels and other work on streams: launches, copies, fills, host
 * functions. */
#ifndef PHONOGRAPH_KERNEL_H
#define PHONOGRAPH_KERNEL_H
#include <phonograph/stream.h>

PH_BEGIN_DECLS

typedef struct ph_kernel ph_kernel;

/* Argument of a kernel's host form, which runs the blocks [begin, end) of a grid, in linear order
 * with x fastest.
 * - Blocks of one launch may run in several calls, on several threads, in any order. A block must
 *   not depend on another block of its launch.
 * - Threads are the library's. A host_inline kernel may also run on the thread that calls ph_launch
 *   or ph_graph_replay. Use no thread-local state, and do not call the library: it refuses at once
 *   (STATE, 800; docs/reference/threading.md).
 * - The kernel runs the threads of a block itself. The usual one-dimensional kernel loops over the
 *   items from begin * block[0] to end * block[0], clipped to its n (examples/saxpy).
 * - shared: config.shared_bytes of scratch memory, 64-byte aligned, contents undefined, reused from
 *   block to block; NULL when 0. */
typedef struct ph_block_range {
    uint32_t grid[3], block[3];
    uint64_t begin, end;
    void *shared;
} ph_block_range;
typedef void (*ph_host_kernel_fn)(const ph_block_range *range, const void *args);

/* The access of a kernel to the memory behind an ADDRESS parameter, for ph_graph_find_races
 * (inspect/races.h). Optional.
 * - UNKNOWN, the default: reads, writes, or both.
 * - bytes: the extent, in bytes from the address on. 0: not known. Of all these bytes, each one is
 *   read (IN), written (OUT), or both (INOUT), and the parameter leads to no others.
 * - count: 0, or 1 + the offset of a VALUE parameter of 4 or 8 bytes, an unsigned number. Then the
 *   extent is that number, as launched, times bytes.
 * - Leave the extent undeclared where the kernel uses only some of the bytes (every second one, a
 *   number that the device computes).
 * - Leave the access undeclared where kernels without an order use the same bytes by atomic
 *   operations. */
typedef enum ph_access_kind {
    PH_ACCESS_UNKNOWN = 0,
    PH_ACCESS_IN = 1,
    PH_ACCESS_OUT = 2,
    PH_ACCESS_INOUT = 3
} ph_access_kind;
typedef struct ph_param_access {
    ph_access_kind kind;
    uint32_t count;
    size_t bytes;
    uint64_t reserved[2];
} ph_param_access;

/* One parameter of a typed launch. An ADDRESS parameter is always a device address
 * (inspect/record.h), a VALUE never is. */
typedef enum ph_param_kind {
    PH_PARAM_VALUE = 0,
    PH_PARAM_ADDRESS = 1
} ph_param_kind;
typedef struct ph_param {
    const char *name;
    ph_param_kind kind;
    size_t offset, size; /* bytes in the argument struct */
    ph_param_access access;
} ph_param;
/* PH_PARAM(struct saxpy, n, PH_PARAM_VALUE): the access is not declared
 * PH_PARAM_BYTES(struct saxpy, sum, PH_ACCESS_OUT, 4): an address, 4 bytes
 * PH_PARAM_ARRAY(struct saxpy, x, PH_ACCESS_IN, n, sizeof(float)): an address, n times 4 bytes */
#define PH_PARAM(type, member, param_kind)                                                         \
    PH_PARAM_WITH_ACCESS(type, member, param_kind, PH_ACCESS_UNKNOWN, 0, 0)
#define PH_PARAM_BYTES(type, member, access_kind, extent)                                          \
    PH_PARAM_WITH_ACCESS(type, member, PH_PARAM_ADDRESS, access_kind, 0, extent)
#define PH_PARAM_ARRAY(type, member, access_kind, count_member, element_bytes)                     \
    PH_PARAM_WITH_ACCESS(type, member, PH_PARAM_ADDRESS, access_kind,                              \
                         (uint32_t)(offsetof(type, count_member) + 1), element_bytes)
#define PH_PARAM_WITH_ACCESS(type, member, param_kind, access_kind, count, extent)                 \
    {                                                                                              \
#member, (param_kind), offsetof(type, member), sizeof(((type *)0)->member),                \
        {                                                                                          \
            (access_kind), (count), (extent),                                                      \
            {                                                                                      \
                0, 0                                                                               \
            }                                                                                      \
        }                                                                                          \
    }

/* A kernel with its forms. The host device runs `host`. A GPU runs `cuda_image` if it is given,
 * otherwise `cuda`. */
typedef struct ph_kernel_source {
    const char *name;
    /* CUDA C text without headers, with an extern "C" __global__ function `name`. NVRTC compiles it
     * at the first use; the result is kept on disk (docs/guide/cuda.md). */
    const char *cuda;
    ph_host_kernel_fn host;
    /* bytes of the argument struct: a member for each parameter, in order; at most 4096; 0: no
     * parameters */
    size_t args_size;
    /* optional, for typed launches; inside args_size, in order, without overlap */
    const ph_param *params;
    size_t param_count;
    /* PTX text, cubin or fatbin bytes with a function `name`; read during the call */
    const void *cuda_image;
    size_t cuda_image_bytes; /* of PTX: its length, with or without the final NUL */
    /* options of NVRTC, split at spaces: "-use_fast_math -DN=4"; NULL: none */
    const char *cuda_options;
    /* The host form is short and never waits: for no other thread, and for no lock that the caller
     * may hold. It may then run on the calling thread, before the call returns, if its stream has
     * no other work:
     * - in ph_launch of at most 4 blocks, not on the default stream;
     * - in a replay of a few microseconds, whose kernels are all inline or the library's own, and
     *   whose nodes include no host function and no wait for an external event.
     *
     * Without this option, the host form runs only on the library's threads, and may wait for later
     * actions of the caller. */
    bool host_inline;
    uint64_t reserved[3];
} ph_kernel_source;

/* Creates a kernel of this device from the form that it needs. Everything is copied.
 * - UNSUPPORTED: the form is missing, or is CUDA C text and NVRTC is not installed.
 * - ARGUMENT: args_size is not the size of the function's parameters (with the padding at the end
 *   of the struct), there is no function `name`, or the text does not compile. The message has the
 *   first words of the compiler.
 * - On a GPU the first creation compiles: tens of milliseconds.
 * - The caller has one reference. Submitted work and graphs retain the kernel too.
 * - Thread-safe, legal in a capture. */
PH_CALL ph_kernel_create(ph_kernel **out, ph_device *device, const ph_kernel_source *source);
PH_API ph_kernel *ph_kernel_retain(ph_kernel *kernel);
PH_API void ph_kernel_release(ph_kernel *kernel);
PH_API const char *ph_kernel_name(const ph_kernel *kernel); /* borrowed */
/* bytes that a launch needs; 0 for NULL */
PH_API size_t ph_kernel_args_size(const ph_kernel *kernel);

/* A dimension of 0 means 1. CUDA's limits hold on every device: at most 1024 threads in a block (z
 * at most 64), 2^31-1 x 65535 x 65535 blocks in a grid, and 232448 bytes of shared memory. */
typedef struct ph_launch_config {
    uint32_t grid[3], block[3];
    size_t shared_bytes;
    /* The kernel may begin before its predecessor on the stream has ended. It waits by itself
     * (griddepcontrol.wait, cudaGridDependencySynchronize) before it uses results of the
     * predecessor.
     * - A captured launch gets a programmatic edge, but a full one right behind cells (cells.h).
     * - The host device, and GPUs before compute capability 9.0, order it fully. */
    bool programmatic;
    uint64_t reserved[4];
} ph_launch_config;

/* Launches asynchronously. A capturing stream records the launch. args are copied; args_size is the
 * kernel's. config NULL: one block of one thread. Errors: ARGUMENT (limits, size), WRONG_DEVICE,
 * and those of the capture rules. Thread-safe. */
PH_CALL ph_launch(ph_stream *stream, ph_kernel *kernel, const ph_launch_config *config,
                  const void *args, size_t args_size);

/* Copies asynchronously between device, pinned and pageable host memory, in any combination. The
 * library looks up the kind of each address.
 * - A pageable source is read before the call returns. With a pageable destination, the call waits
 *   for the copy, and may block.
 * - 0 bytes: nothing happens.
 * - In a capture the copy is recorded. UNPINNED, with the capture intact: one side is pageable.
 * - ARGUMENT: the ranges overlap. SIZE: a range leaves the allocation in which it starts.
 * - The memory of a host device is pageable host memory for every other device, and each
 *   ph_device_open makes such a device. Nothing orders the copy behind the work of that device. */
PH_CALL ph_memcpy(void *dst, const void *src, size_t bytes, ph_stream *stream);

/* Fills bytes, or 32-bit words (dst 4-byte aligned), of device or pinned memory. Asynchronous;
 * recorded in a capture. ARGUMENT: other memory, such as memory of another device that this one
 * cannot write. */
PH_CALL ph_memset(void *dst, uint8_t value, size_t bytes, ph_stream *stream);
PH_CALL ph_memset_u32(void *dst, uint32_t value, size_t count, ph_stream *stream);

/* Calls fn(user) in stream order, on a thread of the library, with no lock held. A capture records
 * the call, and each replay makes it. user must outlive the last call.
 * - fn must not wait for later work.
 * - fn must not call the library, as no host function may call CUDA. The host device refuses such
 *   calls (STATE, 800); a GPU's driver may. */
typedef void (*ph_host_fn)(void *user);
PH_CALL ph_launch_host(ph_stream *stream, ph_host_fn fn, void *user);

PH_END_DECLS
#endif
