/* SPDX-License-Identifier: MIT */
/* memory/state/freed.h: allocations that were freed since moments that somebody may still ask
 * about. */
#ifndef PH_MEMORY_STATE_FREED_H
#define PH_MEMORY_STATE_FREED_H
#include "base/vec.h"
#include <phonograph/memory.h>

/* A moment at which the allocations of a device can be looked at later: they are those that live
 * then and lived already, and those that were freed since. */
typedef struct ph__moment {
    struct ph__moment *previous, *next; /* by `at` */
    uint64_t at;                        /* frees with a greater number came later */
    uint64_t bound;                     /* generations from here on are of later allocations */
} ph__moment;

typedef struct ph__freed_allocation {
    ph_allocation was; /* its pool is NULL: pool_id says which it was */
    ph_pool_id pool_id;
    uint64_t number;
} ph__freed_allocation;

/* Of one device; under the lock of its memory. Zero is empty. */
typedef struct ph__freed_list {
    ph__moment *first, *last;
    uint64_t bound;  /* of the last moment; 0: there is none, and nothing is noted */
    uint64_t number; /* of the last free or moment */
    uint64_t lost;   /* of the last free for which there was no host memory */
    PH__VEC(ph__freed_allocation) list;
    size_t kept; /* of them, after those that nobody can ask for were last dropped */
} ph__freed_list;

/* A free before which some moment lies. */
void ph__freed_list_add(ph__freed_list *freed, const ph_allocation *was, ph_pool_id pool_id);
void ph__moment_add(ph__freed_list *freed, ph__moment *moment, uint64_t bound);
void ph__moment_remove(ph__freed_list *freed, ph__moment *moment);
#endif
