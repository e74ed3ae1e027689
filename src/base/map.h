/* SPDX-License-Identifier: MIT */
/* base/map.h: hash map from 64-bit keys to pointers, open addressing, and a sorted map of
 * address ranges. */
#ifndef PH_BASE_MAP_H
#define PH_BASE_MAP_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero is an empty map. Keys may be anything but 0; values anything but NULL. Not thread-safe. */
typedef struct ph__map_slot {
    uint64_t key;
    void *value;
} ph__map_slot;
typedef struct ph__map {
    ph__map_slot *slots;
    size_t count, mask; /* mask + 1 slots when slots != NULL; no tombstones: removal shifts back */
} ph__map;

bool ph__map_put(ph__map *map, uint64_t key,
                 /* replaces; false when out of memory, nothing changed */
                 void *value);
bool ph__map_reserve(ph__map *map, size_t extra);    /* the next extra puts cannot fail */
void *ph__map_get(const ph__map *map, uint64_t key); /* NULL when absent */
void *ph__map_remove(ph__map *map, uint64_t key);    /* the removed value, or NULL */
void ph__map_free(ph__map *map);
/* Iterates: start with *cursor = 0; false at the end. The map must not change meanwhile. */
bool ph__map_next(const ph__map *map, size_t *cursor, uint64_t *key, void **value);

/* Disjoint address ranges [base, base + size), kept sorted; lookups are binary searches. Zero is
 * empty. */
typedef struct ph__range {
    uintptr_t base;
    size_t size;
    void *value;
} ph__range;
typedef struct ph__ranges {
    ph__range *at;
    size_t count, capacity;
} ph__ranges;
bool ph__ranges_add(ph__ranges *ranges, uintptr_t base, size_t size,
                    void *value); /* false: out of memory, overlap, empty */
const ph__range *ph__ranges_find(const ph__ranges *ranges,
                                 uintptr_t address); /* the range it lies in, or NULL */
/* The range that the address lies in, or else the next one above it; NULL: there is none. */
const ph__range *ph__ranges_from(const ph__ranges *ranges, uintptr_t address);
/* the removed value of the range that began there, or NULL */
void *ph__ranges_remove(ph__ranges *ranges, uintptr_t base);
void ph__ranges_free(ph__ranges *ranges);
#endif
