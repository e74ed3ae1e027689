/* SPDX-License-Identifier: MIT */
/* torch/hooks.c: the functions that PyTorch's pluggable allocator calls. */
#include "torch/hooks.h"
#include "torch/devices.h"
#include "torch/pools.h"
#include "torch/raise.h"
#include <stddef.h>

ph_status ph_torch_set_device(int index, ph_device *device)
{
    return ph__torch_device_set(index, device, "ph_torch_set_device");
}

ph_status ph_torch_device(ph_device **out, int index)
{
    return ph__torch_device_get(out, index, "ph_torch_device");
}

/* ---- memory ---- */
static ph_status allocate_for_torch(void **out, size_t bytes, int index, void *native)
{
    ph_stream *stream;
    PH_TRY(ph__torch_stream(&stream, index, native, "ph_torch_malloc"));
    return ph__torch_pools_malloc(out, bytes, index, stream, native);
}

void *ph_torch_malloc(ptrdiff_t bytes, int index, void *stream)
{
    void *address = NULL;
    if (bytes > 0 && allocate_for_torch(&address, (size_t)bytes, index, stream) != PH_OK)
        ph__raise_last();
    return address;
}

void ph_torch_free(void *pointer, ptrdiff_t bytes, int index, void *stream)
{
    (void)bytes;
    (void)stream; /* the block knows its own */
    if (pointer && index >= 0 && index < PH__TORCH_DEVICES)
        ph_device_free(ph__torch_device_known(index), pointer);
}

/* The device whose memory the address is, or -1. */
static int device_of(const void *pointer)
{
    ph_allocation found;
    for (int index = 0; index < PH__TORCH_DEVICES; index++) {
        ph_device *device = ph__torch_device_known(index);
        if (device && ph_memory_lookup(&found, device, pointer) == PH_OK)
            return index;
    }
    return -1;
}

void ph_torch_record_stream(void *pointer, void *stream)
{
    ph_stream *user;
    int index = pointer ? device_of(pointer) : -1;
    if (index < 0)
        return; /* nobody's, or the memory of another allocator */
    ph_status status = ph__torch_stream(&user, index, stream, "ph_torch_record_stream");
    if (status == PH_OK)
        status = ph_record_stream(pointer, user);
    if (status != PH_OK)
        ph__raise_last();
}

static ph_status limit_device(double fraction, int index)
{
    ph_device *device;
    ph_device_info info;
    PH_TRY(ph__torch_device_get(&device, index, "ph_torch_memory_fraction"));
    PH_TRY(ph_device_get_info(&info, device));
    if (!(fraction > 0 && fraction <= 1))
        return ph_fail(PH_ERROR_ARGUMENT,
                       "ph_torch_memory_fraction: %g; it is above 0, and at most 1", fraction);
    return ph_memory_set_limit(device, (size_t)(fraction * (double)info.memory_total));
}

void ph_torch_memory_fraction(double fraction, int index)
{
    if (limit_device(fraction, index) != PH_OK)
        ph__raise_last();
}

void ph_torch_empty_cache(void)
{
    ph_status status = PH_OK;
    ph__torch_pools_release_deferred();
    for (int index = 0; index < PH__TORCH_DEVICES && status == PH_OK; index++) {
        ph_device *device = ph__torch_device_known(index);
        if (device)
            status = ph_memory_trim(device);
    }
    if (status != PH_OK)
        ph__raise_last();
}

/* ---- pools ---- */
static ph_status begin_pool(const ph__pool_name *name, const void *filter)
{
    ph_device *device;
    ph__torch_pools_release_deferred();
    PH_TRY(ph__torch_device_get(&device, name->device, "ph_torch_begin_pool"));
    return ph__torch_pool_begin(name, device, filter);
}

void ph_torch_begin_pool(int index, uint64_t first, uint64_t second, const void *filter)
{
    const ph__pool_name name = {index, first, second};
    if (begin_pool(&name, filter) != PH_OK)
        ph__raise_last();
}

void ph_torch_end_pool(int index, uint64_t first, uint64_t second)
{
    const ph__pool_name name = {index, first, second};
    if (ph__torch_pool_end(&name) != PH_OK)
        ph__raise_last();
}

void ph_torch_release_pool(int index, uint64_t first, uint64_t second)
{
    const ph__pool_name name = {index, first, second};
    if (ph__torch_pool_release(&name) != PH_OK)
        ph__raise_last();
}

bool ph_torch_pool_name(uint64_t name[2], const ph_pool_id *id)
{
    ph__pool_name found = {0, 0, 0};
    if (name == NULL || id == NULL || !ph__torch_pool_find(&found, id))
        return false;
    name[0] = found.first;
    name[1] = found.second;
    return true;
}
