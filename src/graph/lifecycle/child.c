/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/child.c: a replay on a capturing stream: a copy of the template becomes one
 * node of that capture, and the capturing graph keeps what the copy's replays need. */
#include "graph/lifecycle/child.h"
#include "base/alloc.h"
#include "device/capture/culprit.h"
#include "graph/inputs/nested_inputs.h"
#include "graph/lifecycle/nested.h"
#include "graph/memory/born.h"
#include "graph/memory/epochs.h"
#include "graph/memory/owned.h"
#include "graph/object/deferred_record.h"
#include "graph/object/graph.h"
#include "memory/pool/pool.h"

/* ---- what is lent ---- */
static void free_lent(ph__lent *list)
{
    while (list) {
        ph__lent *next = list->next;
        for (size_t i = 0; i < list->sets.count; i++)
            ph__ranges_free(&list->sets.at[i]);
        ph__vec_free(&list->sets);
        ph__pool_graph_release(list->pool);
        ph__free(list);
        list = next;
    }
}

static bool copy_sets(ph__lent *lent, const ph__writer *writer)
{
    if (!ph__vec_reserve(&lent->sets, writer->sets.count))
        return false;
    for (size_t i = 0; i < writer->sets.count; i++) {
        if (!ph__ranges_copy(&lent->sets.at[lent->sets.count], &writer->sets.at[i]))
            return false;
        lent->sets.count++;
    }
    return true;
}

/* A list of all pools that replays of the graph's template use. */
static ph_status lend_pools(ph__lent **out, const ph_graph *graph, const char *call)
{
    *out = NULL;
    for (size_t i = 0; i < graph->pools.count; i++) {
        const ph__writer *writer = graph->pools.at[i];
        if (writer->updated) /* the executable's alone */
            continue;
        ph__lent *lent = ph__calloc(1, sizeof *lent);
        if (lent) {
            lent->pool = writer->pool;
            lent->anywhere = writer->anywhere;
            ph__pool_graph_retain(lent->pool);
            lent->next = *out;
            *out = lent;
        }
        if (lent == NULL || !copy_sets(lent, writer)) {
            free_lent(*out);
            *out = NULL;
            return ph__fail_host_memory(call, "the pools of the graph");
        }
    }
    return PH_OK;
}

/* Lent already, as when one graph is replayed into a capture again and again. */
static bool is_known(const ph__lent *list, const ph__lent *lent)
{
    for (; list; list = list->next) {
        bool same = list->ticket == 0 && list->pool == lent->pool &&
                    list->anywhere == lent->anywhere && list->sets.count == lent->sets.count;
        for (size_t i = 0; i < lent->sets.count && same; i++)
            same = ph__ranges_same(&list->sets.at[i], &lent->sets.at[i]);
        if (same)
            return true;
    }
    return false;
}

/* Before the node is made: whoever ends the capture from then on finds what it needs. Gives back
 * what no capture of this library takes. */
static ph__lent *offer_pools(const ph_device *device, uint64_t capture_id, ph__lent *lent,
                             uint64_t ticket)
{
    ph_graph *outer = ph__capture_owner_locked(device, capture_id);
    while (outer && lent) {
        ph__lent *next = lent->next;
        lent->ticket = ticket;
        lent->next = outer->lent;
        outer->lent = lent;
        lent = next;
    }
    return lent;
}

/* Afterwards: gives back what was offered under the ticket, if the node was not made, or else
 * what the capture has twice. Nothing when it has ended meanwhile. */
static ph__lent *close_offer(const ph_device *device, uint64_t capture_id, uint64_t ticket,
                             bool made)
{
    ph_graph *outer = ph__capture_owner_locked(device, capture_id);
    ph__lent *back = NULL;
    for (ph__lent **at = outer ? &outer->lent : NULL; at && *at;) {
        ph__lent *lent = *at;
        bool mine = lent->ticket == ticket;
        if (mine && (!made || is_known(outer->lent, lent))) {
            *at = lent->next;
            lent->next = back;
            back = lent;
            continue;
        }
        lent->ticket = mine ? 0 : lent->ticket;
        at = &lent->next;
    }
    return back;
}

/* ---- into the capture ---- */
/* The kernels of the bodies, too. */
static ph_status keep_kernels(const ph_graph *graph, ph_stream *stream, uint64_t capture_id,
                              const char *call)
{
    size_t cursor = 0;
    uint64_t key;
    void *kernel;
    while (ph__map_next(&graph->kernels, &cursor, &key, &kernel))
        if (!ph__capture_keep_kernel(stream, kernel, capture_id))
            return ph__fail_host_memory(call, "the kernels of the capture");
    return PH_OK;
}

static ph_status keep_events(const ph_graph *graph, ph_stream *stream, uint64_t capture_id,
                             const char *call)
{
    size_t cursor = 0;
    uint64_t key;
    void *event;
    while (ph__map_next(&graph->events, &cursor, &key, &event))
        if (!ph__capture_keep_event(stream->device, event, capture_id))
            return ph__fail_host_memory(call, "the events of the capture");
    return PH_OK;
}

static ph_status add_child(bool *over, ph_graph *graph, ph_stream *stream, uint64_t capture_id,
                           const char *call)
{
    ph__marks_graph marks;
    PH_TRY(keep_kernels(graph, stream, capture_id, call));
    PH_TRY(keep_events(graph, stream, capture_id, call));
    ph__marks *of_graph = graph->edited ? NULL : graph->marks;
    if (of_graph) /* resolved with it */
        PH_TRY(ph__graph_need_record(graph, call));
    PH_TRY(ph__marks_enter_graph(&marks, stream, of_graph, call));
    int result = PH__R_OK;
    ph_status status = ph__nested_begin(graph, stream, capture_id, call);
    if (status == PH_OK)
        result = graph->device->driver->child(stream->handle, graph->template);
    const bool made = status == PH_OK && result == PH__R_OK;
    ph__nested_end(graph, stream, capture_id, made);
    ph__marks_leave_graph(&marks, of_graph, made);
    PH_TRY(status);
    if (result == PH__R_OUT_OF_MEMORY)
        return ph__fail_host_memory(call, "the child graph");
    *over = result == PH__R_ILLEGAL_STATE && ph__stream_capture_id(stream) != capture_id;
    if (*over)
        return PH_OK;
    return result == PH__R_OK ? PH_OK
                              : ph__stream_fail(result, stream, PH__NAME_GRAPH_ADD_CHILD_GRAPH_NODE,
                                                "%s: the graph was not put into the capture", call);
}

/* Before the node is made, as the pools are. */
static ph_status offer_objects(ph_graph *graph, uint64_t capture_id, const char *call)
{
    ph_device *device = graph->device;
    pthread_mutex_lock(&device->capture_lock);
    ph_graph *outer = ph__capture_owner_locked(device, capture_id);
    ph_status status = outer ? ph__graph_share_objects(outer, graph, call) : PH_OK;
    pthread_mutex_unlock(&device->capture_lock);
    return status;
}

ph_status ph__graph_into_capture(bool *over, ph_graph *graph, ph_stream *stream,
                                 uint64_t capture_id, const char *call)
{
    static _Atomic uint64_t last_ticket;
    uint64_t ticket = atomic_fetch_add(&last_ticket, 1) + 1;
    ph_device *device = graph->device;
    ph__lent *lent;
    if (graph->cells)
        return ph_fail(
            PH_ERROR_UNSUPPORTED,
            "%s: the stream is capturing, and a graph with cells (ph_cells_create: random "
            "numbers, learning rates) "
            "cannot become a part of another: nobody would give its cells their values; replay it "
            "outside the "
            "capture, or capture its work there",
            call);
    if (graph->collectives)
        return ph_fail(
            PH_ERROR_UNSUPPORTED,
            "%s: the stream is capturing, and a graph with collectives cannot become a part of "
            "another: the ranks agree on whole graphs; replay it outside the capture, or capture "
            "its work there",
            call);
    PH_TRY(ph__nested_check(graph, capture_id, call));
    PH_TRY(ph__nested_inputs_pass(graph, capture_id, call));
    PH_TRY(lend_pools(&lent, graph, call));
    pthread_mutex_lock(&device->capture_lock);
    lent = offer_pools(device, capture_id, lent, ticket);
    pthread_mutex_unlock(&device->capture_lock);
    free_lent(lent);
    ph_status status = ph__held_pass(graph, capture_id, call);
    if (status == PH_OK)
        status = offer_objects(graph, capture_id, call);
    if (status == PH_OK)
        status = add_child(over, graph, stream, capture_id, call);
    pthread_mutex_lock(&device->capture_lock);
    lent = close_offer(device, capture_id, ticket, status == PH_OK && !*over);
    pthread_mutex_unlock(&device->capture_lock);
    free_lent(lent);
    return status;
}

/* ---- the capture's end ---- */
/* Adds what is not in *out yet of [base, end). */
static bool cover_range(ph__ranges *out, uintptr_t base, uintptr_t end)
{
    while (base < end) {
        const ph__range *in = ph__ranges_find(out, base);
        uintptr_t stop = end;
        if (in) {
            base = in->base + in->size;
            continue;
        }
        for (size_t i = 0; i < out->count; i++)
            if (out->at[i].base > base && out->at[i].base < stop)
                stop = out->at[i].base;
        if (!ph__ranges_add(out, base, stop - base, out))
            return false;
        base = stop;
    }
    return true;
}

static bool cover_all(ph__ranges *out, const ph__ranges *ranges)
{
    for (size_t i = 0; i < ranges->count; i++)
        if (!cover_range(out, ranges->at[i].base, ranges->at[i].base + ranges->at[i].size))
            return false;
    return true;
}

/* The graph holds the pool, if it did not, and its replays count as writing what the nested ones
 * write. */
static ph_status adopt_pool(ph_graph *graph, ph__lent *lent, const char *call)
{
    ph__writer *writer = ph__graph_find_pool(graph, lent->pool);
    if (writer == NULL) {
        ph__pool_graph_retain(lent->pool);
        ph_status status = ph__graph_add_pool(&writer, graph, lent->pool, call);
        if (status != PH_OK) {
            ph__pool_graph_release(lent->pool);
            return status;
        }
    }
    if (!ph__writer_reserve(writer, lent->sets.count))
        return ph__fail_host_memory(call, "the pools of the graph");
    for (size_t i = 0; i < lent->sets.count; i++)
        ph__writer_add(writer, &lent->sets.at[i]);
    if (lent->anywhere)
        ph__writer_add_anywhere(writer);
    return PH_OK;
}

ph_status ph__graph_acquire_lent(ph__ranges *nested, ph_graph *graph, const ph__ranges *own,
                                 const char *call)
{
    bool covered = cover_all(nested, own);
    for (const ph__lent *lent = graph->lent; lent && covered; lent = lent->next)
        for (size_t i = 0; i < lent->sets.count && covered; i++)
            covered = cover_all(nested, &lent->sets.at[i]);
    if (!covered)
        return ph__fail_host_memory(call, "the ranges of the capture");
    for (ph__lent *lent = graph->lent; lent; lent = lent->next)
        PH_TRY(adopt_pool(graph, lent, call));
    return PH_OK;
}

void ph__graph_drop_lent(ph_graph *graph)
{
    free_lent(graph->lent);
    graph->lent = NULL;
    ph__vec_free(&graph->nested);
}
