/* SPDX-License-Identifier: MIT */
/* memory/observe/moment.h: looking at the allocations of a device as they were at a moment. */
#ifndef PH_MEMORY_OBSERVE_MOMENT_H
#define PH_MEMORY_OBSERVE_MOMENT_H
#include "base/range_map.h"
#include "memory/state/freed.h"

/* begin: now. False: this moment cannot be looked at later (allocators are being replayed).
 * end: nobody will; takes one that was not begun, of zeros. */
bool ph__moment_begin(ph__moment *moment, const ph_device *device);
void ph__moment_end(ph__moment *moment, const ph_device *device);

/* One look at a moment. */
typedef struct ph__past {
    const ph_device *device;
    const ph__moment *moment;
    uint64_t seen; /* frees up to here are in `gone` */
    PH__VEC(ph__freed_allocation) freed;
    ph__range_map gone; /* values are 1 + the index of a freed allocation */
} ph__past;
/* open: false: no host memory, now or when some allocation was freed. Close it in either case. */
bool ph__past_open(ph__past *past, const ph__moment *moment, const ph_device *device);
void ph__past_close(ph__past *past);
/* As ph__memory_find_all, with the ids of the pools, which may have gone: `pool` of what was freed
 * is NULL. */
void ph__past_find(ph_allocation *out, ph_pool_id *pools, const ph__past *past,
                   const uintptr_t *addresses, size_t count);
#endif
