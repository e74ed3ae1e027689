/* SPDX-License-Identifier: MIT */
/* driver/cuda/device/work.c: work on streams: launches, copies, fills, host functions, child
 * graphs; kept where it is captured. An explicit stream knows its context, so that none is made
 * current for it; the legacy default stream is the current context's. */
#include "base/checked.h"
#include "driver/cuda/capture/capture.h"
#include "driver/cuda/capture/root.h"
#include "driver/cuda/capture/submission.h"
#include "driver/cuda/load/core.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/load/kernel.h"
#include "driver/cuda/nodes/graph.h"
#include <string.h>

/* Runs `call` with the device's context current where the stream is the legacy one. */
#define ON_STREAM(result, stream, call)                                                            \
    do {                                                                                           \
        if ((stream)->handle) {                                                                    \
            (result) = (call);                                                                     \
        } else {                                                                                   \
            ph__cuda_scope scope_;                                                                 \
            (result) = ph__cuda_enter(&scope_, (stream)->device);                                  \
            if ((result) == PH__R_OK) {                                                            \
                (result) = (call);                                                                 \
                ph__cuda_leave(&scope_);                                                           \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/* With it current on any stream: a captured copy or fill keeps what was current as the context
 * of its operands in mapped memory, and where that was none its node takes no other operand
 * later (seen on driver 580). */
#define IN_CONTEXT(result, stream, call)                                                           \
    do {                                                                                           \
        ph__cuda_scope scope_;                                                                     \
        (result) = ph__cuda_enter(&scope_, (stream)->device);                                      \
        if ((result) == PH__R_OK) {                                                                \
            (result) = (call);                                                                     \
            ph__cuda_leave(&scope_);                                                               \
        }                                                                                          \
    } while (0)

/* No capture of this library has begun there since the submission did. */
static void report_capture(uint64_t *capture_id, const ph__cuda_submission *submission)
{
    if (submission->capturing)
        *capture_id = submission->id;
}

static ph__cu_pointer cuda_pointer(const void *address)
{
    return (uintptr_t)address;
}

/* ---- launches ---- */

static int launch_plain(const ph__drv_stream *stream, ph__cu_function function,
                        const ph__drv_launch *launch, void **extra)
{
    int result;
    ON_STREAM(result, stream,
              ph__cu.LaunchKernel(function, launch->grid[0], launch->grid[1], launch->grid[2],
                                  launch->block[0], launch->block[1], launch->block[2],
                                  (unsigned)launch->shared_bytes, stream->handle, NULL, extra));
    return result;
}

static int launch_programmatic(const ph__drv_stream *stream, ph__cu_function function,
                               const ph__drv_launch *launch, void **extra)
{
    ph__cu_launch_attribute attribute = {
        .id = PH__CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
    attribute.value.programmatic_serialization_allowed = 1;
    ph__cu_launch_config config = {.shared_bytes = (unsigned)launch->shared_bytes,
                                   .stream = stream->handle,
                                   .attributes = &attribute,
                                   .attribute_count = 1};
    memcpy(config.grid, launch->grid, sizeof config.grid);
    memcpy(config.block, launch->block, sizeof config.block);
    int result;
    ON_STREAM(result, stream, ph__cu.LaunchKernelEx(&config, function, NULL, extra));
    return result;
}

int ph__cuda_launch(ph__drv_stream *stream, ph__drv_kernel *kernel, const ph__drv_launch *launch)
{
    if (kernel->device != stream->device)
        return PH__R_INVALID_HANDLE;
    if (kernel->args_end > 0 && !launch->args)
        return PH__R_INVALID_VALUE;
    if (launch->shared_bytes > atomic_load_explicit(&kernel->shared_set, memory_order_relaxed)) {
        int result = ph__cuda_kernel_prepare(kernel, launch->shared_bytes);
        if (result != PH__R_OK)
            return result;
    }
    size_t bytes = kernel->args_end;
    void *extra[] = {PH__CU_LAUNCH_PARAM_BUFFER_POINTER, (void *)(uintptr_t)launch->args,
                     PH__CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes, PH__CU_LAUNCH_PARAM_END};
    bool programmatic = launch->programmatic && stream->device->capability >= 90;
    ph__cuda_submission submission;
    ph__cuda_submission_begin(&submission, stream);
    if (programmatic && submission.capturing && ph__cuda_follows_root(stream))
        programmatic = false;
    int result = programmatic
                     ? launch_programmatic(stream, kernel->function, launch, bytes ? extra : NULL)
                     : launch_plain(stream, kernel->function, launch, bytes ? extra : NULL);
    if (submission.capturing)
        ph__cuda_submission_keep_launch(&submission, stream, kernel, launch, result);
    else
        ph__cuda_submission_leave(&submission, stream);
    if (launch->capture_id)
        report_capture(launch->capture_id, &submission);
    return result;
}

/* ---- copies ---- */

int ph__cuda_copy(ph__drv_stream *stream, const ph__drv_memcpy *copy, uint64_t *capture_id)
{
    if (copy->bytes > 0 && (!copy->dst || !copy->src))
        return PH__R_INVALID_VALUE;
    if (copy->bytes == 0)
        return PH__R_OK;
    ph__cuda_submission submission;
    ph__cuda_submission_begin(&submission, stream);
    int result;
    IN_CONTEXT(result, stream,
               ph__cu.MemcpyAsync(cuda_pointer(copy->dst), cuda_pointer(copy->src), copy->bytes,
                                  stream->handle));
    if (submission.capturing) {
        ph__drv_node node = {.is_plain_copy = true,
                             .src_type = PH__CU_MEMORY_UNIFIED,
                             .dst_type = PH__CU_MEMORY_UNIFIED,
                             .info = {.kind = PH_NODE_MEMCPY, .copy = *copy}};
        ph__cuda_submission_keep(&submission, stream, &node, result);
    } else {
        ph__cuda_submission_leave(&submission, stream);
    }
    if (capture_id)
        report_capture(capture_id, &submission);
    return result;
}

int ph__cuda_copy_sync(ph__drv_device *device, const ph__drv_memcpy *copy)
{
    if (copy->bytes > 0 && (!copy->dst || !copy->src))
        return PH__R_INVALID_VALUE;
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, device);
    if (result != PH__R_OK)
        return result;
    result = ph__cu.Memcpy(cuda_pointer(copy->dst), cuda_pointer(copy->src), copy->bytes);
    ph__cuda_leave(&scope);
    return result;
}

/* ---- fills ---- */

static int fill_plain(const ph__drv_stream *stream, const ph__drv_memset *fill)
{
    int result;
    if (fill->value_size == 1)
        IN_CONTEXT(result, stream,
                   ph__cu.MemsetD8Async(cuda_pointer(fill->dst), (unsigned char)fill->value,
                                        fill->count, stream->handle));
    else
        IN_CONTEXT(result, stream,
                   ph__cu.MemsetD32Async(cuda_pointer(fill->dst), fill->value, fill->count,
                                         stream->handle));
    return result;
}

static int fill_by_kernel(const ph__drv_stream *stream, ph__cu_function function,
                          const ph__drv_memset *fill)
{
    ph__cuda_fill_args args = {cuda_pointer(fill->dst), fill->value, fill->value_size, fill->count};
    size_t bytes = sizeof args;
    void *extra[] = {PH__CU_LAUNCH_PARAM_BUFFER_POINTER, &args, PH__CU_LAUNCH_PARAM_BUFFER_SIZE,
                     &bytes, PH__CU_LAUNCH_PARAM_END};
    unsigned grid[3], block[3];
    ph__cuda_fill_dimensions(grid, block, &args);
    return ph__cu.LaunchKernel(function, grid[0], grid[1], grid[2], block[0], block[1], block[2], 0,
                               stream->handle, NULL, extra);
}

/* The function that fills in the driver's place, or NULL: for small fills in captures that began
 * here, as a small memset node costs host time at every launch of its graph. Graphs of other
 * code may outlive the function. */
static ph__cu_function choose_fill(const ph__cuda_submission *submission,
                                   const ph__drv_stream *stream, size_t bytes)
{
    ph__drv_device *device = stream->device;
    if (!submission->capturing || bytes > PH__CUDA_FILL_LIMIT)
        return NULL;
    ph__spin_lock(&device->cache_lock);
    bool ours = ph__cuda_capture_find_locked(device, submission->id) != NULL;
    ph__spin_unlock(&device->cache_lock);
    return ours ? ph__cuda_core_fill_if_loaded(device) : NULL;
}

int ph__cuda_fill(ph__drv_stream *stream, const ph__drv_memset *what)
{
    size_t bytes;
    ph__drv_memset fill = *what;
    if ((fill.value_size != 1 && fill.value_size != 4) ||
        !ph__mul(fill.count, fill.value_size, &bytes) || (bytes > 0 && !fill.dst) ||
        (uintptr_t)fill.dst % fill.value_size != 0)
        return PH__R_INVALID_VALUE;
    if (bytes == 0)
        return PH__R_OK;
    if (fill.value_size == 1)
        fill.value &= 0xff;
    ph__cuda_submission submission;
    ph__cuda_submission_begin(&submission, stream);
    ph__cu_function function = choose_fill(&submission, stream, bytes);
    int result = function ? fill_by_kernel(stream, function, &fill) : fill_plain(stream, &fill);
    if (submission.capturing) {
        ph__drv_node node = {.is_core_fill = function != NULL,
                             .info = {.kind = PH_NODE_MEMSET, .fill = fill}};
        ph__cuda_submission_keep(&submission, stream, &node, result);
    } else {
        ph__cuda_submission_leave(&submission, stream);
    }
    return result;
}

/* ---- host functions ---- */

int ph__cuda_host(ph__drv_stream *stream, const ph__drv_host *host)
{
    if (!host->fn)
        return PH__R_INVALID_VALUE;
    ph__cuda_submission submission;
    ph__cuda_submission_begin(&submission, stream);
    int result;
    ON_STREAM(result, stream, ph__cu.LaunchHostFunc(stream->handle, host->fn, host->user));
    if (submission.capturing) {
        ph__drv_node node = {.info = {.kind = PH_NODE_HOST, .host = *host}};
        ph__cuda_submission_keep(&submission, stream, &node, result);
    } else {
        ph__cuda_submission_leave(&submission, stream);
    }
    return result;
}

/* ---- child graphs ---- */

/* The driver copies the graph now. Its node takes the place of what the stream's next one would
 * have depended on. */
int ph__cuda_child(ph__drv_stream *stream, ph__drv_graph *graph)
{
    int status = PH__CU_CAPTURE_STATUS_NONE;
    uint64_t id;
    ph__cu_graph into = NULL;
    const ph__cu_node *nodes = NULL;
    const ph__cu_edge *edges = NULL;
    size_t count = 0;
    ph__cu_node node;
    if (!stream->handle)
        return PH__R_ILLEGAL_STATE;
    bool entered = ph__cuda_order_enter(stream);
    int result =
        ph__cu.StreamGetCaptureInfo(stream->handle, &status, &id, &into, &nodes, &edges, &count);
    if (result == PH__R_OK && status != PH__CU_CAPTURE_STATUS_ACTIVE)
        result =
            status == PH__CU_CAPTURE_STATUS_NONE ? PH__R_ILLEGAL_STATE : PH__R_CAPTURE_INVALIDATED;
    if (result == PH__R_OK)
        result = ph__cu.GraphAddChildGraphNode(&node, into, nodes, count, graph->handle);
    if (result == PH__R_OK) {
        result = ph__cu.StreamUpdateCaptureDependencies(stream->handle, &node, NULL, 1,
                                                        PH__CU_SET_CAPTURE_DEPENDENCIES);
        /* a node that nobody accounts for must not be replayed: this ends the capture */
        if (result != PH__R_OK)
            (void)ph__cu.StreamQuery(stream->handle);
    }
    const ph__drv_node to_read = {.info = {.kind = PH_NODE_GRAPH}};
    if (result == PH__R_OK)
        ph__cuda_submission_add(stream->device, id, &to_read);
    ph__cuda_order_leave(stream, entered);
    return result;
}
