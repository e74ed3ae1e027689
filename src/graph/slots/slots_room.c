/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_room.c: whether the kernels of a slot stay inside its span. New memory is
 * checked for the span alone: what they use behind it would be anything. */
#include "graph/slots/slots_room.h"
#include "base/log.h"
#include "memory/observe/lookup.h"
#include "record/extent.h"
#include "record/sparse.h"
#include <string.h>

static size_t bytes_behind(const ph_allocation *where, const void *base)
{
    size_t offset = (size_t)((uintptr_t)base - (uintptr_t)where->base);
    return offset < where->requested ? where->requested - offset : 0;
}

/* The allocation that base lay in when the capture ended, as a word of the node tells; base NULL:
 * none does. */
static ph_allocation captured_in(const ph__record_node *node, const void *base)
{
    for (size_t w = 0; w < node->kept_count; w++) {
        ph_word room;
        const ph_word *word = ph__record_kept(&room, node, w);
        if (word->base && !word->foreign &&
            (uintptr_t)base - (uintptr_t)word->base < word->allocation_bytes)
            return (ph_allocation){.base = (void *)(uintptr_t)word->base,
                                   .requested = word->allocation_bytes,
                                   .generation = word->generation};
    }
    return (ph_allocation){.base = NULL};
}

/* The capture's allocation there, or, where no word tells of one, the present one. Other memory may
 * lie there since. */
static bool find_captured(ph_allocation *out, const ph_graph *graph, const void *base)
{
    *out = (ph_allocation){.base = NULL};
    for (size_t n = 0; n < graph->record->node_count && !out->base; n++)
        *out = captured_in(&graph->record->nodes[n], base);
    return out->base || ph__memory_find(out, graph->device, base);
}

ph_status ph__slot_room_check(const ph_graph *graph, const void *base, size_t bytes,
                              const char *call)
{
    ph_allocation where;
    if (!find_captured(&where, graph, base) || bytes <= bytes_behind(&where, base))
        return PH_OK;
    return ph_fail(PH_ERROR_ARGUMENT,
                   "%s: the span has %zu bytes, and the allocation at %p ends after %zu: other "
                   "memory would move with it; pass the bytes that the kernels use there",
                   call, bytes, base, bytes_behind(&where, base));
}

/* 0: nobody knows. A slot's memory may be the driver's own, or have gone since the capture. */
static size_t room_at(const ph_graph *graph, const void *base, const ph_allocation *captured)
{
    ph_allocation where;
    ph__drv_pointer theirs;
    ph_device *device = graph->device;
    if (captured->base)
        return bytes_behind(captured, base);
    if (ph__memory_find(&where, device, base))
        return bytes_behind(&where, base);
    if (ph__memory_is_reserved(device, base) ||
        device->driver->pointer_info(&theirs, device->handle, base) != PH__R_OK ||
        theirs.kind == PH__MEMORY_PAGEABLE)
        return 0;
    return theirs.size - ((uintptr_t)base - theirs.base);
}

/* Operators of libphonograph_nn stay inside of their tensors, and their slots in its own blocks:
 * graphed callables make slots of parts of them. */
static bool is_operator(const ph__record_node *node)
{
    static const char prefix[] = "ph_"; /* the names of all of their kernels */
    return strncmp(node->info.name, prefix, sizeof prefix - 1) == 0;
}

static ph_status check_extent(ph__slot_room *out, const ph_graph *graph, const ph__slot *slot,
                              const ph_slot_place *place, const char *call)
{
    const ph__record_node *node = &graph->record->nodes[place->node];
    uint64_t bytes, address = ph__slot_field(&node->info, place->offset);
    if (node->info.kind != PH_NODE_KERNEL || is_operator(node))
        return PH_OK;
    const ph_param *param = ph__record_param(node, place->offset);
    if (!param || !ph__record_extent(&bytes, node, param)) {
        out->node = out->node == SIZE_MAX ? place->node : out->node;
        return PH_OK;
    }
    size_t distance = address - slot->current;
    if (bytes <= slot->bytes - distance)
        return PH_OK;
    return ph_fail(
        PH_ERROR_ARGUMENT,
        "%s: node %zu (%s) uses %llu bytes at 0x%llx, as its parameter %s declares; that "
        "is beyond the %zu bytes at 0x%llx; make the span as long",
        call, place->node, node->info.name, (unsigned long long)bytes, (unsigned long long)address,
        param->name, slot->bytes, (unsigned long long)slot->current);
}

ph_status ph__slot_room_find(ph__slot_room *out, const ph_graph *graph, const ph__slot_draft *draft,
                             const char *call)
{
    ph__slot *slot = draft->slot;
    *out = (ph__slot_room){SIZE_MAX};
    for (size_t i = 0; i < draft->places.count; i++)
        PH_TRY(check_extent(out, graph, slot, &draft->places.at[i], call));
    const void *base = (const void *)(uintptr_t)slot->current;
    ph_allocation captured = {.base = NULL};
    for (size_t i = 0; i < draft->places.count && !captured.base; i++)
        captured = captured_in(&graph->record->nodes[draft->places.at[i].node], base);
    slot->room = room_at(graph, base, &captured);
    return PH_OK;
}

void ph__slot_room_report(const ph__slot_room *room, const ph_graph *graph, size_t number,
                          const char *call)
{
    const ph__slot *slot = graph->slots->list.at[number];
    if (room->node == SIZE_MAX || slot->room <= slot->bytes)
        return;
    ph__log(PH_LOG_WARNING,
            "%s: slot %zu (%s) has %zu bytes, and the allocation there goes on for %zu: nothing "
            "shows that node %zu (%s) stays inside the span, and memory that is set is checked for "
            "its %zu bytes alone; make the span as long as what the kernel uses, and declare that "
            "(PH_PARAM_ARRAY, PH_PARAM_BYTES)",
            call, number, slot->name, slot->bytes, slot->room, room->node,
            graph->record->nodes[room->node].info.name, slot->bytes);
}
