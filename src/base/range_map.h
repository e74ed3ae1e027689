/* SPDX-License-Identifier: MIT */
/* base/range_map.h: a sorted map of disjoint address ranges that may be many: like ph__ranges,
 * in pieces. */
#ifndef PH_BASE_RANGE_MAP_H
#define PH_BASE_RANGE_MAP_H
#include "base/map.h"

/* Pieces of at most 128 ranges, in order of their addresses; none is empty. An addition moves
 * one piece and the list of pieces. Zero is empty; one with few ranges takes the memory of a
 * vector. Not thread-safe. */
typedef struct ph__range_piece {
    ph__range *at;
    size_t count, capacity;
} ph__range_piece;
typedef struct ph__range_map {
    ph__range_piece *pieces;
    size_t piece_count, capacity;
    size_t count; /* ranges of all pieces */
} ph__range_map;

/* false: out of memory, overlap, empty or beyond the address space; nothing changed. */
bool ph__range_map_add(ph__range_map *map, uintptr_t base, size_t size, void *value);
/* The range and all those that overlap it become one, with this value. false: as add, but never for
 * an overlap, nor for want of memory where there is one. */
bool ph__range_map_cover(ph__range_map *map, uintptr_t base, size_t size, void *value);
/* The range that the address lies in, or NULL. Valid until the map changes. */
const ph__range *ph__range_map_find(const ph__range_map *map, uintptr_t address);
/* The range at the address, or else the next one above it; NULL: there is none. */
const ph__range *ph__range_map_from(const ph__range_map *map, uintptr_t address);
/* the removed value of the range that began there, or NULL */
void *ph__range_map_remove(ph__range_map *map, uintptr_t base);
void ph__range_map_free(ph__range_map *map);
#endif
