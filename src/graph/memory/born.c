/* SPDX-License-Identifier: MIT */
/* graph/memory/born.c: memory that was allocated while the capture was open, other than what the
 * capture was given, and that a node addresses, of whatever device: the graph holds it, so that
 * it is the graph's own as its pool is, whoever frees it. */
#include "graph/memory/born.h"
#include "graph/object/deferred_record.h"
#include "graph/object/graph.h"
#include "memory/observe/hold.h"
#include "memory/observe/lookup.h"
#include "memory/observe/track.h"
#include "memory/reclaim/elsewhere.h"
#include "record/sparse.h"

/* The part for the device, or NULL. */
static ph__held_of *held_part_of(const ph__held *held, const ph_device *device)
{
    for (size_t i = 0; i < held->of.count; i++)
        if (held->of.at[i].device == device)
            return &held->of.at[i];
    return NULL;
}

static bool holds_generation(const ph__held *held, uint64_t generation)
{
    for (size_t i = 0; i < held->of.count; i++)
        if (held->of.at[i].at.count && ph__map_get(&held->of.at[i].at, generation))
            return true;
    return false;
}

/* With room for one more; NULL: no host memory. */
static ph__held_of *reserve_part(ph__held *held, ph_device *device)
{
    ph__held_of *part = held_part_of(held, device);
    if (part == NULL && ph__vec_reserve(&held->of, 1)) {
        part = &held->of.at[held->of.count++];
        *part = (ph__held_of){.device = ph_device_retain(device)};
    }
    return part && ph__map_reserve(&part->at, 1) ? part : NULL;
}

/* Each allocation once. */
ph_status ph__held_add(ph__held *held, const ph__born *born, const char *call)
{
    if (holds_generation(held, born->generation))
        return PH_OK;
    ph__held_of *part = reserve_part(held, born->device);
    if (part == NULL)
        return ph__fail_host_memory(call, "the memory of the graph");
    ph__tracking tracking = ph__memory_hold(born);
    if (tracking == PH__TRACK_NO_MEMORY)
        return ph__fail_host_memory(call, "the memory of the graph");
    if (tracking == PH__TRACK_GONE)
        return ph_fail(
            PH_ERROR_CAPTURE,
            "%s: memory at %p, which a node addresses, was freed while the capture was open and "
            "is just being given to "
            "somebody else; free it after the capture's end",
            call, born->base);
    (void)ph__map_put(&part->at, born->generation,
                      (void *)(uintptr_t)born->base); /* room was reserved */
    held->count++;
    return PH_OK;
}

static ph_status hold_all(ph__held *held, const ph__held *from, const char *call)
{
    for (size_t i = 0; i < from->of.count; i++) {
        ph__born born = {.device = from->of.at[i].device};
        size_t cursor = 0;
        void *base;
        while (ph__map_next(&from->of.at[i].at, &cursor, &born.generation, &base)) {
            born.base = base;
            PH_TRY(ph__held_add(held, &born, call));
        }
    }
    return PH_OK;
}

static void drop_own(const ph_graph *graph, const ph__map *at)
{
    ph__born born = {.device = graph->device};
    size_t cursor = 0;
    void *base;
    while (ph__map_next(at, &cursor, &born.generation, &base)) {
        born.base = base;
        ph__memory_let_go(&born, graph->streams.at, graph->streams.count);
    }
}

void ph__held_drop(ph_graph *graph, ph__held *held)
{
    for (size_t i = 0; i < held->of.count; i++) {
        ph__held_of *part = &held->of.at[i];
        if (part->device == graph->device)
            drop_own(graph, &part->at);
        else
            ph__memory_let_go_elsewhere(graph->device, part->device, &part->at, graph->streams.at,
                                        graph->streams.count);
        ph__map_free(&part->at);
        ph_device_release(part->device);
    }
    ph__vec_free(&held->of);
    held->count = 0;
}

/* ---- the capture's end ---- */
static ph_status fail_given_again(const ph__record_node *node, uintptr_t address, const char *call)
{
    return ph_fail(
        PH_ERROR_CAPTURE,
        "%s: node %zu (%s) addresses 0x%llx, which was allocated and freed while the capture was "
        "open, by a thread "
        "that was not capturing or in another capture, and has been given to somebody else since; "
        "replays would write there: free it "
        "after the capture's end, or allocate it on a stream of the capture",
        call, node->info.index, node->info.name, (unsigned long long)address);
}

/* At the address may be memory of any device that has allocated meanwhile. */
static ph_status hold_address(ph_graph *graph, const ph__births *births,
                              const ph__record_node *node, uintptr_t address, const char *call)
{
    for (size_t i = 0; i < births->count; i++) {
        const ph__birthplace *place = &births->at[i];
        ph__born born;
        if (!ph__memory_bounds_have(&place->bounds, address))
            continue;
        ph__birth birth = ph__memory_find_born(&born, graph->own->pool, place->device, address);
        if (birth == PH__BORN_AGAIN)
            return fail_given_again(node, address, call);
        if (birth == PH__BORN_HERE)
            PH_TRY(ph__held_add(&graph->held, &born, call));
    }
    return PH_OK;
}

static ph_status hold_words(ph_graph *graph, const ph__births *births, const ph__record_node *node,
                            const char *call)
{
    uint64_t last = 0;
    for (size_t w = 0; w < node->info.word_count; w++) {
        ph_word room;
        const ph_word *word = ph__record_word(&room, node, w);
        if (word->internal || word->value == last)
            continue;
        last = word->value;
        PH_TRY(hold_address(graph, births, node, (uintptr_t)last, call));
    }
    const uintptr_t user = (uintptr_t)node->host_user; /* of a host function */
    return user ? hold_address(graph, births, node, user, call) : PH_OK;
}

static ph_status hold_record(ph_graph *graph, const ph__births *births, const ph_record *record,
                             const char *call)
{
    for (size_t n = 0; n < record->node_count; n++) {
        PH_TRY(hold_words(graph, births, &record->nodes[n], call));
        if (record->nodes[n].info.body)
            PH_TRY(hold_record(graph, births, record->nodes[n].info.body, call));
    }
    return PH_OK;
}

ph_status ph__graph_hold_born(ph_graph *graph, const char *call)
{
    ph__births births;
    if (!graph->capture_open)
        return PH_OK;
    if (!ph__pool_record_births(&births, graph->own->pool))
        return ph__fail_host_memory(call, "the memory of the graph");
    ph_status status = births.count ? ph__graph_need_record(graph, call) : PH_OK;
    if (status == PH_OK && births.count)
        status = hold_record(graph, &births, graph->record, call);
    ph__vec_free(&births);
    return status;
}

/* ---- others that take its nodes over ---- */
ph_status ph__held_pass(ph_graph *graph, uint64_t capture_id, const char *call)
{
    ph_device *device = graph->device;
    ph_status status = PH_OK;
    if (graph->held.count == 0)
        return PH_OK;
    pthread_mutex_lock(&device->capture_lock);
    ph_graph *outer = ph__capture_owner_locked(device, capture_id);
    if (outer)
        status = hold_all(&outer->held, &graph->held, call);
    pthread_mutex_unlock(&device->capture_lock);
    return status;
}

ph_status ph__held_copy(ph__held *out, ph_graph *graph, const ph_graph *from, const char *call)
{
    ph_status status = hold_all(out, &from->held, call);
    if (status != PH_OK)
        ph__held_drop(graph, out);
    return status;
}

/* ---- questions and the end ---- */
bool ph__held_has(const ph__held *held, const ph_device *device, const void *address,
                  uint64_t generation)
{
    if (held->count && generation == 0)
        generation = ph__memory_generation_at(device, (uintptr_t)address);
    return held->count && generation && holds_generation(held, generation);
}

bool ph__graph_holds(const ph_graph *graph, const void *address, uint64_t generation)
{
    if (graph->held.count + graph->held_updated.count == 0)
        return false;
    if (generation == 0)
        generation = ph__memory_generation_at(graph->device, (uintptr_t)address);
    return generation && (holds_generation(&graph->held, generation) ||
                          holds_generation(&graph->held_updated, generation));
}

void ph__graph_drop_held(ph_graph *graph)
{
    ph__held_drop(graph, &graph->held);
    ph__held_drop(graph, &graph->held_updated);
}
