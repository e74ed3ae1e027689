/* SPDX-License-Identifier: MIT */
/* memory/capture/allocation_log.h: the allocation log of a capture: its blocks, device and pinned,
 * in the order in which it asked for them. */
#ifndef PH_MEMORY_CAPTURE_ALLOCATION_LOG_H
#define PH_MEMORY_CAPTURE_ALLOCATION_LOG_H
#include "memory/state/allocation.h"
#include <phonograph/memory.h>

typedef struct ph__memory ph__memory;

/* One more entry. Lock held. */
void ph__layout_note(ph_pool *pool, uint64_t capture_id, const ph__logged_allocation *entry);
/* The log of the capture, which is the caller's then. Call between the driver's end and
 * record_end. */
void ph__pool_acquire_layout(ph__layout *out, ph_pool *pool, uint64_t capture_id);
void ph__layout_free(ph__layout *log);
size_t ph__layout_bytes(const ph__layout *log);                /* of the host, that it takes */
bool ph__layout_copy(ph__layout *out, const ph__layout *from); /* false: no host memory */
/* Whether its memory is still the graph's, which holds the pool: a pinned block that no copy
 * uses may have gone. The second: with the lock held. */
bool ph__logged_allocation_is_live(const ph_device *device, const ph__logged_allocation *entry);
bool ph__allocation_entry_is_in(const ph__memory *memory, const ph__logged_allocation *entry);
#endif
