/* SPDX-License-Identifier: MIT */
/* base/map.c: the hash map (linear probing, removal by shifting back) and the sorted ranges. */
#include "base/map.h"
#include "base/alloc.h"
#include "base/checked.h"
#include "base/vec.h"
#include <string.h>

enum {
    FIRST_SLOTS = 8
};

/* Addresses differ in their middle bits: the product carries them upward, the shift brings them
 * back into the mask. */
static size_t slot_of_key(const ph__map *map, uint64_t key)
{
    uint64_t product = key * UINT64_C(0x9e3779b97f4a7c15);
    return (size_t)(product ^ (product >> 32)) & map->mask;
}

/* A quarter of the slots stays empty: probes are short, and each ends. */
static size_t most_keys(size_t slots)
{
    return slots - slots / 4;
}

/* The slot that holds key, or the empty one where it would go. */
static ph__map_slot *probe_slots(const ph__map *map, uint64_t key)
{
    size_t i = slot_of_key(map, key);
    while (map->slots[i].key != 0 && map->slots[i].key != key)
        i = (i + 1) & map->mask;
    return &map->slots[i];
}

static bool resize_map(ph__map *map, size_t slots)
{
    ph__map fresh = {
        .slots = ph__calloc(slots, sizeof *fresh.slots), .count = map->count, .mask = slots - 1};
    if (!fresh.slots)
        return false;
    for (size_t i = 0; map->slots && i <= map->mask; i++)
        if (map->slots[i].key != 0)
            *probe_slots(&fresh, map->slots[i].key) = map->slots[i];
    ph__free(map->slots);
    *map = fresh;
    return true;
}

bool ph__map_reserve(ph__map *map, size_t extra)
{
    size_t needed, now = map->slots ? map->mask + 1 : 0, slots = now ? now : FIRST_SLOTS;
    if (!ph__add(map->count, extra, &needed))
        return false;
    while (most_keys(slots) < needed)
        if (!ph__mul(slots, 2, &slots))
            return false;
    return slots == now || resize_map(map, slots);
}

bool ph__map_put(ph__map *map, uint64_t key, void *value)
{
    if (map->slots) {
        ph__map_slot *slot = probe_slots(map, key);
        if (slot->key == key) {
            slot->value = value;
            return true;
        }
    }
    if (!ph__map_reserve(map, 1))
        return false;
    *probe_slots(map, key) = (ph__map_slot){key, value};
    map->count++;
    return true;
}

void *ph__map_get(const ph__map *map, uint64_t key)
{
    return map->slots ? probe_slots(map, key)->value : NULL;
}

void *ph__map_remove(ph__map *map, uint64_t key)
{
    if (!map->slots)
        return NULL;
    ph__map_slot *slot = probe_slots(map, key);
    void *value = slot->value;
    if (!value)
        return NULL;
    size_t hole = (size_t)(slot - map->slots);
    for (size_t i = (hole + 1) & map->mask; map->slots[i].key != 0; i = (i + 1) & map->mask) {
        size_t distance = (i - slot_of_key(map, map->slots[i].key)) & map->mask;
        if (distance >= ((i - hole) & map->mask)) {
            map->slots[hole] = map->slots[i];
            hole = i;
        }
    }
    map->slots[hole] = (ph__map_slot){0};
    map->count--;
    return value;
}

void ph__map_free(ph__map *map)
{
    ph__free(map->slots);
    *map = (ph__map){0};
}

bool ph__map_next(const ph__map *map, size_t *cursor, uint64_t *key, void **value)
{
    for (size_t i = *cursor; map->slots && i <= map->mask; i++) {
        if (map->slots[i].key == 0)
            continue;
        *key = map->slots[i].key;
        *value = map->slots[i].value;
        *cursor = i + 1;
        return true;
    }
    return false;
}

/* How many ranges begin at or before address: the last of them is the only one that can hold it. */
static size_t count_ranges_begun(const ph__ranges *ranges, uintptr_t address)
{
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->at[middle].base <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool ph__ranges_add(ph__ranges *ranges, uintptr_t base, size_t size, void *value)
{
    uintptr_t last;
    if (size == 0 || __builtin_add_overflow(base, size - 1, &last))
        return false;
    size_t index = count_ranges_begun(ranges, base);
    if (ph__ranges_find(ranges, base) || (index < ranges->count && ranges->at[index].base <= last))
        return false;
    if (!ph__vec_reserve(ranges, 1))
        return false;
    memmove(&ranges->at[index + 1], &ranges->at[index],
            (ranges->count - index) * sizeof *ranges->at);
    ranges->at[index] = (ph__range){base, size, value};
    ranges->count++;
    return true;
}

const ph__range *ph__ranges_find(const ph__ranges *ranges, uintptr_t address)
{
    size_t index = count_ranges_begun(ranges, address);
    if (index == 0)
        return NULL;
    const ph__range *range = &ranges->at[index - 1];
    return address - range->base < range->size ? range : NULL;
}

const ph__range *ph__ranges_from(const ph__ranges *ranges, uintptr_t address)
{
    const ph__range *around = ph__ranges_find(ranges, address);
    size_t above = count_ranges_begun(ranges, address);
    return around ? around : above < ranges->count ? &ranges->at[above] : NULL;
}

void *ph__ranges_remove(ph__ranges *ranges, uintptr_t base)
{
    size_t index = count_ranges_begun(ranges, base);
    if (index == 0 || ranges->at[index - 1].base != base)
        return NULL;
    void *value = ranges->at[index - 1].value;
    memmove(&ranges->at[index - 1], &ranges->at[index],
            (ranges->count - index) * sizeof *ranges->at);
    ranges->count--;
    return value;
}

void ph__ranges_free(ph__ranges *ranges)
{
    ph__vec_free(ranges);
}
