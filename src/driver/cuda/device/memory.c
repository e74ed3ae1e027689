/* SPDX-License-Identifier: MIT */
/* driver/cuda/device/memory.c: segments (the driver's virtual memory), plain and pinned
 * allocations, and what an address is. */
#include "driver/cuda/load/device.h"
#include "driver/cuda/load/entries.h"

/* ---- segments ---- legal in every capture, from any thread. The memory's handle is released as
 * soon as it is mapped: it lives while the mapping does. */

static void say_what_is_left(size_t bytes)
{
    size_t free_bytes, total_bytes;
    if (ph__cu.MemGetInfo(&free_bytes, &total_bytes) == PH__R_OK)
        ph__driver_set_reason("%zu bytes were asked for, %zu of the GPU's %zu are left", bytes,
                              free_bytes, total_bytes);
}

static int map_memory(ph__cu_pointer address, const ph__drv_device *device, size_t bytes)
{
    const ph__cu_allocation what = ph__cuda_allocation(device);
    ph__cu_memory memory;
    int result = ph__cu.MemCreate(&memory, bytes, &what, 0);
    if (result != PH__R_OK) {
        if (result == PH__R_OUT_OF_MEMORY)
            say_what_is_left(bytes);
        return result;
    }
    result = ph__cu.MemMap(address, bytes, 0, memory, 0);
    int released = ph__cu.MemRelease(memory);
    if (result != PH__R_OK || released == PH__R_OK)
        return result;
    (void)ph__cu.MemUnmap(address, bytes);
    return released;
}

static int create_segment(ph__cu_pointer *out, const ph__drv_device *device, size_t bytes)
{
    ph__cu_access access = {.flags = PH__CU_ACCESS_READWRITE};
    access.location.type = PH__CU_LOCATION_TYPE_DEVICE;
    access.location.id = device->number;
    int result = ph__cu.MemAddressReserve(out, bytes, device->granularity, 0, 0);
    if (result == PH__R_OUT_OF_MEMORY)
        ph__driver_set_reason("the process has no address space left for %zu bytes", bytes);
    if (result != PH__R_OK)
        return result;
    result = map_memory(*out, device, bytes);
    if (result == PH__R_OK) {
        result = ph__cu.MemSetAccess(*out, bytes, &access, 1);
        if (result != PH__R_OK)
            (void)ph__cu.MemUnmap(*out, bytes);
    }
    if (result != PH__R_OK)
        (void)ph__cu.MemAddressFree(*out, bytes);
    return result;
}

int ph__cuda_segment_create(void **out, ph__drv_device *device, size_t bytes)
{
    if (bytes == 0 || bytes % device->granularity != 0)
        return PH__R_INVALID_VALUE;
    ph__cu_pointer address = 0;
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, device);
    if (result != PH__R_OK)
        return result;
    ph__mutex_lock(&device->mapping);
    result = create_segment(&address, device, bytes);
    device->mapped += result == PH__R_OK ? bytes : 0;
    ph__mutex_unlock(&device->mapping);
    ph__cuda_leave(&scope);
    if (result == PH__R_OK)
        *out = (void *)(uintptr_t)address;
    return result;
}

void ph__cuda_segment_destroy(ph__drv_device *device, void *address, size_t bytes)
{
    ph__cuda_scope scope;
    if (!address)
        return;
    (void)ph__cuda_enter(&scope, device);
    ph__mutex_lock(&device->mapping);
    (void)ph__cu.MemUnmap((uintptr_t)address, bytes);
    (void)ph__cu.MemAddressFree((uintptr_t)address, bytes);
    device->mapped -= bytes;
    ph__mutex_unlock(&device->mapping);
    ph__cuda_leave(&scope);
}

/* ---- plain and pinned ---- */

int ph__cuda_plain_alloc(void **out, ph__drv_device *device, size_t bytes)
{
    if (bytes == 0)
        return PH__R_INVALID_VALUE;
    ph__cu_pointer address = 0;
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, device);
    if (result != PH__R_OK)
        return result;
    result = ph__cu.MemAlloc(&address, bytes);
    if (result == PH__R_OUT_OF_MEMORY)
        say_what_is_left(bytes);
    ph__cuda_leave(&scope);
    if (result == PH__R_OK)
        *out = (void *)(uintptr_t)address;
    return result;
}

int ph__cuda_plain_free(ph__drv_device *device, void *address)
{
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, device);
    if (result != PH__R_OK)
        return result;
    result = ph__cu.MemFree((uintptr_t)address);
    ph__cuda_leave(&scope);
    return result;
}

int ph__cuda_pinned_alloc(void **out, ph__drv_device *device, size_t bytes)
{
    if (bytes == 0)
        return PH__R_INVALID_VALUE;
    void *address = NULL;
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, device);
    if (result != PH__R_OK)
        return result;
    result = ph__cu.MemHostAlloc(&address, bytes, PH__CU_HOST_ALLOC_PORTABLE);
    ph__cuda_leave(&scope);
    if (result == PH__R_OK)
        *out = address;
    return result;
}

int ph__cuda_pinned_free(ph__drv_device *device, void *address)
{
    ph__cuda_scope scope;
    if (!address)
        return PH__R_OK;
    int result = ph__cuda_enter(&scope, device);
    if (result != PH__R_OK)
        return result;
    result = ph__cu.MemFreeHost(address);
    ph__cuda_leave(&scope);
    return result;
}

/* ---- what an address is ---- one call, which needs no context and answers 0 for addresses that
 * it does not know. Memory of another GPU is device memory too; so is managed memory; host
 * memory is known when it is pinned, by whomever. */

int ph__cuda_pointer_info(ph__drv_pointer *out, ph__drv_device *device, const void *address)
{
    (void)device;
    int attributes[] = {PH__CU_POINTER_MEMORY_TYPE, PH__CU_POINTER_IS_MANAGED,
                        PH__CU_POINTER_RANGE_START_ADDR, PH__CU_POINTER_RANGE_SIZE,
                        PH__CU_POINTER_BUFFER_ID};
    unsigned type = 0, managed = 0;
    ph__cu_pointer base = 0;
    size_t size = 0;
    unsigned long long buffer_id = 0;
    void *values[] = {&type, &managed, &base, &size, &buffer_id};
    ph__drv_pointer pointer = {0};
    int result = address ? ph__cu.PointerGetAttributes(sizeof attributes / sizeof attributes[0],
                                                       attributes, values, (uintptr_t)address)
                         : PH__R_OK;
    if (result != PH__R_OK)
        return result;
    if (type == PH__CU_MEMORY_DEVICE || managed)
        pointer.kind = PH__MEMORY_DEVICE;
    else if (type == PH__CU_MEMORY_HOST)
        pointer.kind = PH__MEMORY_PINNED;
    if (pointer.kind != PH__MEMORY_PAGEABLE) {
        pointer.base = (uintptr_t)base;
        pointer.size = size;
        pointer.buffer_id = buffer_id;
    }
    *out = pointer;
    return PH__R_OK;
}

/* The attributes of virtual memory report the whole reservation, mapped or not. */
int ph__cuda_pointer_mapped(uintptr_t *base, size_t *bytes, ph__drv_device *device,
                            const void *address)
{
    ph__cuda_scope scope;
    ph__cu_pointer begin = 0;
    int result = ph__cuda_enter(&scope, device);
    if (result != PH__R_OK)
        return result;
    result = ph__cu.MemGetAddressRange(&begin, bytes, (uintptr_t)address);
    ph__cuda_leave(&scope);
    *base = (uintptr_t)begin;
    return result;
}
