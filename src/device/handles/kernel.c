/* SPDX-License-Identifier: MIT */
/* device/handles/kernel.c: kernels: checks of their description, creation, references. */
#include "device/handles/kernel.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/fork.h"
#include "base/map.h"
#include "device/handles/device.h"
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

/* One whose last reference is gone is not to be had again. */
static bool retain_living(ph_kernel *kernel)
{
    int references = atomic_load_explicit(&kernel->references, memory_order_relaxed);
    while (references > 0)
        if (atomic_compare_exchange_weak_explicit(&kernel->references, &references, references + 1,
                                                  memory_order_relaxed, memory_order_relaxed))
            return true;
    return false;
}

ph_kernel *ph__kernel_acquire(const ph_device *device, const ph__drv_kernel *handle)
{
    pthread_mutex_lock(&registry.lock);
    ph_kernel *found = ph__map_get(&registry.kernels, key_of(handle));
    if (found && (found->device != device || !retain_living(found)))
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

static bool is_count(const ph_kernel_source *source, size_t offset)
{
    for (size_t i = 0; i < source->param_count; i++) {
        const ph_param *param = &source->params[i];
        if (param->offset == offset)
            return param->kind == PH_PARAM_VALUE && (param->size == 4 || param->size == 8);
    }
    return false;
}

static ph_status check_access(const ph_kernel_source *source, size_t index, const char *call)
{
    const ph_param *param = &source->params[index];
    const ph_param_access *access = &param->access;
    const char *wrong = NULL;
    if ((unsigned)access->kind > PH_ACCESS_INOUT)
        wrong = "access.kind is none of ph_access_kind";
    else if (access->kind != PH_ACCESS_UNKNOWN && param->kind != PH_PARAM_ADDRESS)
        wrong = "an access is declared of a value; only an ADDRESS has one";
    else if (access->kind == PH_ACCESS_UNKNOWN && (access->bytes || access->count))
        wrong = "access.bytes or access.count is set, but access.kind is not";
    else if (access->count && access->bytes == 0)
        wrong = "access.count is set, but access.bytes is 0; set the bytes of one element";
    else if (access->count && !is_count(source, access->count - 1))
        wrong = "access.count is not 1 + the offset of a VALUE parameter of 4 or 8 bytes";
    if (wrong == NULL)
        return PH_OK;
    return ph__fail_native(PH_ERROR_ARGUMENT, 0, NULL, "%s: kernel %s: parameter %zu (%s): %s",
                           call, source->name, index, param->name ? param->name : "unnamed", wrong);
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
        if (param->kind > PH_PARAM_ADDRESS || !ph__reserved_ok(param->access.reserved, 2) ||
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
    for (size_t i = 0; i < source->param_count; i++)
        PH_TRY(check_access(source, i, call));
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

void ph__kernel_destroy(ph_kernel *kernel, ph_device *device)
{
    registry_remove(kernel);
    device->driver->kernel_destroy(kernel->handle);
    free_kernel(kernel);
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

/* A fault in the source is the caller's to mend; the driver's words describe it. */
ph_status ph__kernel_fail_create(int result, const ph_device *device, const char *name,
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
        return ph__kernel_fail_create(result, device, source->name, call);
    return ph__kernel_make(out, device, handle, source, call);
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
    ph__kernel_destroy(kernel, device);
    ph_device_release(device);
}

const char *ph_kernel_name(const ph_kernel *kernel)
{
    return kernel ? kernel->name : "";
}
