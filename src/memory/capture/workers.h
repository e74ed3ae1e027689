/* SPDX-License-Identifier: MIT */
/* memory/capture/workers.h: the threads that work on a capture. The lock of a memory is held. */
#ifndef PH_MEMORY_CAPTURE_WORKERS_H
#define PH_MEMORY_CAPTURE_WORKERS_H
#include "memory/state/memory_state.h"

void ph__born_work(ph_pool *pool);                              /* the calling thread does */
void ph__born_work_on(ph__memory *memory, uint64_t capture_id); /* the same, by the capture */
void ph__born_no_work(ph_pool *pool);                           /* nobody does yet */
bool ph__born_works(const ph_pool *pool, uint32_t thread);
/* A thread that works on a capture which may address the block allocated it or frees it. */
bool ph__born_is_captured_work(const ph__block *block);
#endif
