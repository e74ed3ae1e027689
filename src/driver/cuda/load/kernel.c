/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/kernel.c: kernels: loading their code, what their parameters need, and shared
 * memory. Loading may count as unsafe in a capture, so the thread's mode is relaxed meanwhile. */
#include "driver/cuda/load/kernel.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "driver/cuda/load/core.h"
#include "driver/cuda/load/device.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/load/image.h"
#include "driver/cuda/load/unload.h"
#include <string.h>

enum {
    SHARED_WITHOUT_ASKING = 48 << 10, /* static and dynamic together */
    PARAMETER_LIMIT = 4096,           /* as many as there can be bytes of arguments */
    LARGEST_ALIGNMENT = 128
};

/* ---- loading ---- */

static int load_module(ph__cu_module *out, const ph__cuda_image *image)
{
    char log[1024] = "";
    int options[] = {PH__CU_JIT_ERROR_LOG_BUFFER, PH__CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *values[] = {log, (void *)(uintptr_t)(sizeof log - 1)};
    int result =
        ph__cuda_report_memory(ph__cu.ModuleLoadDataEx(out, image->at, 2, options, values));
    if (result != PH__R_OK && log[0])
        ph__driver_set_reason("%s", log);
    return result;
}

static int find_function(ph__drv_kernel *kernel)
{
    int result = ph__cu.ModuleGetFunction(&kernel->function, kernel->module, kernel->name);
    if (result == PH__R_NOT_FOUND)
        ph__driver_set_reason("its code has no function \"%s\"; in CUDA C text it must be declared "
                              "extern \"C\" __global__",
                              kernel->name);
    return result;
}

/* ---- parameters ---- */

typedef struct parameter {
    size_t offset, bytes;
} parameter;
typedef PH__VEC(parameter) parameters;

static int read_parameters(parameters *out, ph__cu_function function)
{
    parameter p;
    for (size_t i = 0; i < PARAMETER_LIMIT; i++) {
        int result = ph__cu.FuncGetParamInfo(function, i, &p.offset, &p.bytes);
        if (result == PH__R_INVALID_VALUE)
            break;
        if (result != PH__R_OK)
            return result;
        if (!ph__vec_push(out, p))
            return PH__R_OUT_OF_MEMORY;
    }
    return PH__R_OK;
}

static size_t end_of(const parameters *list)
{
    size_t end = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->at[i].offset + list->at[i].bytes > end)
            end = list->at[i].offset + list->at[i].bytes;
    return end;
}

/* The driver does not say how a parameter is aligned: at most as its offset and its size allow. */
static size_t largest_alignment(const parameters *list)
{
    size_t largest = 1;
    for (size_t i = 0; i < list->count; i++) {
        size_t both = list->at[i].offset | list->at[i].bytes | LARGEST_ALIGNMENT;
        size_t alignment = both & (~both + 1);
        largest = alignment > largest ? alignment : largest;
    }
    return largest;
}

static size_t pad_offset(size_t end, size_t alignment)
{
    return (end + alignment - 1) & ~(alignment - 1);
}

/* The argument struct ends where its last member does, or where its alignment, which is not
 * known, pads it to. */
static int check_args_size(const parameters *list, size_t args_size)
{
    size_t end = end_of(list), largest = largest_alignment(list);
    for (size_t alignment = 1; alignment <= largest; alignment *= 2)
        if (args_size == pad_offset(end, alignment))
            return PH__R_OK;
    ph__driver_set_reason("its parameters take %zu bytes, args_size is %zu: one struct with a "
                          "member per parameter, in "
                          "order",
                          end, args_size);
    return PH__R_INVALID_VALUE;
}

/* Each typed parameter is one of the function's, or lies in one: a struct's members may be told
 * one by one. */
static int check_typed(const parameters *list, const ph_kernel_source *source)
{
    for (size_t i = 0; i < source->param_count; i++) {
        const ph_param *param = &source->params[i];
        size_t j = 0;
        while (j < list->count &&
               (param->offset < list->at[j].offset ||
                param->offset + param->size > list->at[j].offset + list->at[j].bytes))
            j++;
        if (j < list->count)
            continue;
        ph__driver_set_reason(
            "typed parameter %zu (%s), %zu bytes at offset %zu, lies in none of the function's %zu "
            "parameters",
            i, param->name ? param->name : "unnamed", param->size, param->offset, list->count);
        return PH__R_INVALID_VALUE;
    }
    return PH__R_OK;
}

/* ---- making ---- */

static ph__drv_kernel *new_kernel(ph__drv_device *device, const char *name)
{
    ph__drv_kernel *kernel = ph__calloc(1, sizeof *kernel);
    char *copy = kernel ? ph__strdup(name) : NULL;
    if (!copy) {
        ph__free(kernel);
        return NULL;
    }
    kernel->device = device;
    kernel->name = copy;
    return kernel;
}

static int read_shared(ph__drv_kernel *kernel)
{
    int bytes = 0;
    int result = ph__cu.FuncGetAttribute(&bytes, PH__CU_FUNC_SHARED_SIZE_BYTES, kernel->function);
    if (result != PH__R_OK)
        return result;
    kernel->shared_static = (size_t)bytes;
    atomic_init(&kernel->shared_set,
                bytes < SHARED_WITHOUT_ASKING ? (size_t)(SHARED_WITHOUT_ASKING - bytes) : 0);
    return PH__R_OK;
}

/* Of a wrapped function nothing is known but its parameters: the struct is padded as for members
 * of at most 8 bytes. */
static int describe_kernel(ph__drv_kernel *kernel, const ph_kernel_source *source)
{
    parameters list = {0};
    int result = read_parameters(&list, kernel->function);
    if (result == PH__R_OK && source)
        result = check_args_size(&list, source->args_size);
    if (result == PH__R_OK && source)
        result = check_typed(&list, source);
    if (result == PH__R_OK)
        result = read_shared(kernel);
    size_t largest = largest_alignment(&list);
    kernel->args_end = end_of(&list);
    kernel->param_count = list.count;
    for (size_t i = 0; i < list.count && i < PH__CUDA_LISTED_PARAMS; i++)
        kernel->offsets[i] = (uint16_t)list.at[i].offset;
    kernel->args_size =
        source ? source->args_size : pad_offset(kernel->args_end, largest < 8 ? largest : 8);
    ph__vec_free(&list);
    return result;
}

/* Under the device's context. */
static int load_kernel(ph__drv_kernel *kernel, const ph__cuda_image *image,
                       const ph_kernel_source *source)
{
    int result = load_module(&kernel->module, image);
    if (result != PH__R_OK)
        return result;
    result = find_function(kernel);
    if (result == PH__R_OK)
        result = describe_kernel(kernel, source);
    if (result == PH__R_OK)
        result = ph__cuda_kernel_register(kernel);
    return result;
}

int ph__cuda_kernel_create(ph__drv_kernel **out, ph__drv_device *device,
                           const ph_kernel_source *source)
{
    ph__cuda_image image;
    ph__cuda_scope scope;
    ph__driver_clear_reason();
    int result = ph__cuda_image_of(&image, source, device->capability);
    if (result != PH__R_OK)
        return result;
    ph__drv_kernel *kernel = new_kernel(device, source->name);
    int mode = ph__cuda_relax();
    result = kernel ? ph__cuda_enter(&scope, device) : PH__R_OUT_OF_MEMORY;
    if (result == PH__R_OK) {
        result = load_kernel(kernel, &image, source);
        if (result != PH__R_OK)
            ph__cuda_kernel_discard(kernel);
        ph__cuda_leave(&scope);
    } else {
        ph__cuda_kernel_free(kernel);
    }
    ph__cuda_unrelax(mode);
    ph__free(image.at);
    if (result == PH__R_OK)
        *out = kernel;
    return result;
}

/* Under the device's context. */
static int wrap_function(ph__drv_kernel **out, ph__drv_device *device, ph__cu_function function)
{
    const char *name = NULL;
    int result = ph__cu.FuncGetName(&name, function);
    if (result != PH__R_OK)
        return result;
    ph__drv_kernel *kernel = new_kernel(device, name);
    if (!kernel)
        return PH__R_OUT_OF_MEMORY;
    kernel->function = function;
    result = describe_kernel(kernel, NULL);
    if (result == PH__R_OK)
        result = ph__cuda_kernel_register(kernel);
    if (result == PH__R_OK)
        *out = kernel;
    else
        ph__cuda_kernel_free(kernel);
    return result;
}

int ph__cuda_kernel_wrap(ph__drv_kernel **out, ph__drv_device *device, void *native,
                         size_t *args_size, const char **name)
{
    ph__cuda_scope scope;
    ph__driver_clear_reason();
    if (!native)
        return PH__R_INVALID_HANDLE;
    int mode = ph__cuda_relax();
    int result = ph__cuda_enter(&scope, device);
    if (result == PH__R_OK) {
        result = wrap_function(out, device, native);
        ph__cuda_leave(&scope);
    }
    ph__cuda_unrelax(mode);
    if (result != PH__R_OK)
        return result;
    *args_size = (*out)->args_size;
    *name = (*out)->name;
    return PH__R_OK;
}

static int wrap_own(ph__drv_kernel **out, ph__drv_device *device, ph__cu_function function)
{
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, device);
    if (result != PH__R_OK)
        return result;
    result = wrap_function(out, device, function);
    ph__cuda_leave(&scope);
    return result;
}

int ph__cuda_kernel_cells(ph__drv_kernel **out, ph__drv_device *device, unsigned room)
{
    ph__cu_function function;
    int result = ph__cuda_core_cells(&function, device, room);
    return result == PH__R_OK ? wrap_own(out, device, function) : result;
}

int ph__cuda_kernel_probe(ph__drv_kernel **out, ph__drv_device *device, ph__probe_kernel which)
{
    ph__cu_function function;
    int result = ph__cuda_core_probe(&function, device, which);
    return result == PH__R_OK ? wrap_own(out, device, function) : result;
}

/* ---- shared memory ---- */

/* Under the device's lock: two launches that both need more must not lower it for one another.
 * The user may have raised it. */
static int raise_shared(ph__drv_kernel *kernel, size_t shared_bytes)
{
    int now = 0;
    if (shared_bytes <= atomic_load_explicit(&kernel->shared_set, memory_order_relaxed))
        return PH__R_OK;
    int result =
        ph__cu.FuncGetAttribute(&now, PH__CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel->function);
    if (result == PH__R_OK && (now < 0 || (size_t)now < shared_bytes))
        result = ph__cu.FuncSetAttribute(
            kernel->function, PH__CU_FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES, (int)shared_bytes);
    if (result == PH__R_OK)
        atomic_store_explicit(&kernel->shared_set, shared_bytes, memory_order_release);
    return result;
}

int ph__cuda_kernel_prepare(ph__drv_kernel *kernel, size_t shared_bytes)
{
    if (shared_bytes <= atomic_load_explicit(&kernel->shared_set, memory_order_acquire))
        return PH__R_OK;
    ph__drv_device *device = kernel->device;
    size_t limit = device->shared_limit > kernel->shared_static
                       ? device->shared_limit - kernel->shared_static
                       : 0;
    if (shared_bytes > limit) {
        ph__driver_set_reason("kernel %s: %zu bytes of dynamic shared memory; on this GPU a block "
                              "has at most %zu, and its own "
                              "variables take %zu",
                              kernel->name, shared_bytes, device->shared_limit,
                              kernel->shared_static);
        return PH__R_INVALID_VALUE;
    }
    ph__cuda_scope scope;
    int mode = ph__cuda_relax(), result = ph__cuda_enter(&scope, device);
    if (result == PH__R_OK) {
        pthread_mutex_lock(&device->lock);
        result = raise_shared(kernel, shared_bytes);
        pthread_mutex_unlock(&device->lock);
        ph__cuda_leave(&scope);
    }
    ph__cuda_unrelax(mode);
    return result;
}
