/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_life.c: what slots have to do with the changes of their graph: new executables,
 * updates, setting nodes, liveness. */
#include "graph/slots/slots_life.h"
#include "base/line.h"
#include "graph/object/graph.h"
#include "graph/slots/slots.h"
#include "graph/slots/slots_groups.h"
#include "graph/slots/slots_set.h"
#include "memory/observe/track.h"
#include <string.h>

void ph__slots_renew(ph_graph *graph, const ph_record *record)
{
    ph__slots *slots = graph->slots;
    if (slots == NULL)
        return;
    ph__vec_clear(&slots->due);
    for (size_t i = 0; i < slots->node_count; i++)
        if (slots->nodes[i]) {
            slots->nodes[i]->due = false;
            ph__slot_load(slots->nodes[i], &record->nodes[i]);
        }
    for (size_t i = 0; i < slots->list.count; i++) {
        ph__slot *slot = slots->list.at[i];
        const ph__slot_use *first = slot->uses.at;
        if (slot->set)
            ph__slot_patch(slots, slot);
        else if (slot->uses.count && slot->address)
            slot->current = ph__slot_field(&record->nodes[first->node->index].info, first->offset) -
                            first->distance;
        else if (slot->uses.count)
            memcpy(slot->value, ph__slot_params(first->node) + first->offset, slot->bytes);
    }
}

/* In one capture all places of an address slot are as far from the span as in the other. */
static bool spans_fit(const ph__slot *slot, const ph_record *record)
{
    uint64_t base = 0;
    for (size_t i = 0; slot->address && i < slot->uses.count; i++) {
        const ph__slot_use *use = &slot->uses.at[i];
        uint64_t here =
            ph__slot_field(&record->nodes[use->node->index].info, use->offset) - use->distance;
        if (i > 0 && here != base)
            return false;
        base = here;
    }
    return true;
}

bool ph__slots_fit(const ph_graph *graph, const ph_record *record, char *why, size_t size)
{
    ph__slots *slots = graph->slots;
    for (size_t i = 0; slots && i < slots->node_count; i++) {
        const ph__slot_node *node = slots->nodes[i];
        if (node == NULL)
            continue;
        if (i < record->node_count && record->nodes[i].info.kind == node->kind &&
            record->nodes[i].info.args_size == node->args_size)
            continue;
        ph__line_format(why, size, "node %zu (%s) has places of slots, and is another one there", i,
                        graph->record->nodes[i].info.name);
        return false;
    }
    for (size_t i = 0; slots && i < slots->list.count; i++) {
        if (spans_fit(slots->list.at[i], record))
            continue;
        ph__line_format(why, size, "the places of slot %zu (%s) have other distances there", i,
                        slots->list.at[i]->name);
        return false;
    }
    return slots == NULL || !slots->grouped || ph__slot_groups_fit(slots, record, why, size);
}

ph_status ph__slots_refuse_set(const ph_graph *graph, size_t node, const char *call)
{
    const ph__slots *slots = graph->slots;
    if (slots == NULL || slots->nodes[node] == NULL)
        return PH_OK;
    size_t slot = slots->nodes[node]->places.at[0].slot;
    return ph_fail(
        PH_ERROR_STATE,
        "%s: node %zu (%s) has a place of slot %zu (%s); set it with ph_graph_replay_with", call,
        node, graph->record->nodes[node].info.name, slot, slots->list.at[slot]->name);
}

bool ph__slots_have(const ph_graph *graph, size_t node, size_t offset)
{
    const ph__slots *slots = graph->slots;
    if (slots == NULL || slots->nodes[node] == NULL)
        return false;
    const ph__slot_span *place = ph__slot_find_place(slots->nodes[node], offset, sizeof(uint64_t));
    return place && (slots->list.at[place->slot]->set || slots->list.at[place->slot]->staged);
}

bool ph__slots_prove(const ph_graph *graph, size_t node, size_t offset)
{
    const ph__slots *slots = graph->slots;
    if (slots == NULL || slots->nodes[node] == NULL)
        return false;
    const ph__slot_span *place = ph__slot_find_place(slots->nodes[node], offset, sizeof(uint64_t));
    return place && place->offset == offset && slots->list.at[place->slot]->address;
}

void ph__slots_move(const ph_graph *graph, ph__input *input)
{
    if (!ph__slots_have(graph, input->node, input->offset))
        return;
    const ph__slot_span *place =
        ph__slot_find_place(graph->slots->nodes[input->node], input->offset, sizeof(uint64_t));
    const ph__slot *slot = graph->slots->list.at[place->slot];
    for (size_t i = 0; slot->address && i < slot->uses.count; i++) {
        const ph__slot_use *use = &slot->uses.at[i];
        if (use->node->index != input->node || use->offset != input->offset)
            continue;
        input->value = slot->current + use->distance;
        input->base = slot->where.base;
        input->bytes = slot->where.size;
        input->requested = slot->where.requested;
        input->generation = slot->where.generation;
        input->pinned = slot->where.pinned;
        input->announced = slot->where.foreign;
        input->foreign = NULL;
    }
}

const void *ph__slots_args(const ph_graph *graph, size_t node)
{
    const ph__slots *slots = graph->slots;
    return slots && slots->nodes[node] ? slots->nodes[node]->args : NULL;
}

size_t ph__slots_bytes(const ph_graph *graph)
{
    const ph__slots *slots = graph->slots;
    size_t bytes = slots ? sizeof *slots + slots->node_count * sizeof(ph__slot_node *) : 0;
    for (size_t i = 0; slots && i < slots->node_count; i++)
        if (slots->nodes[i])
            bytes += sizeof *slots->nodes[i] + slots->nodes[i]->args_size;
    for (size_t i = 0; slots && i < slots->list.count; i++)
        bytes += sizeof(ph__slot) + slots->list.at[i]->uses.count * sizeof(ph__slot_use);
    return bytes;
}

ph_status ph__slots_replace(ph_graph *graph, ph__slot_draft *drafts, size_t count, const char *call)
{
    ph__slots *before = graph->slots;
    graph->slots = NULL;
    ph_status status = ph__slots_commit(graph, drafts, count, call);
    if (status != PH_OK) {
        ph__slots_free(graph, graph->slots);
        graph->slots = before;
        return status;
    }
    for (size_t i = 0; before && i < before->node_count; i++)
        if (before->nodes[i])
            ph__slot_mark(graph->slots, graph->slots->nodes[i]);
    ph__slots_free(graph, before);
    return PH_OK;
}

/* ---- liveness ---- */
void ph__slots_report_dead(ph_graph *graph, ph__slots_dead *dead, void *user)
{
    ph__slots *slots = graph->slots;
    for (size_t i = 0; slots && i < slots->list.count; i++) {
        ph__slot *slot = slots->list.at[i];
        if (!slot->set || slot->staged || !slot->where.base || slot->uses.count == 0 ||
            ph__memory_is_live(graph->device, slot->where.base, slot->where.generation))
            continue;
        const ph__slot_use *use = &slot->uses.at[0];
        ph__input input = {.node = use->node->index,
                           .offset = use->offset,
                           .value = slot->current,
                           .base = slot->where.base,
                           .bytes = slot->where.size,
                           .requested = slot->where.requested,
                           .generation = slot->where.generation,
                           .announced = slot->where.foreign,
                           .warned = slot->reported,
                           .proved = true};
        slot->reported = true;
        ph__line_format(input.node_name, sizeof input.node_name, "%s",
                        graph->record->nodes[use->node->index].info.name);
        ph__line_format(input.word_name, sizeof input.word_name, "slot %s", slot->name);
        dead(user, &input);
    }
}
