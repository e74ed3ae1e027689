/* SPDX-License-Identifier: MIT */
/* graph/slots/slots.c: making slots out of places in the parameters of a graph's nodes. */
#include "graph/slots/slots.h"
#include "base/alloc.h"
#include "base/line.h"
#include "graph/memory/cells.h"
#include "graph/object/collectives.h"
#include "graph/object/graph.h"
#include "memory/observe/lookup.h"
#include "memory/observe/track.h"
#include <string.h>

/* ---- nodes ---- */
void ph__slot_load(ph__slot_node *to, const ph__record_node *from)
{
    const ph_node_info *info = &from->info;
    memcpy(to->launch.grid, info->grid, sizeof to->launch.grid);
    memcpy(to->launch.block, info->block, sizeof to->launch.block);
    to->launch.shared_bytes = info->shared_bytes;
    to->launch.args = to->args;
    if (to->args_size > 0)
        memcpy(to->args, info->args, to->args_size);
    to->copy = (ph__drv_memcpy){(void *)(uintptr_t)info->dst, info->src, info->bytes};
    to->fill =
        (ph__drv_memset){(void *)(uintptr_t)info->dst, info->value, info->value_size, from->count};
}

static ph__slot_node *make_node(ph__slots *slots, const ph_record *record, size_t index)
{
    const ph__record_node *from = &record->nodes[index];
    ph__slot_node *node = ph__calloc(1, sizeof *node + from->info.args_size);
    if (node == NULL || !ph__vec_reserve(&slots->due, slots->used + 1 - slots->due.count)) {
        ph__free(node);
        return NULL;
    }
    node->index = index;
    node->handle = from->handle;
    node->kind = from->info.kind;
    node->args_size = from->info.args_size;
    ph__slot_load(node, from);
    slots->used++;
    return slots->nodes[index] = node;
}

static void free_node(ph__slots *slots, size_t index)
{
    ph__vec_free(&slots->nodes[index]->places);
    ph__free(slots->nodes[index]);
    slots->nodes[index] = NULL;
    slots->used--;
}

const ph__slot_span *ph__slot_find_place(const ph__slot_node *node, size_t offset, size_t bytes)
{
    size_t low = 0, high = node ? node->places.count : 0;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (node->places.at[middle].offset + node->places.at[middle].bytes <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return node && low < node->places.count && node->places.at[low].offset < offset + bytes
               ? &node->places.at[low]
               : NULL;
}

/* Room was reserved. */
static void insert_place(ph__slot_node *node, ph__slot_span span)
{
    size_t at = node->places.count++;
    for (; at > 0 && node->places.at[at - 1].offset > span.offset; at--)
        node->places.at[at] = node->places.at[at - 1];
    node->places.at[at] = span;
}

/* Takes the places of slots from `first` on away again. */
static void remove_places(ph__slots *slots, size_t first)
{
    for (size_t i = 0; i < slots->node_count; i++) {
        ph__slot_node *node = slots->nodes[i];
        size_t kept = 0;
        for (size_t p = 0; node && p < node->places.count; p++)
            if (node->places.at[p].slot < first)
                node->places.at[kept++] = node->places.at[p];
        if (node == NULL)
            continue;
        node->places.count = kept;
        if (kept == 0)
            free_node(slots, i);
    }
}

/* ---- drafts ---- */
static void free_slot(ph__slot *slot)
{
    if (slot == NULL)
        return;
    ph__vec_free(&slot->uses);
    ph__free(slot->value);
    ph__free(slot->name);
    ph__free(slot);
}

void ph__slot_abandon(ph__slot_draft *draft)
{
    free_slot(draft->slot);
    ph__vec_free(&draft->places);
    draft->slot = NULL;
}

ph_status ph__slot_check_span(const void *base, size_t bytes, size_t alignment, const char *call)
{
    if (base == NULL)
        return ph__fail_null(call, "base");
    if (bytes == 0 || bytes > UINTPTR_MAX - (uintptr_t)base)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: a span of %zu bytes at %p is none", call, bytes,
                       base);
    if (alignment & (alignment - 1))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: alignment is %zu, which is no power of two", call,
                       alignment);
    if (alignment && (uintptr_t)base % alignment)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: the captured address %p is no multiple of the alignment %zu itself",
                       call, base, alignment);
    return PH_OK;
}

static size_t alignment_of_base(const void *base)
{
    size_t alignment = PH__SLOT_ALIGNMENT;
    while ((uintptr_t)base % alignment)
        alignment /= 2;
    return alignment;
}

enum {
    UNNAMED = 32 /* bytes for "slot N", which is known when the slot is committed */
};

/* base NULL: a scalar slot. */
ph_status ph__slot_start(ph__slot_draft *out, ph_graph *graph, const char *name, const void *base,
                         size_t bytes, size_t alignment, const char *call)
{
    *out = (ph__slot_draft){0};
    if (graph->changed)
        return ph_fail(
            PH_ERROR_STATE,
            "%s: the executable's parameters were changed since it was made (ph_graph_node_set_*, "
            "ph_graph_update); make slots before that, or after ph_graph_update with the graph "
            "itself, which takes it back",
            call);
    ph__slot *slot = out->slot = ph__calloc(1, sizeof *slot);
    if (slot == NULL)
        return ph__fail_host_memory(call, "the slot");
    slot->bytes = bytes;
    slot->address = base != NULL;
    slot->current = slot->captured = (uintptr_t)base;
    if (base)
        slot->alignment = alignment ? alignment : alignment_of_base(base);
    else
        slot->value = ph__calloc(1, bytes);
    size_t length = name ? strlen(name) : 0, room = length < UNNAMED ? UNNAMED : length + 1;
    slot->name = ph__calloc(1, room);
    if (slot->name && length)
        memcpy(slot->name, name, length);
    if (slot->name && (base || slot->value))
        return PH_OK;
    ph__slot_abandon(out);
    return ph__fail_host_memory(call, "the slot");
}

static ph_status check_node(const ph_graph *graph, size_t index, bool address, const char *call)
{
    if (index >= graph->record->node_count)
        return ph_fail(
            PH_ERROR_NOT_FOUND,
            "%s: node %zu does not exist; the graph has %zu, numbered from 0 as in its record",
            call, index, graph->record->node_count);
    const ph__record_node *node = &graph->record->nodes[index];
    const char *why = NULL;
    ph__drv_node_info info = {0};
    if (node->info.kind > (address ? PH_NODE_MEMSET : PH_NODE_KERNEL))
        why = address ? "only kernel, memcpy and memset nodes have places for addresses"
                      : "only kernel nodes have places for values";
    else if (ph__cells_are_written_by(graph, index))
        why = "it writes the graph's cells (ph_cells_create), whose sources give their values";
    else if (ph__collective_is_node(graph, index))
        why = "it is a collective, whose memory and numbers stay as captured";
    if (why == NULL && node->info.kind != PH_NODE_KERNEL) {
        int result = graph->device->driver->node_info(&info, node->handle);
        if (result != PH__R_OK)
            return ph__driver_fail(result, PH__NAME_GRAPH_KERNEL_NODE_GET_PARAMS, "%s: node %zu",
                                   call, index);
        if (info.strided)
            why = "it copies or fills rows, planes or an array, and nobody can set that";
    }
    return why == NULL ? PH_OK
                       : ph_fail(PH_ERROR_UNSUPPORTED, "%s: node %zu (%s) has no places: %s", call,
                                 index, node->info.name, why);
}

/* The range of offsets: of memcpy dst and src, of memset dst. */
static size_t room_of(const ph_node_info *info)
{
    return info->kind == PH_NODE_KERNEL ? info->args_size : info->kind == PH_NODE_MEMCPY ? 16 : 8;
}

/* CUDA's drivers refuse copies that are to change from one kind of memory to the other. */
static ph_status note_copy(ph__slot *slot, const ph_graph *graph, const char *call)
{
    ph_allocation found;
    ph__drv_pointer where = {.kind = PH__MEMORY_DEVICE};
    const void *base = (const void *)(uintptr_t)slot->current;
    if (slot->copied)
        return PH_OK;
    slot->copied = true;
    if (ph__memory_find(&found, graph->device, base)) {
        slot->from_pinned = found.pinned;
        return PH_OK;
    }
    int result = graph->device->driver->pointer_info(&where, graph->device->handle, base);
    slot->from_pinned = where.kind == PH__MEMORY_PINNED;
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_POINTER_GET_ATTRIBUTE,
                                                "%s: address %p", call, base);
}

static ph_status check_draft_address(ph__slot_draft *draft, const ph_node_info *info,
                                     uint64_t value, size_t offset, const char *call)
{
    ph__slot *slot = draft->slot;
    uint64_t distance = value - slot->current;
    bool whole = info->kind == PH_NODE_KERNEL;
    if (slot->trusted)
        return PH_OK;
    if (distance >= slot->bytes)
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: node %zu (%s) has 0x%llx at offset %zu, which is no address in the %zu bytes at "
            "0x%llx",
            call, info->index, info->name, (unsigned long long)value, offset, slot->bytes,
            (unsigned long long)slot->current);
    if (!whole && info->bytes > slot->bytes - distance)
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: the %zu bytes of node %zu (%s) at 0x%llx reach beyond the %zu bytes at 0x%llx",
            call, info->bytes, info->index, info->name, (unsigned long long)value, slot->bytes,
            (unsigned long long)slot->current);
    return PH_OK;
}

uint64_t ph__slot_field(const ph_node_info *info, size_t offset)
{
    uint64_t value = 0;
    if (info->kind == PH_NODE_KERNEL)
        memcpy(&value, (const char *)info->args + offset, sizeof value);
    else
        value = (uint64_t)(uintptr_t)(offset == 0 ? info->dst : info->src);
    return value;
}

ph_status ph__slot_add(ph__slot_draft *draft, ph_graph *graph, size_t node, size_t offset,
                       const char *call)
{
    ph__slot *slot = draft->slot;
    size_t bytes = slot->address ? sizeof(uint64_t) : slot->bytes;
    PH_TRY(check_node(graph, node, slot->address, call));
    const ph_node_info *info = &graph->record->nodes[node].info;
    size_t room = room_of(info);
    if (bytes > room || offset > room - bytes)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: %zu bytes at offset %zu leave the %zu bytes of node %zu (%s)", call,
                       bytes, offset, room, node, info->name);
    if (info->kind != PH_NODE_KERNEL && offset % sizeof(void *) != 0)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: offset %zu of node %zu (%s) is no address: dst is 0, src is 8", call,
                       offset, node, info->name);
    if (slot->address)
        PH_TRY(check_draft_address(draft, info, ph__slot_field(info, offset), offset, call));
    if (slot->address && info->kind == PH_NODE_MEMCPY)
        PH_TRY(note_copy(slot, graph, call));
    if (!ph__vec_push(&draft->places, ((ph_slot_place){node, offset})))
        return ph__fail_host_memory(call, "the slot's places");
    return PH_OK;
}

/* ---- committing ---- */
static ph__slots *make_slots(ph_graph *graph)
{
    if (graph->slots)
        return graph->slots;
    ph__slots *slots = ph__calloc(1, sizeof *slots);
    if (slots) {
        slots->node_count = graph->record->node_count;
        slots->nodes = ph__calloc(slots->node_count + 1, sizeof(ph__slot_node *));
    }
    if (slots && slots->nodes)
        return graph->slots = slots;
    ph__free(slots);
    return NULL;
}

static ph_status add_draft_place(ph_graph *graph, ph__slot *slot, size_t number,
                                 const ph_slot_place *place, const char *call)
{
    ph__slots *slots = graph->slots;
    size_t bytes = slot->address ? sizeof(uint64_t) : slot->bytes;
    ph__slot_node *node = slots->nodes[place->node];
    const ph__slot_span *span = ph__slot_find_place(node, place->offset, bytes);
    const ph__slot *has =
        span && span->slot < slots->list.count ? slots->list.at[span->slot] : NULL;
    if (span)
        return ph_fail(PH_ERROR_STATE,
                       "%s: the %zu bytes at offset %zu of node %zu (%s) are a place of slot "
                       "%zu%s%s%s",
                       call, span->bytes, span->offset, place->node,
                       graph->record->nodes[place->node].info.name, span->slot, has ? " (" : "",
                       has ? has->name : "", has ? ") already; set that slot" : " already");
    if (node == NULL)
        node = make_node(slots, graph->record, place->node);
    if (node == NULL || !ph__vec_reserve(&node->places, 1))
        return ph__fail_host_memory(call, "the slot's places");
    insert_place(node, (ph__slot_span){place->offset, bytes, number});
    const unsigned char *at = ph__slot_params(node) + place->offset;
    ph__slot_use *use = &slot->uses.at[slot->uses.count++];
    *use = (ph__slot_use){.node = node, .offset = place->offset};
    if (slot->address) {
        memcpy(&use->distance, at, sizeof use->distance);
        use->distance -= slot->current;
    } else if (slot->uses.count == 1) {
        memcpy(slot->value, at, slot->bytes);
    }
    return PH_OK;
}

static ph_status add_draft_places(ph_graph *graph, const ph__slot_draft *draft, size_t number,
                                  const char *call)
{
    if (!ph__vec_reserve(&draft->slot->uses, draft->places.count))
        return ph__fail_host_memory(call, "the slot's places");
    for (size_t i = 0; i < draft->places.count; i++)
        PH_TRY(add_draft_place(graph, draft->slot, number, &draft->places.at[i], call));
    return PH_OK;
}

ph_status ph__slots_commit(ph_graph *graph, ph__slot_draft *drafts, size_t count, const char *call)
{
    ph__slots *slots = make_slots(graph);
    ph_status status = PH_OK;
    if (slots == NULL || !ph__vec_reserve(&slots->list, count) ||
        !ph__vec_reserve(&slots->staged, slots->list.count + count))
        return ph__fail_host_memory(call, "the slots of the graph");
    size_t first = slots->list.count;
    for (size_t i = 0; i < count && status == PH_OK; i++)
        status = add_draft_places(graph, &drafts[i], first + i, call);
    for (size_t i = 0; i < count && status != PH_OK; i++)
        drafts[i].slot->uses.count = 0;
    if (status != PH_OK) {
        remove_places(slots, first);
        return status;
    }
    for (size_t i = 0; i < count; i++) {
        if (drafts[i].slot->name[0] == '\0')
            ph__line_format(drafts[i].slot->name, UNNAMED, "slot %zu", first + i);
        slots->list.at[slots->list.count++] = drafts[i].slot;
        drafts[i].slot = NULL;
        ph__slot_abandon(&drafts[i]);
    }
    return PH_OK;
}

void ph__slots_free(ph_graph *graph, ph__slots *slots)
{
    if (slots == NULL)
        return;
    for (size_t i = 0; i < slots->list.count; i++) {
        const ph__slot *slot = slots->list.at[i];
        if (slot->tracked)
            ph__memory_untrack(graph->device, slot->where.base, slot->where.generation,
                               &graph->watch);
        free_slot(slots->list.at[i]);
    }
    for (size_t i = 0; i < slots->node_count; i++)
        if (slots->nodes[i])
            free_node(slots, i);
    ph__vec_free(&slots->list);
    ph__vec_free(&slots->due);
    ph__vec_free(&slots->staged);
    ph__free(slots->nodes);
    ph__free(slots);
}

void ph__slots_drop(ph_graph *graph)
{
    ph__slots *slots = graph->slots;
    graph->slots = NULL;
    ph__slots_free(graph, slots);
}
