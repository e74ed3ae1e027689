/* SPDX-License-Identifier: MIT */
/* driver/host/device/work.c: launches, copies, fills, host functions: queued, recorded or run at
 * once. */
#include "base/checked.h"
#include "driver/host/capture/capture.h"
#include "driver/host/resource/body.h"
#include "driver/host/resource/grid.h"
#include "driver/host/resource/memory.h"
#include "driver/host/stream/command.h"
#include "driver/host/stream/entries.h"
#include "driver/host/stream/legacy.h"
#include "driver/host/stream/queue.h"
#include "driver/host/stream/wait.h"
#include "driver/reason.h"
#include <string.h>

/* args: what the function of the work is called with. outside: memory of the command's own,
 * freed after it; the arguments or staged bytes that do not fit inside. */
typedef struct work {
    ph__host_command command;
    ph__host_stream *stream;
    void *outside;
    union {
        struct {
            ph__host_kernel *kernel;
            ph__drv_launch launch;
        } kernel;
        ph__drv_memcpy copy;
        ph__drv_memset fill;
        ph__drv_host host;
    } what;
    _Alignas(16) unsigned char inside[256];
} work;
_Static_assert(sizeof(work) <= PH__HOST_COMMAND_BYTES,
               "commands of all kinds are recycled as one size");

/* Copies and fills up to this size are run by the caller when the stream is idle: a wake costs
 * more. */
#define INLINE_BYTES ((size_t)64 << 10)

/* ---- commands ---- */

static work *work_create(ph__host_stream *stream, void (*run)(ph__host_command *command))
{
    work *fresh = ph__host_command_acquire(stream);
    if (!fresh)
        return NULL;
    fresh->command = (ph__host_command){.run = run};
    fresh->stream = stream;
    fresh->outside = NULL;
    return fresh;
}

/* Room for bytes that live as long as the command; NULL when out of memory. */
static void *work_room(work *of, size_t bytes)
{
    if (bytes <= sizeof of->inside)
        return of->inside;
    of->outside = ph__alloc(bytes);
    return of->outside;
}

static void work_finish(work *done)
{
    ph__free(done->outside);
    ph__host_command_finish(done->stream, done);
}

static void run_kernel(ph__host_command *command)
{
    work *self = (work *)command;
    ph__host_run_grid(self->stream->device, self->what.kernel.kernel, &self->what.kernel.launch,
                      ph__host_stream_scratch(self->stream));
    ph__host_kernel_release(self->what.kernel.kernel);
    work_finish(self);
}

static void run_copy(ph__host_command *command)
{
    work *self = (work *)command;
    ph__host_copy_fn(NULL, &self->what.copy);
    work_finish(self);
}

static void run_fill(ph__host_command *command)
{
    work *self = (work *)command;
    ph__host_fill_fn(NULL, &self->what.fill);
    work_finish(self);
}

static void run_host(ph__host_command *command)
{
    work *self = (work *)command;
    ph__host_host_fn(NULL, &self->what.host);
    work_finish(self);
}

/* ---- the entries ---- */

static bool is_capturing(ph__host_stream *stream)
{
    return atomic_load_explicit(&stream->capturing, memory_order_acquire);
}

/* Another thread has ended the capture since the stream was seen in it: the work is ordinary
 * work. */
static bool is_over(int recorded)
{
    return recorded == PH__R_ILLEGAL_STATE;
}

static int apply_rule(ph__host_stream *stream, ph__rule other, ph__rule legacy_blocking)
{
    return stream->is_legacy ? ph__host_rule_legacy(stream->device, legacy_blocking)
                             : ph__host_rule(stream->device, other);
}

/* ---- inline kernels ---- run by the caller when the stream is idle: nothing that they must come
 * behind is left then, as waits for other streams are commands of the queue. Never on the legacy
 * stream, where a lock of the layer above is held. */
enum {
    INLINE_BLOCKS = 4,
    MOST_ARGS = 4096,
    ARGS_ALIGNMENT = 16
};

static uint64_t blocks_of(const ph__drv_launch *launch)
{
    return (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
}

static bool may_run_inline(const ph__host_stream *stream, const ph__host_kernel *kernel,
                           uint64_t blocks)
{
    return kernel->is_inline && !stream->is_legacy && kernel->args_size <= MOST_ARGS &&
           blocks <= INLINE_BLOCKS;
}

/* The owner of the stream's turn: whether there is so much shared memory. */
static bool has_scratch(const ph__host_stream *stream, size_t bytes)
{
    return bytes == 0 || ph__host_stream_scratch(stream).stride >= bytes;
}

/* Out of line, so that what is usual has no room for them. */
static __attribute__((noinline)) void call_aligned(const ph__host_kernel *kernel,
                                                   const ph_block_range *range, const void *args)
{
    _Alignas(ARGS_ALIGNMENT) unsigned char aligned[MOST_ARGS];
    kernel->fn(range, memcpy(aligned, args, kernel->args_size));
}

static bool run_inline(ph__host_stream *stream, const ph__host_kernel *kernel,
                       const ph__drv_launch *launch, uint64_t blocks)
{
    if (!ph__host_stream_try_inline(stream))
        return false;
    if (!has_scratch(stream, launch->shared_bytes)) {
        ph__host_stream_leave_inline(stream);
        return false;
    }
    ph_block_range range = {.begin = 0,
                            .end = blocks,
                            .shared =
                                launch->shared_bytes ? ph__host_stream_scratch(stream).at : NULL};
    memcpy(range.grid, launch->grid, sizeof range.grid);
    memcpy(range.block, launch->block, sizeof range.block);
    ph__driver_enter_inline();
    if ((uintptr_t)launch->args % ARGS_ALIGNMENT != 0)
        call_aligned(kernel, &range, launch->args);
    else
        kernel->fn(&range, launch->args);
    ph__driver_leave_inline();
    ph__host_stream_leave_inline(stream);
    return true;
}

static int queue_launch(ph__host_stream *stream, ph__host_kernel *kernel,
                        const ph__drv_launch *launch)
{
    int result = ph__host_stream_enter(stream);
    if (!result)
        result = ph__host_stream_reserve_scratch(stream, launch->shared_bytes);
    if (result)
        return result;
    work *fresh = work_create(stream, run_kernel);
    if (!fresh)
        return PH__R_OUT_OF_MEMORY;
    fresh->what.kernel.kernel = kernel;
    fresh->what.kernel.launch = *launch;
    fresh->what.kernel.launch.args = NULL;
    if (kernel->args_size > 0) {
        void *args = work_room(fresh, kernel->args_size);
        if (!args) {
            ph__host_command_drop(stream, fresh);
            return PH__R_OUT_OF_MEMORY;
        }
        fresh->what.kernel.launch.args = memcpy(args, launch->args, kernel->args_size);
    }
    ph__host_kernel_retain(kernel);
    ph__host_stream_submit(stream, &fresh->command);
    return 0;
}

int ph__host_launch(ph__drv_stream *handle, ph__drv_kernel *kernel_handle,
                    const ph__drv_launch *launch)
{
    ph__host_stream *stream = (ph__host_stream *)handle;
    ph__host_kernel *kernel = (ph__host_kernel *)kernel_handle;
    if (kernel->device != stream->device)
        return PH__R_INVALID_HANDLE;
    int result = launch->checked ? 0 : ph__host_check_launch(kernel, launch);
    if (result)
        return result;
    if (is_capturing(stream) && !is_over(result = ph__host_record_kernel(stream, kernel, launch)))
        return result;
    result = apply_rule(stream, PH__RULE_LAUNCH_OTHER, PH__RULE_LAUNCH_LEGACY_BLOCKING);
    if (result)
        return result;
    const uint64_t blocks = blocks_of(launch);
    if (may_run_inline(stream, kernel, blocks)) {
        result = ph__host_stream_order(stream);
        if (result || run_inline(stream, kernel, launch, blocks))
            return result;
    }
    return queue_launch(stream, kernel, launch);
}

static int check_copy(const ph__drv_memcpy *copy)
{
    return copy->bytes > 0 && (!copy->dst || !copy->src) ? PH__R_INVALID_VALUE : 0;
}

/* staged: the source is read now. The command's number in *number. */
static int queue_copy(ph__host_stream *stream, const ph__drv_memcpy *copy, bool staged,
                      unsigned *number)
{
    int result = ph__host_stream_enter(stream);
    if (result)
        return result;
    work *fresh = work_create(stream, run_copy);
    if (!fresh)
        return PH__R_OUT_OF_MEMORY;
    fresh->what.copy = *copy;
    if (staged) {
        void *staging = work_room(fresh, copy->bytes);
        if (!staging) {
            ph__host_command_drop(stream, fresh);
            return PH__R_OUT_OF_MEMORY;
        }
        fresh->what.copy.src = memcpy(staging, copy->src, copy->bytes);
    }
    *number = ph__host_stream_submit(stream, &fresh->command);
    return 0;
}

/* In stream order after what was submitted before; waits when `wait`. */
static int submit_copy(ph__host_stream *stream, const ph__drv_memcpy *copy, bool wait)
{
    if (copy->bytes == 0)
        return 0;
    int result = ph__host_stream_order(stream);
    if (result)
        return result;
    bool pageable_source = ph__host_memory_kind(stream->device, copy->src) == PH__MEMORY_PAGEABLE;
    wait |= ph__host_memory_kind(stream->device, copy->dst) == PH__MEMORY_PAGEABLE;
    bool at_once = wait || pageable_source || copy->bytes <= INLINE_BYTES;
    if (at_once && ph__host_stream_try_inline(stream)) {
        ph__host_copy_fn(NULL, copy);
        ph__host_stream_leave_inline(stream);
        return 0;
    }
    unsigned number;
    if (wait && (result = ph__host_wait_check()))
        return result;
    result = queue_copy(stream, copy, pageable_source && !wait, &number);
    if (!result && wait)
        ph__host_queue_wait(stream, number);
    return result;
}

int ph__host_copy(ph__drv_stream *handle, const ph__drv_memcpy *copy, uint64_t *capture_id)
{
    ph__host_stream *stream = (ph__host_stream *)handle;
    int result = check_copy(copy);
    if (result)
        return result;
    if (is_capturing(stream) && !is_over(result = ph__host_record_copy(stream, copy, capture_id)))
        return result;
    result = apply_rule(stream, PH__RULE_COPY_OTHER, PH__RULE_COPY_LEGACY_BLOCKING);
    return result ? result : submit_copy(stream, copy, false);
}

int ph__host_copy_sync(ph__drv_device *handle, const ph__drv_memcpy *copy)
{
    ph__host_device *device = (ph__host_device *)handle;
    int result = check_copy(copy);
    if (!result)
        result = ph__host_rule(device, PH__RULE_COPY_SYNC);
    if (!result)
        result = ph__host_rule_legacy(device, PH__RULE_COPY_SYNC_BLOCKING);
    return result ? result : submit_copy(device->legacy, copy, true);
}

static int check_fill(const ph__drv_memset *fill)
{
    size_t bytes;
    if ((fill->value_size != 1 && fill->value_size != 4) ||
        !ph__mul(fill->count, fill->value_size, &bytes) || (bytes > 0 && !fill->dst) ||
        (uintptr_t)fill->dst % fill->value_size != 0)
        return PH__R_INVALID_VALUE;
    return 0;
}

int ph__host_fill(ph__drv_stream *handle, const ph__drv_memset *fill)
{
    ph__host_stream *stream = (ph__host_stream *)handle;
    int result = check_fill(fill);
    if (result)
        return result;
    if (is_capturing(stream) && !is_over(result = ph__host_record_fill(stream, fill)))
        return result;
    result = apply_rule(stream, PH__RULE_FILL_OTHER, PH__RULE_FILL_LEGACY_BLOCKING);
    if (result || fill->count == 0)
        return result;
    result = ph__host_stream_order(stream);
    if (result)
        return result;
    if (fill->count * fill->value_size <= INLINE_BYTES && ph__host_stream_try_inline(stream)) {
        ph__host_fill_fn(NULL, fill);
        ph__host_stream_leave_inline(stream);
        return 0;
    }
    result = ph__host_stream_enter(stream);
    if (result)
        return result;
    work *fresh = work_create(stream, run_fill);
    if (!fresh)
        return PH__R_OUT_OF_MEMORY;
    fresh->what.fill = *fill;
    ph__host_stream_submit(stream, &fresh->command);
    return 0;
}

int ph__host_host(ph__drv_stream *handle, const ph__drv_host *host)
{
    ph__host_stream *stream = (ph__host_stream *)handle;
    if (!host->fn)
        return PH__R_INVALID_VALUE;
    int result = PH__R_OK;
    if (is_capturing(stream) && !is_over(result = ph__host_record_host(stream, host)))
        return result;
    result = apply_rule(stream, PH__RULE_HOST_OTHER, PH__RULE_HOST_LEGACY_BLOCKING);
    if (!result)
        result = ph__host_stream_enter(stream);
    if (result)
        return result;
    work *fresh = work_create(stream, run_host);
    if (!fresh)
        return PH__R_OUT_OF_MEMORY;
    fresh->what.host = *host;
    ph__host_stream_submit(stream, &fresh->command);
    return 0;
}
