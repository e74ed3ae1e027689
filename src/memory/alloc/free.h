/* SPDX-License-Identifier: MIT */
/* memory/alloc/free.h: the slow path of ph_free. */
#ifndef PH_MEMORY_ALLOC_FREE_H
#define PH_MEMORY_ALLOC_FREE_H
#include "memory/state/memory_state.h"

/* false: the pointer is no live block. No lock held. */
bool ph__free_slow(ph__memory *memory, void *pointer, ph_stream *stream);
#endif
