/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_set.c: the values of slots: taking them down when all are right, and giving
 * the executable those that it has not. */
#include "graph/slots/slots_set.h"
#include "graph/locate/probes_exec.h"
#include "graph/object/graph.h"
#include "graph/slots/slots_check.h"
#include "graph/slots/slots_groups.h"
#include "memory/observe/lookup.h"
#include "memory/observe/track.h"
#include "memory/reclaim/pinned_holders.h"
#include <string.h>

/* ---- taking values down ---- */
/* Where allocations have died, the same address may be another one's; of those that nobody
 * tracks only a look tells. */
static bool is_unchanged(const ph__slot *slot, const void *value, uint64_t free_count)
{
    if (!slot->set || !slot->address)
        return slot->set && memcmp(slot->value, value, slot->bytes) == 0;
    return slot->current == (uintptr_t)value &&
           (!slot->where.base || (slot->tracked && slot->free_count == free_count));
}

static bool is_found_unchanged(const ph__slot_staged *staged)
{
    const ph__slot *slot = staged->slot;
    return slot->set && !slot->tracked && slot->where.base &&
           slot->current == (uintptr_t)staged->value &&
           staged->where.generation == slot->where.generation;
}

static ph_status stage_value(ph_graph *graph, const ph_slot_value *value, uint64_t free_count,
                             const char *call)
{
    ph__slots *slots = graph->slots;
    if (slots == NULL || value->slot >= slots->list.count)
        return ph__slot_fail_missing(graph, value->slot, call);
    ph__slot *slot = slots->list.at[value->slot];
    if (slot->named == slots->calls)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: slot %zu (%s) is named twice", call, value->slot,
                       slot->name);
    slot->named = slots->calls;
    if (value->value == NULL)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: the value of slot %zu (%s) is NULL", call,
                       value->slot, slot->name);
    if (is_unchanged(slot, value->value, free_count))
        return PH_OK;
    /* `where` is of those that are looked up */
    ph__slot_staged *staged = &slots->staged.at[slots->staged.count++];
    staged->slot = slot;
    staged->number = value->slot;
    staged->value = value->value;
    staged->free_count = free_count;
    slot->staged = true;
    return PH_OK;
}

/* The memory at the staged addresses: all are asked for at once. */
static void look_up_slot_memory(const ph_graph *graph, ph__slot_staged *staged, size_t count)
{
    uintptr_t addresses[PH__FIND_MOST];
    ph_allocation found[PH__FIND_MOST];
    size_t asked = 0;
    if (count == 1) { /* as most times: straight to its place */
        if (ph__slot_needs_check(staged->slot))
            (void)ph__memory_find(&staged->where, graph->device, staged->value);
        return;
    }
    for (size_t i = 0; i < count; i++)
        if (ph__slot_needs_check(staged[i].slot))
            addresses[asked++] = (uintptr_t)staged[i].value;
    if (asked == 0)
        return;
    ph__memory_find_all(found, graph->device, addresses, asked);
    while (count-- > 0)
        if (ph__slot_needs_check(staged[count].slot))
            staged[count].where = found[--asked];
}

static ph_status check_staged(ph_graph *graph, const char *call)
{
    ph__slots *slots = graph->slots;
    size_t kept = 0, count = slots->staged.count;
    ph_status status = PH_OK;
    for (size_t i = 0; i < count; i += PH__FIND_MOST)
        look_up_slot_memory(graph, &slots->staged.at[i],
                            count - i < PH__FIND_MOST ? count - i : PH__FIND_MOST);
    for (size_t i = 0; i < count; i++) {
        ph__slot_staged *staged = &slots->staged.at[i];
        if (status == PH_OK && staged->slot->address && !ph__slot_needs_check(staged->slot))
            status = ph__slot_check_alignment(staged->slot, staged->number, staged->value, call);
        if (ph__slot_needs_check(staged->slot) && status == PH_OK) {
            if (is_found_unchanged(staged)) {
                staged->slot->staged = false;
                continue;
            }
            status = ph__slot_check_memory(graph, staged->slot, staged->number, staged->value,
                                           &staged->where, call);
        }
        if (kept != i)
            slots->staged.at[kept] = *staged;
        kept++;
    }
    slots->staged.count = kept;
    return status;
}

void ph__slots_drop_staged(ph_graph *graph)
{
    ph__slots *slots = graph->slots;
    for (size_t i = 0; slots && i < slots->staged.count; i++)
        slots->staged.at[i].slot->staged = false;
    if (slots)
        ph__vec_clear(&slots->staged);
}

ph_status ph__slots_stage(ph_graph *graph, const ph_slot_value *values, size_t count,
                          const char *call)
{
    ph_status status = PH_OK;
    uint64_t free_count = ph__memory_free_count(graph->device);
    if (values == NULL && count)
        return ph__fail_null(call, "values");
    if (graph->slots)
        graph->slots->calls++;
    for (size_t i = 0; i < count && status == PH_OK; i++)
        if (!ph__slots_pass_over(graph->slots, &values[i]))
            status = stage_value(graph, &values[i], free_count, call);
    if (graph->slots && graph->slots->grouped)
        for (size_t i = 0; status == PH_OK && ph__slot_groups_next_brought(&i, graph->slots); i++) {
            const ph_slot_value there = {i, (const void *)graph->slots->list.at[i]->current};
            status = stage_value(graph, &there, free_count, call);
        }
    if (status == PH_OK && graph->slots && graph->slots->staged.count > 0)
        status = check_staged(graph, call);
    if (status == PH_OK && graph->slots && graph->slots->grouped)
        status = ph__slot_groups_check(graph->slots, call);
    if (status != PH_OK)
        ph__slots_drop_staged(graph);
    return status;
}

/* ---- the slots ---- */
void ph__slot_mark(ph__slots *slots, ph__slot_node *node)
{
    if (node->due)
        return;
    node->due = true;
    slots->due.at[slots->due.count++] = node; /* room was made with the node */
}

static void patch_address(ph__slots *slots, const ph__slot_use *use, uint64_t address)
{
    uint64_t has;
    unsigned char *at = ph__slot_params(use->node) + use->offset;
    memcpy(&has, at, sizeof has);
    if (has == address)
        return;
    memcpy(at, &address, sizeof address);
    ph__slot_mark(slots, use->node);
}

static void patch_value(ph__slots *slots, const ph__slot_use *use, const ph__slot *slot)
{
    unsigned char *at = ph__slot_params(use->node) + use->offset;
    if (memcmp(at, slot->value, slot->bytes) == 0)
        return;
    memcpy(at, slot->value, slot->bytes);
    ph__slot_mark(slots, use->node);
}

void ph__slot_patch(ph__slots *slots, ph__slot *slot)
{
    for (size_t i = 0; i < slot->uses.count; i++)
        if (slot->address)
            patch_address(slots, &slot->uses.at[i], slot->current + slot->uses.at[i].distance);
        else
            patch_value(slots, &slot->uses.at[i], slot);
}

/* Allocations are tracked where every replay checks inputs, so that the device's count of frees
 * tells when one has gone. */
static void adopt_memory(ph_graph *graph, ph__slot *slot, const ph__slot_staged *staged)
{
    ph_device *device = graph->device;
    bool same = slot->tracked && slot->where.base == staged->where.base &&
                slot->where.generation == staged->where.generation;
    slot->free_count = staged->free_count;
    if (same)
        return;
    if (slot->tracked)
        ph__memory_untrack(device, slot->where.base, slot->where.generation, &graph->watch);
    slot->where = staged->where;
    slot->tracked = slot->reported = false;
    if (graph->liveness && slot->where.base) {
        ph__tracking tracking =
            ph__memory_track(device, slot->where.base, slot->where.generation, &graph->watch);
        slot->tracked = tracking == PH__TRACKS;
        graph->watch_lost = graph->watch_lost || tracking == PH__TRACK_NO_MEMORY;
        if (tracking != PH__TRACKS)
            graph->free_count = UINT64_MAX; /* gone meanwhile: the next look finds it */
    }
    if (slot->copied && slot->where.pinned)
        ph__memory_pin_used(graph->own->pool, (const void *)(uintptr_t)slot->current);
}

static void adopt_value(ph_graph *graph, const ph__slot_staged *staged)
{
    ph__slot *slot = staged->slot;
    slot->staged = false;
    slot->set = true;
    if (slot->address) {
        slot->current = (uintptr_t)staged->value;
        if (ph__slot_needs_check(slot))
            adopt_memory(graph, slot, staged);
    } else {
        memcpy(slot->value, staged->value, slot->bytes);
    }
    ph__slot_patch(graph->slots, slot);
}

/* ---- the executable ---- */
static int set_node(const ph_graph *graph, ph__slot_node *node)
{
    const ph__driver *driver = graph->device->driver;
    switch (node->kind) {
    case PH_NODE_KERNEL:
        if (graph->locate)
            ph__locate_patch(graph, node->index, node->args);
        return driver->exec_set_args(graph->exec, node->handle, &node->launch, node->args_size);
    case PH_NODE_MEMCPY:
        return driver->exec_set_copy(graph->exec, node->handle, &node->copy);
    default:
        return driver->exec_set_fill(graph->exec, node->handle, &node->fill);
    }
}

static ph_status fail_exec_set(const ph_graph *graph, const ph__slot_node *node, int result,
                               const char *call)
{
    static const char *const calls[] = {
        [PH_NODE_KERNEL] = PH__NAME_GRAPH_EXEC_KERNEL_NODE_SET_PARAMS,
        [PH_NODE_MEMCPY] = PH__NAME_GRAPH_EXEC_MEMCPY_NODE_SET_PARAMS,
        [PH_NODE_MEMSET] = PH__NAME_GRAPH_EXEC_MEMSET_NODE_SET_PARAMS};
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the values of the slots");
    return ph__driver_fail(result, calls[node->kind], "%s: the slots' values for node %zu (%s)",
                           call, node->index, graph->record->nodes[node->index].info.name);
}

/* The last node first; what is left after a failure stays due. */
ph_status ph__slots_apply(ph_graph *graph, const char *call)
{
    ph__slots *slots = graph->slots;
    for (size_t i = 0; i < slots->staged.count; i++)
        adopt_value(graph, &slots->staged.at[i]);
    ph__vec_clear(&slots->staged);
    while (slots->due.count) {
        ph__slot_node *node = slots->due.at[slots->due.count - 1];
        int result = set_node(graph, node);
        if (result != PH__R_OK)
            return fail_exec_set(graph, node, result, call);
        node->due = false;
        slots->due.count--;
    }
    return PH_OK;
}

/* ---- single values ---- */
/* The slot's entry for the memory at that address, which is looked up where nothing says that it is
 * as before; NULL: the library made nothing there. Memory that comes a second time is counted when
 * it is freed, so that inputs that take turns are looked up no more. */
static ph__slot_seen *look_up_seen(ph__slot *slot, const ph_device *device, const void *value)
{
    uint64_t free_count = ph__memory_free_count(device);
    bool known = slot->seen[0].address == (uintptr_t)value;
    ph__slot_seen *seen = &slot->seen[known ? 0 : 1];
    known = known || seen->address == (uintptr_t)value;
    if (known && seen->counted && seen->free_count == free_count)
        return seen;
    if (!known)
        seen = &slot->seen[slot->oldest_seen++ % 2];
    *seen = (ph__slot_seen){.address = (uintptr_t)value, .free_count = free_count};
    bool found = known ? ph__memory_find_counted(&seen->where, &seen->counted, device, value)
                       : ph__memory_find(&seen->where, device, value);
    return found ? seen : NULL;
}

/* A slot with one place, as most: straight into the executable. */
static ph_status set_patched(ph_graph *graph, ph__slot *slot, const char *call)
{
    if (slot->uses.count != 1 || graph->slots->due.count) {
        ph__slot_patch(graph->slots, slot);
        return ph__slots_apply(graph, call);
    }
    const ph__slot_use *use = slot->uses.at;
    uint64_t has, address = slot->current + use->distance;
    unsigned char *at = ph__slot_params(use->node) + use->offset;
    memcpy(&has, at, sizeof has);
    if (has == address)
        return PH_OK;
    memcpy(at, &address, sizeof address);
    int result = set_node(graph, use->node);
    if (result == PH__R_OK)
        return PH_OK;
    ph__slot_mark(graph->slots, use->node);
    return fail_exec_set(graph, use->node, result, call);
}

ph_status ph__slots_set_usual(bool *done, ph_graph *graph, const ph_slot_value *value,
                              const char *call)
{
    *done = false;
    const ph__slots *slots = graph->slots;
    ph__slot *slot = value->slot < slots->list.count ? slots->list.at[value->slot] : NULL;
    if (!slot || !slot->address || slot->lead || slot->tracked || graph->liveness ||
        !ph__slot_needs_check(slot))
        return PH_OK;
    const ph__slot_seen *seen = look_up_seen(slot, graph->device, value->value);
    if (!seen || !ph__slot_fits(slot, value->value, &seen->where))
        return PH_OK;
    slot->set = true;
    slot->current = seen->address;
    slot->free_count = seen->free_count;
    slot->where = seen->where;
    slot->reported = false;
    if (slot->copied && seen->where.pinned)
        ph__memory_pin_used(graph->own->pool, value->value);
    *done = true;
    return set_patched(graph, slot, call);
}

ph_status ph_graph_slots_set(ph_graph *graph, const ph_slot_value *values, size_t count)
{
    static const char call[] = "ph_graph_slots_set";
    PH_TRY(ph__graph_check(graph, PH__CALL_SLOTS_SET));
    bool done = false;
    if (count == 1 && values && graph->slots)
        PH_TRY(ph__slots_set_usual(&done, graph, values, call));
    if (!done)
        PH_TRY(ph__slots_stage(graph, values, count, call));
    return graph->slots && !done ? ph__slots_apply(graph, call) : PH_OK;
}
