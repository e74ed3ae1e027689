/* SPDX-License-Identifier: MIT */
/* memory/alloc/free.h: the slow path of ph_free, and frees that are refused. */
#ifndef PH_MEMORY_ALLOC_FREE_H
#define PH_MEMORY_ALLOC_FREE_H
#include "device/handles/stream.h"
#include "memory/state/memory_state.h"

/* false: the pointer is no live block. No lock held. */
bool ph__free_slow(ph__memory *memory, void *pointer, ph_stream *stream);

void ph__free_warn_destroyed(const void *pointer, const char *call);
/* Whether the stream was destroyed before this call, and nobody holds it any more, which is said
 * then: nothing is to be done, as nobody could order the memory's next use behind its work. */
static inline bool ph__free_on_destroyed(const ph_stream *stream, const void *pointer,
                                         const char *call)
{
    if (__builtin_expect(!atomic_load_explicit(&stream->destroyed, memory_order_relaxed), 1) ||
        atomic_load_explicit(&stream->references, memory_order_relaxed) > 0)
        return false;
    ph__free_warn_destroyed(pointer, call);
    return true;
}
#endif
