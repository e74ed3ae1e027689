/* SPDX-License-Identifier: MIT */
/* driver/cuda/load/layouts.c: the places of the parameters of kernels that other code loaded,
 * kept for each kernel of the device. */
#include "driver/cuda/load/layouts.h"
#include "base/alloc.h"
#include <string.h>

enum {
    MOST_PARAMETERS = 32764, /* bytes of parameters that a kernel can have at the most */
    FEW_PARAMETERS = 16,     /* parameters of most kernels: the driver is asked once for each */
    MOST_LAYOUTS = 1 << 14   /* kernels of a device; then all are forgotten */
};

/* A kernel node may name a function, or a kernel that belongs to no context. */
static uint64_t key_of(const ph__cu_kernel_params *params)
{
    return params->function ? (uintptr_t)params->function : (uintptr_t)params->kernel;
}

static int read_parameter(const ph__cu_kernel_params *params, size_t index,
                          struct ph__cuda_param *out)
{
    return params->function
               ? ph__cu.FuncGetParamInfo(params->function, index, &out->offset, &out->bytes)
               : ph__cu.KernelGetParamInfo(params->kernel, index, &out->offset, &out->bytes);
}

/* The driver's, which goes with the module. */
static int read_name(const char **out, const ph__cu_kernel_params *params)
{
    *out = NULL;
    int result = params->function ? ph__cu.FuncGetName(out, params->function)
                                  : ph__cu.KernelGetName(out, params->kernel);
    return result == PH__R_OK && !*out ? PH__R_INVALID_VALUE : result;
}

/* ---- reading ---- */
/* The first of them go to `few`. */
static int count_parameters(const ph__cu_kernel_params *params, size_t *count,
                            struct ph__cuda_param few[FEW_PARAMETERS])
{
    for (size_t i = 0; i < MOST_PARAMETERS; i++) {
        struct ph__cuda_param at = {0};
        int result = read_parameter(params, i, &at);
        *count = i;
        if (result != PH__R_OK)
            return result == PH__R_INVALID_VALUE ? PH__R_OK : result;
        if (i < FEW_PARAMETERS)
            few[i] = at;
    }
    return PH__R_INVALID_VALUE;
}

static int read_places(ph__cuda_layout *layout, const ph__cu_kernel_params *params,
                       const struct ph__cuda_param few[FEW_PARAMETERS])
{
    int result = PH__R_OK;
    for (size_t i = 0; i < layout->count && result == PH__R_OK; i++) {
        if (i < FEW_PARAMETERS)
            layout->at[i] = few[i];
        else
            result = read_parameter(params, i, &layout->at[i]);
        if (layout->at[i].offset + layout->at[i].bytes > layout->bytes)
            layout->bytes = layout->at[i].offset + layout->at[i].bytes;
    }
    return result;
}

static int read_layout(ph__cuda_layout **out, const ph__cu_kernel_params *params, const char *name)
{
    size_t count = 0, name_bytes = strlen(name) + 1;
    struct ph__cuda_param few[FEW_PARAMETERS];
    int result = count_parameters(params, &count, few);
    if (result != PH__R_OK)
        return result;
    ph__cuda_layout *layout =
        ph__calloc(1, sizeof *layout + count * sizeof layout->at[0] + name_bytes);
    if (!layout)
        return PH__R_OUT_OF_MEMORY;
    atomic_init(&layout->holders, 1);
    layout->function = params->function;
    layout->kernel = params->kernel;
    layout->context = params->context;
    layout->count = count;
    layout->name = memcpy(&layout->at[count], name, name_bytes);
    result = read_places(layout, params, few);
    if (result == PH__R_OK)
        *out = layout;
    else
        ph__free(layout);
    return result;
}

/* ---- the device's ---- */
void ph__cuda_layout_release(ph__cuda_layout *layout)
{
    if (layout && atomic_fetch_sub_explicit(&layout->holders, 1, memory_order_acq_rel) == 1)
        ph__free(layout);
}

void ph__cuda_layouts_release(ph__map *layouts)
{
    size_t cursor = 0;
    uint64_t key;
    void *layout;
    while (ph__map_next(layouts, &cursor, &key, &layout))
        ph__cuda_layout_release(layout);
    ph__map_free(layouts);
}

static ph__cuda_layout *find_known(ph__drv_device *device, uint64_t key)
{
    ph__spin_lock(&device->cache_lock);
    ph__cuda_layout *known = device->layouts.count ? ph__map_get(&device->layouts, key) : NULL;
    if (known)
        atomic_fetch_add_explicit(&known->holders, 1, memory_order_relaxed);
    ph__spin_unlock(&device->cache_lock);
    return known;
}

/* The name, the last parameter and the end tell a kernel from one that was loaded to the same
 * handle since. */
static bool is_still_there(const ph__cuda_layout *known, const ph__cu_kernel_params *params,
                           const char *name)
{
    struct ph__cuda_param last, none;
    size_t count = known->count;
    if (known->context != params->context || strcmp(known->name, name) != 0 ||
        (count && read_parameter(params, count - 1, &last) != PH__R_OK))
        return false;
    return (count == 0 || (last.offset == known->at[count - 1].offset &&
                           last.bytes == known->at[count - 1].bytes)) &&
           read_parameter(params, count, &none) == PH__R_INVALID_VALUE;
}

/* In the place of what was there; where there is no memory the next graph asks again. */
static void keep_layout(ph__drv_device *device, uint64_t key, ph__cuda_layout *layout)
{
    ph__map all = {0};
    ph__spin_lock(&device->cache_lock);
    if (device->layouts.count >= MOST_LAYOUTS) {
        all = device->layouts;
        device->layouts = (ph__map){0};
    }
    ph__cuda_layout *before = device->layouts.count ? ph__map_get(&device->layouts, key) : NULL;
    bool put = ph__map_put(&device->layouts, key, layout);
    if (put)
        atomic_fetch_add_explicit(&layout->holders, 1, memory_order_relaxed);
    ph__spin_unlock(&device->cache_lock);
    if (put)
        ph__cuda_layout_release(before);
    ph__cuda_layouts_release(&all);
}

int ph__cuda_layout_acquire(ph__cuda_layout **out, ph__drv_device *device,
                            const ph__cu_kernel_params *params)
{
    const char *name;
    uint64_t key = key_of(params);
    int result = read_name(&name, params);
    if (result != PH__R_OK)
        return result;
    ph__cuda_layout *known = find_known(device, key);
    if (known && is_still_there(known, params, name)) {
        *out = known;
        return PH__R_OK;
    }
    ph__cuda_layout_release(known);
    result = read_layout(out, params, name);
    if (result == PH__R_OK)
        keep_layout(device, key, *out);
    return result;
}

void ph__cuda_layout_forget(ph__drv_device *device, ph__cu_function function)
{
    ph__spin_lock(&device->cache_lock);
    ph__cuda_layout *known =
        device->layouts.count ? ph__map_remove(&device->layouts, (uintptr_t)function) : NULL;
    ph__spin_unlock(&device->cache_lock);
    ph__cuda_layout_release(known);
}
