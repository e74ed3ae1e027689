/* SPDX-License-Identifier: MIT */
/* device/launch.c: launches of kernels. */
#include "device/launch.h"
#include "device/capture/culprit.h"
#include "device/capture/outside.h"
#include "device/capture/submit.h"
#include "device/handles/captures.h"
#include "device/handles/device.h"
#include "device/handles/kernel.h"

static bool is_within_limits(const uint32_t grid[3], const uint32_t block[3])
{
    return grid[0] <= 0x7fffffff && grid[1] <= 65535 && grid[2] <= 65535 && block[0] <= 1024 &&
           block[1] <= 1024 && block[2] <= 64 && (uint64_t)block[0] * block[1] * block[2] <= 1024;
}

/* Out of line, so that what is usual stays small. */
__attribute__((cold, noinline)) static ph_status
fail_launch_limits(const ph__drv_launch *launch, const char *name, const char *call)
{
    if (!is_within_limits(launch->grid, launch->block))
        return ph__fail_native(
            PH_ERROR_ARGUMENT, PH__R_INVALID_VALUE, PH__NAME_LAUNCH_KERNEL,
            "%s: kernel %s: grid %ux%ux%u of blocks %ux%ux%u exceeds the limits: grids of "
            "2147483647x65535x65535, blocks "
            "of 1024x1024x64 and 1024 threads",
            call, name, (unsigned)launch->grid[0], (unsigned)launch->grid[1],
            (unsigned)launch->grid[2], (unsigned)launch->block[0], (unsigned)launch->block[1],
            (unsigned)launch->block[2]);
    return ph__fail_native(PH_ERROR_ARGUMENT, PH__R_INVALID_VALUE, PH__NAME_LAUNCH_KERNEL,
                           "%s: kernel %s asks for %zu bytes of shared memory; at most 232448",
                           call, name, launch->shared_bytes);
}

__attribute__((cold, noinline)) static ph_status
fail_launch_args(const ph_kernel *kernel, const void *args, size_t args_size, const char *call)
{
    if (args_size != kernel->args_size)
        return ph__fail_native(PH_ERROR_ARGUMENT, PH__R_INVALID_VALUE, PH__NAME_LAUNCH_KERNEL,
                               "%s: kernel %s takes %zu bytes of arguments and got %zu; pass "
                               "sizeof its argument struct",
                               call, kernel->name, kernel->args_size, args_size);
    return args_size != 0 && !args ? ph__fail_null(call, "args")
                                   : ph__fail_reserved(call, "ph_launch_config");
}

static uint32_t size_or_one(uint32_t size)
{
    return size + (size == 0);
}

static inline __attribute__((always_inline)) ph_status
prepare(ph__drv_launch *out, const ph_kernel *kernel, const ph_launch_config *config,
        const void *args, size_t args_size, const char *call)
{
    if (args_size != kernel->args_size || (args_size != 0 && !args) ||
        (config && !PH__RESERVED_OK(config)))
        return fail_launch_args(kernel, args, args_size, call);
    *out = (ph__drv_launch){.grid = {1, 1, 1}, .block = {1, 1, 1}, .args = args};
    if (!config)
        return PH_OK;
    const uint32_t *grid = config->grid, *block = config->block;
    out->grid[0] = size_or_one(grid[0]);
    out->block[0] = size_or_one(block[0]);
    out->shared_bytes = config->shared_bytes;
    out->programmatic = config->programmatic;
    /* Most have one dimension. */
    bool flat = (grid[1] | grid[2] | block[1] | block[2]) <= 1;
    for (int i = 1; !flat && i < 3; i++) {
        out->grid[i] = size_or_one(grid[i]);
        out->block[i] = size_or_one(block[i]);
    }
    bool fits = flat ? out->grid[0] <= 0x7fffffff && out->block[0] <= 1024
                     : is_within_limits(out->grid, out->block);
    return fits && out->shared_bytes <= 232448 ? PH_OK
                                               : fail_launch_limits(out, kernel->name, call);
}

ph_status ph__launch_prepare(ph__drv_launch *out, const ph_kernel *kernel,
                             const ph_launch_config *config, const void *args, size_t args_size,
                             const char *call)
{
    return prepare(out, kernel, config, args, args_size, call);
}

/* After a launch that a capture recorded. Where the kernel cannot be retained for want of
 * memory, its code stays with the device. */
static void keep_in_capture(ph_stream *stream, ph_kernel *kernel, uint64_t capture_id)
{
    if (atomic_load_explicit(&kernel->kept_in, memory_order_relaxed) != capture_id &&
        !ph__capture_keep_kernel(stream, kernel, capture_id))
        stream->device->driver->kernel_keep(kernel->handle);
}

static ph_status retain_in_capture(ph_stream *stream, ph_kernel *kernel, const char *call)
{
    uint64_t capture_id;
    PH_TRY(ph__stream_find_capture(&capture_id, stream, call));
    if (capture_id == 0 || ph__capture_keep_kernel(stream, kernel, capture_id))
        return PH_OK;
    return ph__fail_host_memory(call, "the kernels of the capture");
}

/* False: ph__stream_check says whether the stream may be used. */
static inline bool is_usable(const ph_stream *stream)
{
    return stream && !atomic_load_explicit(&stream->destroyed, memory_order_relaxed) &&
           !ph__device_may_refuse();
}

ph_status ph_launch(ph_stream *stream, ph_kernel *kernel, const ph_launch_config *config,
                    const void *args, size_t args_size)
{
    static const char call[] = "ph_launch";
    if (!is_usable(stream))
        PH_TRY(ph__stream_check(stream, call));
    if (!kernel)
        return ph__fail_null(call, "kernel");
    if (kernel->device != stream->device)
        return ph__fail_devices(call, kernel->name, kernel->device, "the stream", stream->device);
    ph__drv_launch launch;
    PH_TRY(prepare(&launch, kernel, config, args, args_size, call));
    uint64_t capture_id = 0;
    launch.capture_id = &capture_id;
    launch.checked = true;
    if (atomic_load_explicit(&stream->device->foreign, memory_order_relaxed))
        PH_TRY(retain_in_capture(stream, kernel, call));
    bool held;
    PH_TRY(ph__submit_enter(&held, stream, PH__RULE_LAUNCH_LEGACY_BLOCKING, call));
    int result = stream->device->driver->launch(stream->handle, kernel->handle, &launch);
    ph__submit_leave(held, stream);
    if (capture_id) {
        atomic_fetch_add_explicit(&stream->device->captured_calls, 1, memory_order_relaxed);
        keep_in_capture(stream, kernel, capture_id);
    } else if (result == PH__R_OK) {
        ph__outside_note(stream, call);
    }
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the launch");
    return result == PH__R_OK ? PH_OK
                              : ph__stream_fail(result, stream, PH__NAME_LAUNCH_KERNEL,
                                                "%s: kernel %s", call, kernel->name);
}
