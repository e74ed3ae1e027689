/* SPDX-License-Identifier: MIT */
/* cache/follows.c: whether a word that moved as far as pointers did can be an address of theirs. */
#include "cache/follows.h"
#include "graph/object/graph.h"
#include "memory/observe/lookup.h"

/* More than any allocation has. */
static const uint64_t far_away = UINT64_C(1) << 38;

static bool is_known_memory(ph_device *device, uint64_t address)
{
    ph_allocation found;
    ph__drv_pointer where;
    const void *at = (const void *)(uintptr_t)address;
    return ph__memory_find(&found, device, at) ||
           (device->driver->pointer_info(&where, device->handle, at) == PH__R_OK &&
            where.kind != PH__MEMORY_PAGEABLE);
}

/* The end of an allocation is an address of it. */
static bool is_in_known_memory(ph_device *device, const ph_word *word)
{
    return word->base || is_known_memory(device, word->value) ||
           is_known_memory(device, word->value - 1);
}

bool ph__lesson_may_follow(const ph__lesson *l, const ph_word *word, uint32_t group)
{
    const ph__moved_group *members = &l->parts.groups.at[group];
    ph_device *device = l->graph->device;
    if (is_in_known_memory(device, word))
        return true;
    for (uint32_t m = members->begin; m < members->end; m++) {
        uint64_t pointer = (uintptr_t)l->learned->first[l->parts.members[m]];
        uint64_t distance = word->value > pointer ? word->value - pointer : pointer - word->value;
        if (distance < far_away && !is_known_memory(device, pointer))
            return true;
    }
    return false;
}
