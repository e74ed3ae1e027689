/* SPDX-License-Identifier: MIT */
/* base/range_map.c: sorted ranges in pieces of bounded length. */
#include "base/range_map.h"
#include "base/alloc.h"
#include "base/vec.h"
#include <string.h>

enum {
    FIRST = 8,
    MOST = 128 /* even */
};

/* How many ranges of the piece begin at or before the address. */
static size_t count_piece_begun(const ph__range_piece *piece, uintptr_t address)
{
    size_t low = 0, high = piece->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (piece->at[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The last piece that begins at or before the address, or the first one. There is one. */
static size_t piece_of(const ph__range_map *map, uintptr_t address)
{
    size_t low = 1, high = map->piece_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (map->pieces[middle].at[0].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

const ph__range *ph__range_map_find(const ph__range_map *map, uintptr_t address)
{
    if (map->count == 0)
        return NULL;
    const ph__range_piece *piece = &map->pieces[piece_of(map, address)];
    size_t index = count_piece_begun(piece, address);
    if (index == 0)
        return NULL;
    const ph__range *range = &piece->at[index - 1];
    return address - range->base < range->size ? range : NULL;
}

const ph__range *ph__range_map_from(const ph__range_map *map, uintptr_t address)
{
    if (map->count == 0)
        return NULL;
    size_t which = piece_of(map, address);
    const ph__range_piece *piece = &map->pieces[which];
    size_t index = count_piece_begun(piece, address);
    if (index > 0 && address - piece->at[index - 1].base < piece->at[index - 1].size)
        return &piece->at[index - 1];
    if (index < piece->count)
        return &piece->at[index];
    return which + 1 < map->piece_count ? &map->pieces[which + 1].at[0] : NULL;
}

/* Makes room for one more piece. */
static bool reserve_piece(ph__range_map *map)
{
    return map->piece_count < map->capacity ||
           ph__vec_grow((void **)&map->pieces, &map->capacity, map->piece_count, 1,
                        sizeof *map->pieces);
}

static void put_piece(ph__range_map *map, size_t at, ph__range_piece piece)
{
    memmove(&map->pieces[at + 1], &map->pieces[at], (map->piece_count - at) * sizeof *map->pieces);
    map->pieces[at] = piece;
    map->piece_count++;
}

/* A full piece becomes two halves. */
static bool split_chunk(ph__range_map *map, size_t which)
{
    ph__range *upper = reserve_piece(map) ? ph__alloc(MOST * sizeof *upper) : NULL;
    if (!upper)
        return false;
    ph__range_piece *piece = &map->pieces[which];
    piece->count = MOST / 2;
    memcpy(upper, &piece->at[MOST / 2], MOST / 2 * sizeof *upper);
    put_piece(map, which + 1, (ph__range_piece){upper, MOST / 2, MOST});
    return true;
}

/* Room in the piece for one more range. */
static bool reserve_range(ph__range_piece *piece)
{
    if (piece->count < piece->capacity)
        return true;
    size_t capacity = piece->capacity ? 2 * piece->capacity : FIRST;
    ph__range *at = ph__alloc(capacity * sizeof *at);
    if (!at)
        return false;
    if (piece->count > 0)
        memcpy(at, piece->at, piece->count * sizeof *at);
    ph__free(piece->at);
    piece->at = at;
    piece->capacity = capacity;
    return true;
}

static bool add_first(ph__range_map *map, ph__range range)
{
    ph__range_piece piece = {0};
    if (!reserve_piece(map) || !reserve_range(&piece))
        return false;
    piece.at[piece.count++] = range;
    put_piece(map, 0, piece);
    map->count = 1;
    return true;
}

bool ph__range_map_add(ph__range_map *map, uintptr_t base, size_t size, void *value)
{
    uintptr_t last;
    if (size == 0 || __builtin_add_overflow(base, size - 1, &last))
        return false;
    const ph__range *there = ph__range_map_from(map, base);
    if (there && there->base <= last)
        return false;
    const ph__range range = {base, size, value};
    if (map->piece_count == 0)
        return add_first(map, range);
    size_t which = piece_of(map, base);
    if (map->pieces[which].count == MOST && !split_chunk(map, which))
        return false;
    which = piece_of(map, base);
    ph__range_piece *piece = &map->pieces[which];
    if (!reserve_range(piece))
        return false;
    size_t index = count_piece_begun(piece, base);
    memmove(&piece->at[index + 1], &piece->at[index], (piece->count - index) * sizeof range);
    piece->at[index] = range;
    piece->count++;
    map->count++;
    return true;
}

/* The range that ph__range_map_from gives lies in one of the pieces, which are this map's own. */
bool ph__range_map_cover(ph__range_map *map, uintptr_t base, size_t size, void *value)
{
    uintptr_t last;
    if (size == 0 || __builtin_add_overflow(base, size - 1, &last))
        return false;
    ph__range *one = (ph__range *)(uintptr_t)ph__range_map_from(map, base);
    if (!one || one->base > last)
        return ph__range_map_add(map, base, size, value);
    ph__range all = {base < one->base ? base : one->base, 0, value};
    uintptr_t one_last = one->base + (one->size - 1);
    last = one_last > last ? one_last : last;
    one->size = one_last - all.base + 1;
    one->base = all.base;
    one->value = value;
    /* Other ranges that begin within; none of them is the first of all. */
    for (const ph__range *next; one_last < last; (void)ph__range_map_remove(map, next->base)) {
        next = ph__range_map_from(map, one_last + 1);
        if (!next || next->base > last)
            break;
        uintptr_t next_last = next->base + (next->size - 1);
        last = next_last > last ? next_last : last;
    }
    one = (ph__range *)(uintptr_t)ph__range_map_find(map, all.base);
    one->size = last - all.base + 1;
    return true;
}

void *ph__range_map_remove(ph__range_map *map, uintptr_t base)
{
    if (map->count == 0)
        return NULL;
    size_t which = piece_of(map, base);
    ph__range_piece *piece = &map->pieces[which];
    size_t index = count_piece_begun(piece, base);
    if (index == 0 || piece->at[index - 1].base != base)
        return NULL;
    void *value = piece->at[index - 1].value;
    memmove(&piece->at[index - 1], &piece->at[index], (piece->count - index) * sizeof *piece->at);
    map->count--;
    if (--piece->count > 0)
        return value;
    ph__free(piece->at);
    map->piece_count--;
    memmove(piece, piece + 1, (map->piece_count - which) * sizeof *piece);
    return value;
}

void ph__range_map_free(ph__range_map *map)
{
    for (size_t i = 0; i < map->piece_count; i++)
        ph__free(map->pieces[i].at);
    ph__free(map->pieces);
    *map = (ph__range_map){0};
}
