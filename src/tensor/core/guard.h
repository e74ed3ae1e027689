/* SPDX-License-Identifier: MIT */
/* tensor/core/guard.h: memory with guard zones, for tests. */
#ifndef PH_TENSOR_CORE_GUARD_H
#define PH_TENSOR_CORE_GUARD_H
#include "tensor/backend/backend.h"

typedef struct ph__guarded ph__guarded;

/* While on, every new cached storage gets guard zones of 256 bytes on both
 * sides and is poisoned (0xFF: NaN) before its first use, and what is released is kept until
 * check. That waits for the device, gives back what was kept, and is false when a guard zone was
 * written or a device call failed: the thread's error record says where. */
void ph__storage_debug(bool on);
bool ph__storage_debug_check(ph_device *device);

extern atomic_bool ph__guards_are_on;
static inline bool ph__guards_on(void)
{
    return __builtin_expect(atomic_load_explicit(&ph__guards_are_on, memory_order_relaxed), 0);
}
/* bytes of memory between two zones, poisoned in order of the stream. */
ph_status ph__guarded_create(ph__guarded **out, ph__backend *backend, size_t bytes,
                             ph_stream *stream);
char *ph__guarded_data(const ph__guarded *guarded);
char *ph__guarded_base(const ph__guarded *guarded); /* as the allocator knows it */
/* nobody uses it any more: kept until the next check */
void ph__guarded_release(ph__guarded *guarded);
#endif
