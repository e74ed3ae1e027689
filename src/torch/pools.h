/* SPDX-License-Identifier: MIT */
/* torch/pools.h: torch's pools, and which of them a request is for. */
#ifndef PH_TORCH_POOLS_H
#define PH_TORCH_POOLS_H
#include <phonograph/memory.h>

/* A pool's name is torch's pair of numbers. */
typedef struct ph__pool_name {
    int device;
    uint64_t first, second;
} ph__pool_name;

/* filter: a std::function, which is copied. STATE: it is begun already. */
ph_status ph__torch_pool_begin(const ph__pool_name *name, ph_device *device, const void *filter);
/* STATE: it is not begun. */
ph_status ph__torch_pool_end(const ph__pool_name *name);
/* STATE: it was released as often as it was begun. */
ph_status ph__torch_pool_release(const ph__pool_name *name);
/* Lets go of the pools whose release was put off. */
void ph__torch_pools_release_deferred(void);

/* Allocates from the pool whose filter accepts the stream, or as ph_malloc does. native: the stream
 * as torch knows it. Filters may throw. */
ph_status ph__torch_pools_malloc(void **out, size_t bytes, int device, ph_stream *stream,
                                 void *native);
bool ph__torch_pool_find(ph__pool_name *out, const ph_pool_id *id);
#endif
