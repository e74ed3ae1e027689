/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_alloc.c: plain and pinned memory of the software libcuda, and what an address
 * is. */
#include "cuda_inside.h"

static const ph__driver *const host = &ph__driver_host;

static void *pointer_of(ph__cu_pointer address)
{
    return (void *)(uintptr_t)address;
}

FAKE(MemAlloc, (ph__cu_pointer * address, size_t bytes), (address, bytes))
{
    ph__cu_context context;
    void *memory = NULL;
    int result = address ? fake_current(&context, "cuMemAlloc") : PH__R_INVALID_VALUE;
    if (!result)
        result = host->plain_alloc(&memory, context->device, bytes);
    if (!result)
        *address = (uintptr_t)memory;
    return result;
}

static int owner_of(ph__cu_context *out, const void *address, ph__memory_kind kind,
                    const char *call)
{
    ph__drv_pointer pointer;
    ph__cu_context current;
    int result = fake_current(&current, call);
    if (result)
        return result;
    *out = fake_context_at(address, &pointer);
    return *out && pointer.kind == kind && pointer.base == (uintptr_t)address ? 0
                                                                              : PH__R_INVALID_VALUE;
}

FAKE(MemFree, (ph__cu_pointer address), (address))
{
    ph__cu_context context;
    if (address == 0)
        return 0;
    int result = owner_of(&context, pointer_of(address), PH__MEMORY_DEVICE, "cuMemFree");
    return result ? result : host->plain_free(context->device, pointer_of(address));
}

FAKE(MemHostAlloc, (void **address, size_t bytes, unsigned flags), (address, bytes, flags))
{
    ph__cu_context context;
    int result =
        address && flags <= 7 ? fake_current(&context, "cuMemHostAlloc") : PH__R_INVALID_VALUE;
    return result ? result : host->pinned_alloc(address, context->device, bytes);
}

FAKE(MemFreeHost, (void *address), (address))
{
    ph__cu_context context;
    int result = owner_of(&context, address, PH__MEMORY_PINNED, "cuMemFreeHost");
    return result ? result : host->pinned_free(context->device, address);
}

/* ---- what an address is ---- */
enum {
    NO_DEVICE = -2
};

static int put_attribute(int attribute, void *out, ph__cu_context context,
                         const ph__drv_pointer *pointer)
{
    unsigned device_type =
        pointer->kind == PH__MEMORY_DEVICE ? PH__CU_MEMORY_DEVICE : PH__CU_MEMORY_HOST;
    switch (attribute) {
    case PH__CU_POINTER_CONTEXT:
        *(ph__cu_context *)out = context;
        return 0;
    case PH__CU_POINTER_MEMORY_TYPE:
        *(unsigned *)out = context ? device_type : 0;
        return 0;
    case PH__CU_POINTER_BUFFER_ID:
        *(uint64_t *)out = context ? pointer->buffer_id : 0;
        return 0;
    case PH__CU_POINTER_IS_MANAGED:
        *(bool *)out = false;
        return 0;
    case PH__CU_POINTER_DEVICE_ORDINAL:
        *(int *)out = context ? context->gpu : NO_DEVICE;
        return 0;
    case PH__CU_POINTER_RANGE_START_ADDR:
        *(uint64_t *)out = context ? pointer->base : 0;
        return 0;
    case PH__CU_POINTER_RANGE_SIZE:
        *(size_t *)out = context ? pointer->size : 0;
        return 0;
    default:
        return PH__R_INVALID_VALUE;
    }
}

FAKE(PointerGetAttributes, (unsigned count, int *attributes, void **values, ph__cu_pointer address),
     (count, attributes, values, address))
{
    ph__drv_pointer pointer = {0};
    if (count == 0 || !attributes || !values)
        return PH__R_INVALID_VALUE;
    ph__cu_context context = fake_context_at(pointer_of(address), &pointer);
    if (context) /* as CUDA has it: of virtual memory all that was reserved, mapped or not */
        (void)fake_reservation_at(&pointer.base, &pointer.size, (uintptr_t)address);
    for (unsigned i = 0; i < count; i++) {
        int result = put_attribute(attributes[i], values[i], context, &pointer);
        if (result)
            return result;
    }
    return 0;
}

FAKE(MemGetAddressRange, (ph__cu_pointer * base, size_t *bytes, ph__cu_pointer address),
     (base, bytes, address))
{
    ph__drv_pointer pointer = {0};
    ph__cu_context current;
    int result =
        base && bytes ? fake_current(&current, "cuMemGetAddressRange") : PH__R_INVALID_VALUE;
    if (!result && !fake_context_at(pointer_of(address), &pointer))
        result = PH__R_INVALID_VALUE;
    if (result)
        return result;
    *base = pointer.base;
    *bytes = pointer.size;
    return 0;
}

static int64_t bytes_of(const ph__range_map *ranges)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < ranges->piece_count; i++)
        for (size_t k = 0; k < ranges->pieces[i].count; k++)
            bytes += (int64_t)ranges->pieces[i].at[k].size;
    return bytes;
}

void fake_alloc_count(fake_cuda_counts *out, ph__cu_context context)
{
    ph__host_device *device = fake_host(context);
    pthread_mutex_lock(&device->memory_lock);
    out->plain += bytes_of(&device->plain);
    out->pinned += bytes_of(&device->pinned);
    pthread_mutex_unlock(&device->memory_lock);
}
