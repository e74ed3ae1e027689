/* SPDX-License-Identifier: MIT */
/* device/kernel.c: kernels: creation, checks of their description, launches. */
#include "base/alloc.h"
#include "base/checked.h"
#include "base/fork.h"
#include "device/stream.h"
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* All kernels of the process by the driver's handle, so that a captured node finds its kernel
 * again. No references are held. */
static struct {
    pthread_mutex_t lock;
    ph__map kernels;
} registry = {.lock = PTHREAD_MUTEX_INITIALIZER};
PH__FORK_LOCK(PH__FORK_KERNELS, registry.lock)

static uint64_t key_of(const ph__drv_kernel *handle)
{
    return (uintptr_t)handle;
}

static bool registry_add(ph_kernel *kernel)
{
    pthread_mutex_lock(&registry.lock);
    bool added = ph__map_put(&registry.kernels, key_of(kernel->handle), kernel);
    pthread_mutex_unlock(&registry.lock);
    return added;
}

/* The last one takes the map with it, so that a process that has closed everything holds no
 * memory. */
static void registry_remove(const ph_kernel *kernel)
{
    pthread_mutex_lock(&registry.lock);
    (void)ph__map_remove(&registry.kernels, key_of(kernel->handle));
    if (registry.kernels.count == 0)
        ph__map_free(&registry.kernels);
    pthread_mutex_unlock(&registry.lock);
}

ph_kernel *ph__kernel_of(const ph_device *device, const ph__drv_kernel *handle)
{
    pthread_mutex_lock(&registry.lock);
    ph_kernel *found = ph__map_get(&registry.kernels, key_of(handle));
    if (found && found->device != device)
        found = NULL;
    pthread_mutex_unlock(&registry.lock);
    return found;
}

static ph_status check_source(const ph_kernel_source *source, const char *call)
{
    if (!source->name || source->name[0] == '\0')
        return ph__fail_native(PH_ERROR_ARGUMENT, 0, NULL, "%s: the source has no name", call);
    if (!PH__RESERVED_OK(source))
        return ph__fail_reserved(call, "ph_kernel_source");
    if (!source->cuda_image != !source->cuda_image_bytes)
        return ph__fail_native(
            PH_ERROR_ARGUMENT, 0, NULL,
            "%s: kernel %s: cuda_image is %s and cuda_image_bytes is %zu; an image needs both, "
            "other kernels neither",
            call, source->name, source->cuda_image ? "set" : "NULL", source->cuda_image_bytes);
    return ph__kernel_check_params(source, call);
}

ph_status ph__kernel_check_params(const ph_kernel_source *source, const char *call)
{
    if (source->args_size > 4096)
        return ph__fail_native(PH_ERROR_ARGUMENT, PH__R_INVALID_VALUE, PH__NAME_LAUNCH_KERNEL,
                               "%s: kernel %s takes %zu bytes of arguments; at most 4096", call,
                               source->name, source->args_size);
    if (source->param_count != 0 && !source->params)
        return ph__fail_native(PH_ERROR_ARGUMENT, 0, NULL,
                               "%s: kernel %s: param_count is %zu, params is NULL", call,
                               source->name, source->param_count);
    size_t end = 0;
    for (size_t i = 0; i < source->param_count; i++) {
        const ph_param *param = &source->params[i];
        size_t stop;
        if (param->kind > PH_PARAM_ADDRESS || !ph__reserved_ok(param->reserved, 2) ||
            param->offset < end || param->size == 0 ||
            !ph__add(param->offset, param->size, &stop) || stop > source->args_size ||
            (param->kind == PH_PARAM_ADDRESS && param->size != sizeof(void *)))
            return ph__fail_native(
                PH_ERROR_ARGUMENT, 0, NULL,
                "%s: kernel %s: parameter %zu (%s) must lie inside the %zu bytes of "
                "arguments, after the one before it; "
                "an address is %zu bytes",
                call, source->name, i, param->name ? param->name : "unnamed", source->args_size,
                sizeof(void *));
        end = stop;
    }
    return PH_OK;
}

static bool copy_description(ph_kernel *kernel, const ph_kernel_source *source)
{
    kernel->name = ph__strdup(source->name);
    if (!kernel->name)
        return false;
    if (source->param_count == 0)
        return true;
    size_t bytes = source->param_count * sizeof *source->params;
    for (size_t i = 0; i < source->param_count; i++)
        bytes += strlen(source->params[i].name ? source->params[i].name : "") + 1;
    kernel->params = ph__alloc(bytes);
    if (!kernel->params)
        return false;
    char *names = (char *)(kernel->params + source->param_count);
    for (size_t i = 0; i < source->param_count; i++) {
        const char *name = source->params[i].name ? source->params[i].name : "";
        size_t length = strlen(name) + 1;
        kernel->params[i] = source->params[i];
        memcpy(names, name, length);
        kernel->params[i].name = names;
        names += length;
    }
    kernel->param_count = source->param_count;
    return true;
}

static void free_kernel(ph_kernel *kernel)
{
    ph__free(kernel->params);
    ph__free(kernel->name);
    ph__free(kernel);
}

ph_status ph__kernel_make(ph_kernel **out, ph_device *device, ph__drv_kernel *handle,
                          const ph_kernel_source *source, const char *call)
{
    ph_kernel *kernel = ph__calloc(1, sizeof *kernel);
    bool made = kernel && copy_description(kernel, source);
    if (made) {
        kernel->handle = handle;
        kernel->args_size = source->args_size;
        kernel->device = device;
        atomic_init(&kernel->references, 1);
        made = registry_add(kernel);
    }
    if (!made) {
        if (kernel)
            free_kernel(kernel);
        device->driver->kernel_destroy(handle);
        return ph__fail_host_memory(call, "the kernel");
    }
    ph_device_retain(device);
    *out = kernel;
    return PH_OK;
}

/* What is wrong with the source is the caller's to mend; the driver's words say it. */
static ph_status fail_create(int result, const ph_device *device, const char *name,
                             const char *call)
{
    const char *reason = ph__driver_reason();
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the kernel");
    switch (result) {
    case PH__R_NOT_SUPPORTED:
        return ph__fail_native(PH_ERROR_UNSUPPORTED, result, PH__NAME_MODULE_LOAD_DATA,
                               "%s: kernel %s has no form that device %s can run: %s", call, name,
                               device->name, reason);
    case PH__R_NO_BINARY:
        return ph__fail_native(PH_ERROR_UNSUPPORTED, result, PH__NAME_MODULE_LOAD_DATA,
                               "%s: the image of kernel %s has no code for device %s%s%s", call,
                               name, device->name, reason[0] ? ": " : "", reason);
    case PH__R_INVALID_VALUE:
    case PH__R_INVALID_IMAGE:
    case PH__R_INVALID_PTX:
    case PH__R_NOT_FOUND:
        return ph__fail_native(PH_ERROR_ARGUMENT, result, PH__NAME_MODULE_LOAD_DATA,
                               "%s: kernel %s: %s", call, name,
                               reason[0] ? reason : ph__result_text(result));
    default:
        return ph__driver_fail(result, PH__NAME_MODULE_LOAD_DATA, "%s: kernel %s", call, name);
    }
}

ph_status ph_kernel_create(ph_kernel **out, ph_device *device, const ph_kernel_source *source)
{
    static const char call[] = "ph_kernel_create";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!device)
        return ph__fail_null(call, "device");
    if (!source)
        return ph__fail_null(call, "source");
    PH_TRY(check_source(source, call));
    ph__drv_kernel *handle = NULL;
    int result = device->driver->kernel_create(&handle, device->handle, source);
    if (result != PH__R_OK)
        return fail_create(result, device, source->name, call);
    return ph__kernel_make(out, device, handle, source, call);
}

/* ---- the library's own ---- */
static ph_status make_cells_kernel(ph_kernel **out, ph_device *device, unsigned room,
                                   const char *call)
{
    char names[2 * PH__CELLS_MANY][sizeof "value4294967295"];
    ph_param params[1 + 2 * PH__CELLS_MANY] = {{"count", PH_PARAM_VALUE, 0, sizeof(uint64_t), {0}}};
    ph__drv_kernel *handle = NULL;
    for (size_t i = 0; i < 2 * (size_t)room; i++) {
        bool address = i % 2 == 0;
        (void)snprintf(names[i], sizeof names[i], "%s%u", address ? "at" : "value",
                       (unsigned)(i / 2));
        params[1 + i] = (ph_param){names[i],
                                   address ? PH_PARAM_ADDRESS : PH_PARAM_VALUE,
                                   sizeof(ph__drv_cells) + i * sizeof(uint64_t),
                                   sizeof(uint64_t),
                                   {0}};
    }
    ph_kernel_source source = {.name =
                                   room == PH__CELLS_FEW ? "ph_core_cells_8" : "ph_core_cells_60",
                               .args_size = ph__cells_args_size(room),
                               .params = params,
                               .param_count = 1 + 2 * (size_t)room};
    int result = device->driver->kernel_cells(&handle, device->handle, room);
    if (result != PH__R_OK)
        return fail_create(result, device, source.name, call);
    return ph__kernel_make(out, device, handle, &source, call);
}

/* A part of the device, which it does not retain. */
static ph_status keep_own(ph_kernel **out, _Atomic(ph_kernel *) *at, ph_kernel *made)
{
    ph_device *device = made->device;
    if (!atomic_compare_exchange_strong(at, out, made)) {
        ph_kernel_release(made); /* another thread's came first */
        return PH_OK;
    }
    *out = made;
    ph_device_release(device);
    return PH_OK;
}

ph_status ph__device_cells_kernel(ph_kernel **out, ph_device *device, unsigned room,
                                  const char *call)
{
    _Atomic(ph_kernel *) *at = &device->cells_kernels[room == PH__CELLS_FEW ? 0 : 1];
    ph_kernel *made = NULL;
    *out = atomic_load_explicit(at, memory_order_acquire);
    if (*out)
        return PH_OK;
    PH_TRY(make_cells_kernel(&made, device, room, call));
    return keep_own(out, at, made);
}

static ph_status make_watch_kernel(ph_kernel **out, ph_device *device, ph__watch_kernel which,
                                   const char *call)
{
    static const ph_param crumb[] = {
        {"table", PH_PARAM_ADDRESS, offsetof(ph__drv_crumb, table), sizeof(uint64_t), {0}},
        {"number", PH_PARAM_VALUE, offsetof(ph__drv_crumb, number), sizeof(uint64_t), {0}}};
    static const ph_param finite[] = {
        {"address", PH_PARAM_ADDRESS, offsetof(ph__drv_finite, address), sizeof(uint64_t), {0}},
        {"count", PH_PARAM_VALUE, offsetof(ph__drv_finite, count), sizeof(uint64_t), {0}},
        {"type", PH_PARAM_VALUE, offsetof(ph__drv_finite, type), sizeof(uint32_t), {0}},
        {"number", PH_PARAM_VALUE, offsetof(ph__drv_finite, number), sizeof(uint32_t), {0}},
        {"parts", PH_PARAM_ADDRESS, offsetof(ph__drv_finite, parts), sizeof(uint64_t), {0}}};
    static const ph_kernel_source sources[PH__WATCH_KERNELS] = {
        [PH__WATCH_CRUMB] = {.name = "phonograph_crumb",
                             .args_size = sizeof(ph__drv_crumb),
                             .params = crumb,
                             .param_count = sizeof crumb / sizeof crumb[0]},
        [PH__WATCH_FINITE] = {.name = "phonograph_check_finite",
                              .args_size = sizeof(ph__drv_finite),
                              .params = finite,
                              .param_count = sizeof finite / sizeof finite[0]}};
    ph__drv_kernel *handle = NULL;
    int result = device->driver->kernel_watch(&handle, device->handle, which);
    if (result != PH__R_OK)
        return fail_create(result, device, sources[which].name, call);
    return ph__kernel_make(out, device, handle, &sources[which], call);
}

ph_status ph__device_watch_kernel(ph_kernel **out, ph_device *device, ph__watch_kernel which,
                                  const char *call)
{
    _Atomic(ph_kernel *) *at = &device->watch_kernels[which];
    ph_kernel *made = NULL;
    *out = atomic_load_explicit(at, memory_order_acquire);
    if (*out)
        return PH_OK;
    PH_TRY(make_watch_kernel(&made, device, which, call));
    return keep_own(out, at, made);
}

static void drop_own(_Atomic(ph_kernel *) *at, ph_device *device)
{
    ph_kernel *kernel = atomic_load(at);
    if (!kernel)
        return;
    registry_remove(kernel);
    device->driver->kernel_destroy(kernel->handle);
    free_kernel(kernel);
}

void ph__device_drop_own_kernels(ph_device *device)
{
    for (size_t i = 0; i < sizeof device->cells_kernels / sizeof device->cells_kernels[0]; i++)
        drop_own(&device->cells_kernels[i], device);
    for (size_t i = 0; i < PH__WATCH_KERNELS; i++)
        drop_own(&device->watch_kernels[i], device);
}

size_t ph_kernel_args_size(const ph_kernel *kernel)
{
    return kernel ? kernel->args_size : 0;
}

ph_kernel *ph_kernel_retain(ph_kernel *kernel)
{
    if (kernel)
        atomic_fetch_add_explicit(&kernel->references, 1, memory_order_relaxed);
    return kernel;
}

void ph_kernel_release(ph_kernel *kernel)
{
    if (!kernel || atomic_fetch_sub_explicit(&kernel->references, 1, memory_order_acq_rel) != 1)
        return;
    ph_device *device = kernel->device;
    if (device->forked)
        return;
    registry_remove(kernel);
    device->driver->kernel_destroy(kernel->handle);
    free_kernel(kernel);
    ph_device_release(device);
}

const char *ph_kernel_name(const ph_kernel *kernel)
{
    return kernel ? kernel->name : "";
}

static bool is_within_limits(const ph__drv_launch *launch)
{
    const uint32_t *grid = launch->grid, *block = launch->block;
    return grid[0] <= 0x7fffffff && grid[1] <= 65535 && grid[2] <= 65535 && block[0] <= 1024 &&
           block[1] <= 1024 && block[2] <= 64 && (uint64_t)block[0] * block[1] * block[2] <= 1024;
}

static ph_status check_limits(const ph__drv_launch *launch, const char *name, const char *call)
{
    if (!is_within_limits(launch))
        return ph__fail_native(
            PH_ERROR_ARGUMENT, PH__R_INVALID_VALUE, PH__NAME_LAUNCH_KERNEL,
            "%s: kernel %s: grid %ux%ux%u of blocks %ux%ux%u exceeds the limits: grids of "
            "2147483647x65535x65535, blocks "
            "of 1024x1024x64 and 1024 threads",
            call, name, (unsigned)launch->grid[0], (unsigned)launch->grid[1],
            (unsigned)launch->grid[2], (unsigned)launch->block[0], (unsigned)launch->block[1],
            (unsigned)launch->block[2]);
    if (launch->shared_bytes > 232448)
        return ph__fail_native(PH_ERROR_ARGUMENT, PH__R_INVALID_VALUE, PH__NAME_LAUNCH_KERNEL,
                               "%s: kernel %s asks for %zu bytes of shared memory; at most 232448",
                               call, name, launch->shared_bytes);
    return PH_OK;
}

ph_status ph__launch_prepare(ph__drv_launch *out, const ph_kernel *kernel,
                             const ph_launch_config *config, const void *args, size_t args_size,
                             const char *call)
{
    if (args_size != kernel->args_size)
        return ph__fail_native(PH_ERROR_ARGUMENT, PH__R_INVALID_VALUE, PH__NAME_LAUNCH_KERNEL,
                               "%s: kernel %s takes %zu bytes of arguments and got %zu; pass "
                               "sizeof its argument struct",
                               call, kernel->name, kernel->args_size, args_size);
    if (args_size != 0 && !args)
        return ph__fail_null(call, "args");
    if (config && !PH__RESERVED_OK(config))
        return ph__fail_reserved(call, "ph_launch_config");
    for (int i = 0; i < 3; i++) {
        out->grid[i] = config && config->grid[i] ? config->grid[i] : 1;
        out->block[i] = config && config->block[i] ? config->block[i] : 1;
    }
    out->shared_bytes = config ? config->shared_bytes : 0;
    out->programmatic = config && config->programmatic;
    out->args = args;
    out->capture_id = NULL;
    return check_limits(out, kernel->name, call);
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

ph_status ph_launch(ph_stream *stream, ph_kernel *kernel, const ph_launch_config *config,
                    const void *args, size_t args_size)
{
    static const char call[] = "ph_launch";
    PH_TRY(ph__stream_check(stream, call));
    if (!kernel)
        return ph__fail_null(call, "kernel");
    if (kernel->device != stream->device)
        return ph__fail_devices(call, kernel->name, kernel->device, "the stream", stream->device);
    ph__drv_launch launch;
    PH_TRY(ph__launch_prepare(&launch, kernel, config, args, args_size, call));
    uint64_t capture_id = 0;
    launch.capture_id = &capture_id;
    if (atomic_load_explicit(&stream->device->foreign, memory_order_relaxed))
        PH_TRY(retain_in_capture(stream, kernel, call));
    bool held;
    PH_TRY(ph__submit_enter(&held, stream, PH__RULE_LAUNCH_LEGACY_BLOCKING, call));
    int result = stream->device->driver->launch(stream->handle, kernel->handle, &launch);
    ph__submit_leave(held, stream);
    if (capture_id) {
        atomic_fetch_add_explicit(&stream->device->captured_calls, 1, memory_order_relaxed);
        keep_in_capture(stream, kernel, capture_id);
    }
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the launch");
    return result == PH__R_OK ? PH_OK
                              : ph__stream_fail(result, stream, PH__NAME_LAUNCH_KERNEL,
                                                "%s: kernel %s", call, kernel->name);
}
