/* SPDX-License-Identifier: MIT */
/* memory/observe/lookup.h: the allocation around an address. */
#ifndef PH_MEMORY_OBSERVE_LOOKUP_H
#define PH_MEMORY_OBSERVE_LOOKUP_H
#include <phonograph/memory.h>

/* The live allocation, device or pinned, around the address. internal: in one of the ranges of
 * ph__pool_record_ranges. */
bool ph__memory_find(ph_allocation *out, const ph_device *device, const void *address);
/* The same. *counted: it is memory of the device whose free ph__memory_free_count counts from now
 * on: it lives while that count is what it was before this call. */
bool ph__memory_find_counted(ph_allocation *out, bool *counted, const ph_device *device,
                             const void *address);
/* The same for up to PH__FIND_MOST addresses at once, which takes less than one after another:
 * what has to be read for them lies far apart. base NULL: there is none. */
enum {
    PH__FIND_MOST = 32
};
void ph__memory_find_all(ph_allocation *out, const ph_device *device, const uintptr_t *addresses,
                         size_t count);
/* The same with the lock held, and without what is handed out in replays of allocators. */
struct ph__memory;
void ph__memory_find_locked(ph_allocation *out, const struct ph__memory *memory,
                            const uintptr_t *addresses, size_t count);
/* Where all lies that the allocator took from the driver, of the device and of pinned memory,
 * which are far apart on a GPU: for looking at many addresses. From lowest up to, without,
 * highest; both 0: there is none. */
typedef struct ph__memory_bounds {
    struct {
        uintptr_t lowest, highest;
    } device, pinned;
} ph__memory_bounds;
void ph__memory_read_bounds(ph__memory_bounds *out, const ph_device *device);
static inline bool ph__memory_bounds_have(const ph__memory_bounds *bounds, uintptr_t address)
{
    return address - bounds->device.lowest < bounds->device.highest - bounds->device.lowest ||
           address - bounds->pinned.lowest < bounds->pinned.highest - bounds->pinned.lowest;
}
ph_status ph__fail_not_live(const char *call, const void *address, const ph_device *device);
/* Whether the address is in memory that the allocator took from the driver, in use or not. */
bool ph__memory_is_reserved(const ph_device *device, const void *address);
bool ph__memory_reserved_by(ph_pool_id *out, const ph_device *device,
                            const void *address); /* by the pool of that id */
#endif
