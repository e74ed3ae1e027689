/* SPDX-License-Identifier: MIT */
/* memory/observe/hold.h: memory that was allocated while a capture of a pool was open, from
 * record_begin to record_end, and that its graph holds. Of what the capture was given from the
 * pool, pinned memory alone is such memory. */
#ifndef PH_MEMORY_OBSERVE_HOLD_H
#define PH_MEMORY_OBSERVE_HOLD_H
#include "base/vec.h"
#include "memory/observe/lookup.h"
#include "memory/observe/track.h"

typedef struct ph__memory ph__memory;

typedef struct ph__born {
    ph_device *device; /* borrowed */
    const void *base;
    uint64_t generation;
} ph__born;
typedef struct ph__birthplace {
    ph_device *device;
    ph__memory_bounds bounds;
} ph__birthplace;
typedef PH__VEC(ph__birthplace) ph__births;
/* The devices, of all of the process, that have such memory, and where it can lie. They are
 * borrowed until record_end; free with ph__vec_free. false: no host memory. */
bool ph__pool_record_births(ph__births *out, ph_pool *pool);
/* The least generation that the capture may have been given; from record_begin to record_end. */
uint64_t ph__pool_record_from(const ph_pool *pool);
typedef enum ph__birth {
    PH__BORN_NONE,
    PH__BORN_HERE,
    /* such memory, whose place is in use by somebody else now: nothing can be held */
    PH__BORN_AGAIN
} ph__birth;
/* Whether the allocation around the address, of such a device, is such memory, in use or freed.
 * Freed memory waits until record_end, or is taken again where a thread that captured nothing had
 * freed it. */
ph__birth ph__memory_find_born(ph__born *out, ph_pool *pool, const ph_device *device,
                               uintptr_t address);
/* Keeps the allocation out of reuse, and from going back to the device, until let_go, as often.
 * PH__TRACK_GONE: that allocation is not there any more. */
ph__tracking ph__memory_hold(const ph__born *born);
/* Ends one hold. streams: those of its own device on which work of the holder may still use it. */
void ph__memory_let_go(const ph__born *born, ph_stream *const *streams, size_t count);
/* The generation of what is around the address, in use, freed and waiting, or held; 0: nothing. */
uint64_t ph__memory_generation_at(const ph_device *device, uintptr_t address);
/* Whether the address lies in free memory of a segment that no graph holds, or in freed pinned
 * memory that none holds: a later request may be given it. */
bool ph__memory_is_free(const ph_device *device, uintptr_t address);
/* Reclaims in the memories that ph__born_end gave. No lock held. */
void ph__born_reclaim(ph__memory *to_reclaim);
#endif
