/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_vmm.c: virtual memory management of the software libcuda: address space is
 * taken without access, and gets memory and access in steps of their own, so that a step which
 * is forgotten shows. */
#include "base/checked.h"
#include "cuda_inside.h"
#include <sys/mman.h>

/* Its pages are made when it is mapped: it is mapped at one place at a time. */
typedef struct memory {
    fake_object object;
    size_t bytes;
    bool mapped, released;
} memory;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ph__ranges reservations; /* value: anything */
static ph__ranges mappings;     /* value: the memory */

/* Unique as the host driver's, which begin at 1. */
static uintptr_t last_buffer_id = (uintptr_t)1 << 40;

bool fake_take(ph__cu_context context, size_t bytes)
{
    ph__host_device *device = fake_host(context);
    pthread_mutex_lock(&device->memory_lock);
    uint64_t left = device->options.memory_bytes - device->memory_used;
    bool fits = bytes <= left;
    if (fits)
        device->memory_used += bytes;
    pthread_mutex_unlock(&device->memory_lock);
    if (!fits)
        ph__driver_set_reason("%zu bytes were asked for, %llu are left", bytes,
                              (unsigned long long)left);
    return fits;
}

void fake_give(ph__cu_context context, size_t bytes)
{
    ph__host_device *device = fake_host(context);
    pthread_mutex_lock(&device->memory_lock);
    device->memory_used -= bytes;
    pthread_mutex_unlock(&device->memory_lock);
}

static void *pointer_of(ph__cu_pointer address)
{
    return (void *)(uintptr_t)address;
}

/* ---- address space ---- */
FAKE(MemAddressReserve,
     (ph__cu_pointer * address, size_t bytes, size_t alignment, ph__cu_pointer hint,
      unsigned long long flags),
     (address, bytes, alignment, hint, flags))
{
    size_t unit = alignment > FAKE_GRANULARITY ? alignment : FAKE_GRANULARITY, all;
    if (!address || bytes == 0 || bytes % FAKE_GRANULARITY || flags || (unit & (unit - 1)))
        return PH__R_INVALID_VALUE;
    if (!ph__add(bytes, unit, &all))
        return PH__R_OUT_OF_MEMORY;
    unsigned char *start =
        mmap(pointer_of(hint), all, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start == MAP_FAILED)
        return PH__R_OUT_OF_MEMORY;
    size_t before = (unit - (uintptr_t)start % unit) % unit;
    if (before)
        (void)munmap(start, before);
    (void)munmap(start + before + bytes, all - before - bytes);
    pthread_mutex_lock(&lock);
    bool added = ph__ranges_add(&reservations, (uintptr_t)start + before, bytes, &reservations);
    pthread_mutex_unlock(&lock);
    if (!added) {
        (void)munmap(start + before, bytes);
        return PH__R_OUT_OF_MEMORY;
    }
    *address = (uintptr_t)start + before;
    return 0;
}

static bool overlaps(const ph__ranges *ranges, uintptr_t base, size_t bytes)
{
    const ph__range *first = ph__ranges_from(ranges, base);
    return first && first->base < base + bytes;
}

FAKE(MemAddressFree, (ph__cu_pointer address, size_t bytes), (address, bytes))
{
    int result = PH__R_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    const ph__range *range = ph__ranges_find(&reservations, address);
    if (range && range->base == address && range->size == bytes &&
        !overlaps(&mappings, address, bytes)) {
        (void)ph__ranges_remove(&reservations, address);
        (void)munmap(pointer_of(address), bytes);
        result = 0;
    }
    if (reservations.count == 0)
        ph__ranges_free(&reservations);
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- memory ---- */
static bool is_device_memory(const ph__cu_allocation *what)
{
    return what && what->type == PH__CU_ALLOCATION_TYPE_PINNED &&
           what->location.type == PH__CU_LOCATION_TYPE_DEVICE;
}

FAKE(MemGetAllocationGranularity, (size_t * granularity, const ph__cu_allocation *what, int option),
     (granularity, what, option))
{
    if (!granularity || !is_device_memory(what) || (unsigned)option > 1)
        return PH__R_INVALID_VALUE;
    *granularity = FAKE_GRANULARITY;
    return 0;
}

FAKE(MemCreate,
     (ph__cu_memory * out, size_t bytes, const ph__cu_allocation *what, unsigned long long flags),
     (out, bytes, what, flags))
{
    if (!out || bytes == 0 || bytes % FAKE_GRANULARITY || flags || !is_device_memory(what))
        return PH__R_INVALID_VALUE;
    ph__cu_context context = fake_context_of(what->location.id);
    if (!context)
        return PH__R_INVALID_DEVICE;
    if (!fake_take(context, bytes))
        return PH__R_OUT_OF_MEMORY;
    memory *fresh = ph__calloc(1, sizeof *fresh);
    if (!fresh || !fake_add(&fresh->object, FAKE_MEMORY, context, fresh)) {
        ph__free(fresh);
        fake_give(context, bytes);
        return PH__R_OUT_OF_MEMORY;
    }
    fresh->bytes = bytes;
    *out = (uintptr_t)fresh;
    return 0;
}

/* Under the lock: gone when neither a handle nor a mapping is left. */
static void drop(memory *of)
{
    if (of->mapped || !of->released)
        return;
    fake_give(of->object.context, of->bytes);
    ph__free(of);
}

FAKE(MemRelease, (ph__cu_memory handle), (handle))
{
    memory *of = fake_remove(FAKE_MEMORY, pointer_of(handle));
    if (!of)
        return PH__R_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    of->released = true;
    drop(of);
    pthread_mutex_unlock(&lock);
    return 0;
}

static int map_locked(ph__cu_pointer address, size_t bytes, memory *of)
{
    const ph__range *range = ph__ranges_find(&reservations, address);
    if (!range || address + bytes > range->base + range->size ||
        overlaps(&mappings, address, bytes))
        return PH__R_INVALID_VALUE;
    if (of->mapped || of->bytes != bytes) {
        ph__driver_set_reason("the tests' libcuda maps a memory whole, and at one place at a time");
        return PH__R_NOT_SUPPORTED;
    }
    if (!ph__ranges_add(&mappings, address, bytes, of))
        return PH__R_OUT_OF_MEMORY;
    of->mapped = true;
    return 0;
}

bool fake_reservation_at(uintptr_t *base, size_t *bytes, uintptr_t address)
{
    pthread_mutex_lock(&lock);
    const ph__range *range = ph__ranges_find(&reservations, address);
    if (range) {
        *base = range->base;
        *bytes = range->size;
    }
    pthread_mutex_unlock(&lock);
    return range != NULL;
}

FAKE(MemMap,
     (ph__cu_pointer address, size_t bytes, size_t offset, ph__cu_memory handle,
      unsigned long long flags),
     (address, bytes, offset, handle, flags))
{
    memory *of = fake_find(FAKE_MEMORY, pointer_of(handle));
    if (!of || offset || flags || bytes == 0 || bytes % FAKE_GRANULARITY ||
        address % FAKE_GRANULARITY)
        return PH__R_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    int result = map_locked(address, bytes, of);
    pthread_mutex_unlock(&lock);
    return result;
}

static void forget_segment(ph__cu_context context, uintptr_t base)
{
    ph__host_device *device = fake_host(context);
    pthread_mutex_lock(&device->memory_lock);
    const ph__range *range = ph__range_map_find(&device->segments, base);
    if (range && range->base == base)
        (void)ph__range_map_remove(&device->segments, base);
    pthread_mutex_unlock(&device->memory_lock);
}

/* From now on the host driver knows it as memory of the device. */
static int open_mapping(const ph__range *range)
{
    memory *of = range->value;
    ph__host_device *device = fake_host(of->object.context);
    if (mprotect((void *)range->base, range->size, PROT_READ | PROT_WRITE) != 0)
        return PH__R_OUT_OF_MEMORY;
    pthread_mutex_lock(&device->memory_lock);
    bool known = ph__range_map_find(&device->segments, range->base) != NULL;
    if (!known)
        known = ph__range_map_add(&device->segments, range->base, range->size,
                                  (void *)++last_buffer_id);
    pthread_mutex_unlock(&device->memory_lock);
    return known ? 0 : PH__R_OUT_OF_MEMORY;
}

FAKE(MemSetAccess,
     (ph__cu_pointer address, size_t bytes, const ph__cu_access *access, size_t count),
     (address, bytes, access, count))
{
    int result = PH__R_INVALID_VALUE;
    if (!access || count != 1 || access->flags != PH__CU_ACCESS_READWRITE ||
        access->location.type != PH__CU_LOCATION_TYPE_DEVICE)
        return PH__R_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    const ph__range *range = ph__ranges_find(&mappings, address);
    if (range && range->base == address && range->size == bytes) {
        const memory *of = range->value;
        result = fake_context_of(access->location.id) == of->object.context ? open_mapping(range)
                                                                            : PH__R_NOT_SUPPORTED;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* Under the lock. What was written is gone, and any access stops the program. */
static void unmap(uintptr_t base, size_t bytes)
{
    memory *of = ph__ranges_remove(&mappings, base);
    forget_segment(of->object.context, base);
    (void)mmap((void *)base, bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    of->mapped = false;
    drop(of);
    if (mappings.count == 0)
        ph__ranges_free(&mappings);
}

FAKE(MemUnmap, (ph__cu_pointer address, size_t bytes), (address, bytes))
{
    int result = PH__R_INVALID_VALUE;
    pthread_mutex_lock(&lock);
    const ph__range *range = ph__ranges_find(&mappings, address);
    if (range && range->base == address && range->size == bytes) {
        unmap(address, bytes);
        result = 0;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

/* ---- for contexts ---- address space belongs to none: it is counted with the last. */
void fake_vmm_clear(ph__cu_context context, fake_cuda_counts *left)
{
    memory *of;
    pthread_mutex_lock(&lock);
    for (size_t i = mappings.count; i-- > 0;) {
        if (((memory *)mappings.at[i].value)->object.context != context)
            continue;
        left->mappings++;
        unmap(mappings.at[i].base, mappings.at[i].size);
    }
    pthread_mutex_unlock(&lock);
    for (; (of = fake_take_any(FAKE_MEMORY, context)); left->memories++) {
        fake_give(context, of->bytes);
        ph__free(of);
    }
    pthread_mutex_lock(&lock);
    while (reservations.count && mappings.count == 0) {
        left->reservations++;
        (void)munmap((void *)reservations.at[0].base, reservations.at[0].size);
        (void)ph__ranges_remove(&reservations, reservations.at[0].base);
    }
    pthread_mutex_unlock(&lock);
}

void fake_vmm_count(fake_cuda_counts *out)
{
    pthread_mutex_lock(&lock);
    out->mappings += (int64_t)mappings.count;
    out->reservations += (int64_t)reservations.count;
    pthread_mutex_unlock(&lock);
    out->memories += fake_live(FAKE_MEMORY);
}
