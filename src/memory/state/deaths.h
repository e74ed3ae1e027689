/* SPDX-License-Identifier: MIT */
/* memory/state/deaths.h: allocations that have died since moments that somebody may still ask
 * about. */
#ifndef PH_MEMORY_STATE_DEATHS_H
#define PH_MEMORY_STATE_DEATHS_H
#include "base/vec.h"
#include <phonograph/memory.h>

/* A moment at which the allocations of a device can be looked at later: they are those that live
 * then and lived already, and those that have died since. */
typedef struct ph__moment {
    struct ph__moment *previous, *next; /* by `at` */
    uint64_t at;                        /* deaths with a greater number came later */
    uint64_t bound;                     /* generations from here on are of later allocations */
} ph__moment;

typedef struct ph__death {
    ph_allocation was; /* its pool is NULL: pool_id says which it was */
    ph_pool_id pool_id;
    uint64_t number;
} ph__death;

/* Of one device; under the lock of its memory. Zero is empty. */
typedef struct ph__deaths {
    ph__moment *first, *last;
    uint64_t bound;  /* of the last moment; 0: there is none, and nothing is noted */
    uint64_t number; /* of the last death or moment */
    uint64_t lost;   /* of the last death for which there was no host memory */
    PH__VEC(ph__death) list;
    size_t kept; /* of them, after those that nobody can ask for were last dropped */
} ph__deaths;

/* A death before which some moment lies. */
void ph__death_note(ph__deaths *deaths, const ph_allocation *was, ph_pool_id pool_id);
void ph__moment_add(ph__deaths *deaths, ph__moment *moment, uint64_t bound);
void ph__moment_remove(ph__deaths *deaths, ph__moment *moment);
#endif
