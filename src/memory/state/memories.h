/* SPDX-License-Identifier: MIT */
/* memory/state/memories.h: the memories of the process. */
#ifndef PH_MEMORY_STATE_MEMORIES_H
#define PH_MEMORY_STATE_MEMORIES_H
#include "memory/state/memory_state.h"

/* The captures of the process that are open, or whose graph is being read. Read with the lock of
 * any memory held, changed with those of all. */
extern ph_pool *ph__recordings;

/* The memory that address belongs to, of any device of the process, with the device retained;
 * NULL: none. */
ph__memory *ph__memory_of_address(uintptr_t address);
bool ph__pool_is_there(const ph_pool *pool); /* of any device of the process. No lock held */
/* The first memory of the process, by next_memory; no other one comes or goes until end. lock:
 * with the locks of all of them taken, too; no lock of a memory is held, and none is taken
 * meanwhile. */
ph__memory *ph__memories_begin(void);
void ph__memories_end(void);
ph__memory *ph__memories_lock(void);
void ph__memories_unlock(void);
/* its device; false: that is on its way out */
bool ph__memory_try_retain(const ph__memory *memory);
/* In a child of fork(): whether it is memory of a device that the parent opened, which freeing
 * leaves alone. */
bool ph__memory_is_forked(uintptr_t address);
bool ph__pool_is_forked(const ph_pool *pool); /* likewise */
void ph__memories_set_slow_path(unsigned flag,
                                bool on); /* in all memories of the process. No lock held */
/* The memory enters the list, between ph__memories_begin and ph__memories_end. */
void ph__memories_add(ph__memory *memory);
void ph__memories_remove(ph__memory *memory); /* and leaves it. No lock held */
#endif
