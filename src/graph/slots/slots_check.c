/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_check.c: whether a slot takes a value: its alignment, and the memory there. */
#include "graph/slots/slots_check.h"
#include "graph/object/graph.h"
#include "memory/observe/lookup.h"

static ph_status fail_value_memory(const ph__slot *slot, size_t number, const void *value,
                                   const char *what, const char *call)
{
    return ph_fail(PH_ERROR_ARGUMENT, "%s: %p for slot %zu (%s): %s", call, value, number,
                   slot->name, what);
}

static ph_status fail_short(const ph__slot *slot, size_t number, const void *value, size_t room,
                            const char *call)
{
    return ph_fail(
        PH_ERROR_ARGUMENT,
        "%s: %p for slot %zu (%s): the allocation there ends after %zu bytes; the slot has %zu",
        call, value, number, slot->name, room, slot->bytes);
}

static ph_status check_kind(const ph__slot *slot, size_t number, const void *value, bool pinned,
                            const char *call)
{
    if (!slot->copied || pinned == slot->from_pinned)
        return PH_OK;
    return fail_value_memory(
        slot, number, value,
        pinned
            ? "it is pinned memory, and the graph's copies were captured with memory of the device"
            : "it is memory of the device, and the graph's copies were captured with pinned memory",
        call);
}

/* Memory that this device's allocator did not give. */
static ph_status check_other(const ph_graph *graph, const ph__slot *slot, size_t number,
                             const void *value, const char *call)
{
    ph__drv_pointer where;
    ph_device *device = graph->device;
    if (ph__memory_is_reserved(device, value))
        return fail_value_memory(
            slot, number, value,
            "nothing is allocated there; was it freed? pass memory that is live", call);
    if (ph__device_others_have(device, value))
        return ph_fail(PH_ERROR_WRONG_DEVICE,
                       "%s: %p for slot %zu (%s) is memory of another device than %s; every "
                       "ph_device_open makes a device of its own",
                       call, value, number, slot->name, device->name);
    int result = device->driver->pointer_info(&where, device->handle, value);
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_POINTER_GET_ATTRIBUTE, "%s: address %p", call,
                               value);
    if (where.kind == PH__MEMORY_PAGEABLE)
        return fail_value_memory(
            slot, number, value,
            "it is neither memory of the device nor pinned; copy it there first", call);
    size_t room = where.size - ((uintptr_t)value - where.base);
    if (room < slot->bytes)
        return fail_short(slot, number, value, room, call);
    return check_kind(slot, number, value, where.kind == PH__MEMORY_PINNED, call);
}

ph_status ph__slot_fail_missing(const ph_graph *graph, size_t number, const char *call)
{
    size_t count = graph->slots ? graph->slots->list.count : 0;
    if (number == PH_SLOT_NONE)
        return ph_fail(PH_ERROR_NOT_FOUND,
                       "%s: the slot is PH_SLOT_NONE: the call that was to make it made none, and "
                       "its status, or ph_slot_proof.reason, says why",
                       call);
    return ph_fail(PH_ERROR_NOT_FOUND,
                   "%s: slot %zu does not exist; the graph has %zu, numbered from 0%s", call,
                   number, count, count ? "" : ": a reset and a new capture drop them");
}

ph_status ph__slot_check_alignment(const ph__slot *slot, size_t number, const void *value,
                                   const char *call)
{
    if (((uintptr_t)value & (slot->alignment - 1)) == 0)
        return PH_OK;
    return ph_fail(
        PH_ERROR_ARGUMENT,
        "%s: %p for slot %zu (%s) is no multiple of %zu, the slot's alignment (ph_slot_options "
        "lowers it, where the kernels allow that)",
        call, value, number, slot->name, slot->alignment);
}

ph_status ph__slot_check_memory(const ph_graph *graph, const ph__slot *slot, size_t number,
                                const void *value, const ph_allocation *where, const char *call)
{
    uintptr_t address = (uintptr_t)value;
    if (!where->base) { /* memory of a wrong kind is the fault, whatever its alignment */
        PH_TRY(check_other(graph, slot, number, value, call));
        return ph__slot_check_alignment(slot, number, value, call);
    }
    PH_TRY(ph__slot_check_alignment(slot, number, value, call));
    size_t offset = address - (uintptr_t)where->base;
    size_t room = offset < where->requested ? where->requested - offset : 0;
    if (room < slot->bytes)
        return fail_short(slot, number, value, room, call);
    return check_kind(slot, number, value, where->pinned, call);
}

/* A refusal is an answer here, and leaves no record. */
ph_status ph_graph_slot_takes(bool *out, const ph_graph *graph, size_t slot, const void *value)
{
    static const char call[] = "ph_graph_slot_takes";
    ph_allocation where;
    ph_error before;
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = false;
    PH_TRY(ph__graph_check(graph, PH__CALL_SLOT_TAKES));
    if (slot >= ph_graph_slot_count(graph))
        return ph__slot_fail_missing(graph, slot, call);
    const ph__slot *found = graph->slots->list.at[slot];
    if (value == NULL || !found->address) {
        *out = value != NULL;
        return PH_OK;
    }
    ph__error_save(&before);
    ph_status status = ph__slot_check_alignment(found, slot, value, call);
    if (status == PH_OK && ph__slot_needs_check(found)) {
        (void)ph__memory_find(&where, graph->device, value);
        status = ph__slot_check_memory(graph, found, slot, value, &where, call);
    }
    *out = status == PH_OK;
    if (status != PH_OK && status != PH_ERROR_ARGUMENT && status != PH_ERROR_WRONG_DEVICE)
        return status;
    ph__error_restore(&before);
    return PH_OK;
}
