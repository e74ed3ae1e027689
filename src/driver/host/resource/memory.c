/* SPDX-License-Identifier: MIT */
/* driver/host/resource/memory.c: segments, plain and pinned allocations, and what an address is. */
#include "driver/host/resource/memory.h"
#include "base/checked.h"
#include "driver/host/resource/rules.h"
#include "driver/host/stream/entries.h"
#include "driver/host/stream/queue.h"
#include "driver/host/stream/wait.h"
#include <errno.h>
#include <sys/mman.h>

#define SEGMENT_GRANULARITY ((size_t)2 << 20)
enum {
    PLAIN_ALIGNMENT = 256,
    PINNED_ALIGNMENT = 4096
};

/* Never reused in the life of the process. */
static atomic_uintptr_t last_buffer_id;

static void *next_buffer_id(void)
{
    return (void *)(atomic_fetch_add_explicit(&last_buffer_id, 1, memory_order_relaxed) + 1);
}

/* ---- the memory that the device pretends to have ---- */

static bool acquire_memory(ph__host_device *device, size_t bytes)
{
    uint64_t limit = device->options.memory_bytes;
    pthread_mutex_lock(&device->memory_lock);
    uint64_t left = limit - device->memory_used;
    bool fits = bytes <= left;
    if (fits)
        device->memory_used += bytes;
    pthread_mutex_unlock(&device->memory_lock);
    if (!fits)
        ph__driver_set_reason("%zu bytes were asked for, %llu of the device's %llu are left", bytes,
                              (unsigned long long)left, (unsigned long long)limit);
    return fits;
}

static void give_memory(ph__host_device *device, size_t bytes)
{
    pthread_mutex_lock(&device->memory_lock);
    device->memory_used -= bytes;
    pthread_mutex_unlock(&device->memory_lock);
}

static bool add_range(ph__host_device *device, ph__range_map *ranges, void *address, size_t bytes)
{
    pthread_mutex_lock(&device->memory_lock);
    bool added = ph__range_map_add(ranges, (uintptr_t)address, bytes, next_buffer_id());
    pthread_mutex_unlock(&device->memory_lock);
    return added;
}

/* The size of what begins at address, which is forgotten; 0 when nothing does. */
static size_t remove_range(ph__host_device *device, ph__range_map *ranges, const void *address)
{
    pthread_mutex_lock(&device->memory_lock);
    const ph__range *range = ph__range_map_find(ranges, (uintptr_t)address);
    size_t bytes = range && range->base == (uintptr_t)address ? range->size : 0;
    if (bytes)
        ph__range_map_remove(ranges, (uintptr_t)address);
    pthread_mutex_unlock(&device->memory_lock);
    return bytes;
}

/* ---- segments ---- */

/* Maps a granule more than needed and gives back what lies before and behind the aligned part. */
static void *map_aligned(size_t bytes)
{
    size_t mapped;
    if (!ph__add(bytes, SEGMENT_GRANULARITY, &mapped))
        return NULL;
    int saved_errno = errno;
    unsigned char *start = mmap(NULL, mapped, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    errno = saved_errno;
    if (start == MAP_FAILED)
        return NULL;
    size_t past = (uintptr_t)start % SEGMENT_GRANULARITY;
    size_t before = past ? SEGMENT_GRANULARITY - past : 0;
    if (before)
        (void)munmap(start, before);
    if (before < SEGMENT_GRANULARITY)
        (void)munmap(start + before + bytes, SEGMENT_GRANULARITY - before);
    return start + before;
}

int ph__host_segment_create(void **out, ph__drv_device *handle, size_t bytes)
{
    ph__host_device *device = (ph__host_device *)handle;
    if (bytes == 0 || bytes % SEGMENT_GRANULARITY != 0)
        return PH__R_INVALID_VALUE;
    int result = ph__host_rule(device, PH__RULE_SEGMENT_CREATE);
    if (result)
        return result;
    if (!acquire_memory(device, bytes))
        return PH__R_OUT_OF_MEMORY;
    void *address = map_aligned(bytes);
    if (!address || !add_range(device, &device->segments, address, bytes)) {
        if (address)
            (void)munmap(address, bytes);
        give_memory(device, bytes);
        ph__driver_set_reason(
            "the machine has no memory or address space for a segment of %zu bytes", bytes);
        return PH__R_OUT_OF_MEMORY;
    }
    *out = address;
    return 0;
}

void ph__host_segment_destroy(ph__drv_device *handle, void *address, size_t bytes)
{
    ph__host_device *device = (ph__host_device *)handle;
    (void)bytes; /* the whole allocation goes */
    size_t size = address ? remove_range(device, &device->segments, address) : 0;
    if (size == 0)
        return;
    (void)munmap(address, size);
    give_memory(device, size);
}

/* ---- plain and pinned ---- */

/* The address that ph__free wants stands right before the aligned one. */
static void *aligned_alloc_counted(size_t bytes, size_t alignment)
{
    size_t all;
    if (!ph__add(bytes, alignment + sizeof(void *), &all))
        return NULL;
    unsigned char *memory = ph__alloc(all);
    if (!memory)
        return NULL;
    uintptr_t first = (uintptr_t)memory + sizeof(void *);
    size_t past = first % alignment;
    unsigned char *aligned = memory + sizeof(void *) + (past ? alignment - past : 0);
    ((void **)(void *)aligned)[-1] = memory;
    return aligned;
}

static void aligned_free(void *aligned)
{
    ph__free(((void **)aligned)[-1]);
}

static int allocate_range(void **out, ph__host_device *device, ph__range_map *ranges, size_t bytes,
                          size_t alignment)
{
    void *address = aligned_alloc_counted(bytes, alignment);
    if (!address)
        return PH__R_OUT_OF_MEMORY;
    if (!add_range(device, ranges, address, bytes)) {
        aligned_free(address);
        return PH__R_OUT_OF_MEMORY;
    }
    *out = address;
    return 0;
}

int ph__host_plain_alloc(void **out, ph__drv_device *handle, size_t bytes)
{
    ph__host_device *device = (ph__host_device *)handle;
    if (bytes == 0)
        return PH__R_INVALID_VALUE;
    int result = ph__host_rule(device, PH__RULE_PLAIN_ALLOC);
    if (result)
        return result;
    if (!acquire_memory(device, bytes))
        return PH__R_OUT_OF_MEMORY;
    result = allocate_range(out, device, &device->plain, bytes, PLAIN_ALIGNMENT);
    if (result)
        give_memory(device, bytes);
    return result;
}

/* As cuMemFree, both frees wait for the device: work that was submitted may still use the
 * memory. */
static int release_range(ph__host_device *device, ph__range_map *ranges, void *address,
                         size_t *bytes)
{
    *bytes = 0;
    if (!address)
        return 0;
    ph__host_streams_wait(device);
    *bytes = remove_range(device, ranges, address);
    if (*bytes == 0)
        return PH__R_INVALID_VALUE;
    aligned_free(address);
    return 0;
}

int ph__host_plain_free(ph__drv_device *handle, void *address)
{
    ph__host_device *device = (ph__host_device *)handle;
    int result = ph__host_rule(device, PH__RULE_PLAIN_FREE);
    if (result)
        return result;
    size_t bytes;
    result = release_range(device, &device->plain, address, &bytes);
    if (bytes)
        give_memory(device, bytes);
    return result;
}

int ph__host_pinned_alloc(void **out, ph__drv_device *handle, size_t bytes)
{
    ph__host_device *device = (ph__host_device *)handle;
    if (bytes == 0)
        return PH__R_INVALID_VALUE;
    int result = ph__host_rule(device, PH__RULE_PINNED_ALLOC);
    return result ? result : allocate_range(out, device, &device->pinned, bytes, PINNED_ALIGNMENT);
}

int ph__host_pinned_free(ph__drv_device *handle, void *address)
{
    ph__host_device *device = (ph__host_device *)handle;
    int result = ph__host_rule(device, PH__RULE_PINNED_FREE);
    size_t bytes;
    return result ? result : release_range(device, &device->pinned, address, &bytes);
}

/* ---- what an address is ---- */

/* Under memory_lock. */
static const ph__range *find_range(ph__host_device *device, const void *address,
                                   ph__memory_kind *kind)
{
    const ph__range *range = ph__range_map_find(&device->segments, (uintptr_t)address);
    if (!range)
        range = ph__range_map_find(&device->plain, (uintptr_t)address);
    *kind = PH__MEMORY_DEVICE;
    if (range)
        return range;
    range = ph__range_map_find(&device->pinned, (uintptr_t)address);
    *kind = range ? PH__MEMORY_PINNED : PH__MEMORY_PAGEABLE;
    return range;
}

ph__memory_kind ph__host_memory_kind(ph__host_device *device, const void *address)
{
    ph__memory_kind kind;
    pthread_mutex_lock(&device->memory_lock);
    (void)find_range(device, address, &kind);
    pthread_mutex_unlock(&device->memory_lock);
    return kind;
}

int ph__host_pointer_info(ph__drv_pointer *out, ph__drv_device *handle, const void *address)
{
    ph__host_device *device = (ph__host_device *)handle;
    int result = ph__host_rule(device, PH__RULE_POINTER_INFO);
    if (result)
        return result;
    ph__drv_pointer pointer = {0};
    pthread_mutex_lock(&device->memory_lock);
    const ph__range *range = find_range(device, address, &pointer.kind);
    if (range) {
        pointer.base = range->base;
        pointer.size = range->size;
        pointer.buffer_id = (uintptr_t)range->value;
    }
    pthread_mutex_unlock(&device->memory_lock);
    *out = pointer;
    return 0;
}

/* Memory of this driver has no gaps. */
int ph__host_pointer_mapped(uintptr_t *base, size_t *bytes, ph__drv_device *device,
                            const void *address)
{
    ph__drv_pointer pointer;
    int result = ph__host_pointer_info(&pointer, device, address);
    if (result || pointer.kind != PH__MEMORY_DEVICE)
        return result ? result : PH__R_INVALID_VALUE;
    *base = pointer.base;
    *bytes = pointer.size;
    return 0;
}

static void unmap_range(const ph__range *range)
{
    (void)munmap((void *)range->base, range->size);
}

static void free_plain(const ph__range *range)
{
    aligned_free((void *)range->base);
}

static void free_ranges(ph__range_map *ranges, void (*give_back)(const ph__range *range))
{
    for (size_t i = 0; i < ranges->piece_count; i++)
        for (size_t k = 0; k < ranges->pieces[i].count; k++)
            give_back(&ranges->pieces[i].at[k]);
    ph__range_map_free(ranges);
}

void ph__host_memory_free_all(ph__host_device *device)
{
    free_ranges(&device->segments, unmap_range);
    free_ranges(&device->plain, free_plain);
    free_ranges(&device->pinned, free_plain);
}
