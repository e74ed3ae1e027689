/* SPDX-License-Identifier: MIT */
/* graph/inputs/brought.c: what an update brought is read when somebody asks for it. */
#include "graph/inputs/brought.h"
#include "base/alloc.h"
#include "graph/inputs/inputs_declared.h"
#include "graph/memory/born.h"
#include "graph/memory/epochs.h"
#include "graph/object/kernels.h"

bool ph__brought_can_wait(const ph_graph *graph, const ph_graph *from)
{
    return graph != from && !graph->liveness && from->deferred_record &&
           from->deferred_record->lasting && (from->keep || from->state == PH_GRAPH_READY) &&
           from->shown == NULL;
}

ph_status ph__brought_make(ph__brought **out, const ph_graph *graph, const ph_graph *from,
                           const char *call)
{
    *out = NULL;
    if (!ph__brought_can_wait(graph, from))
        return PH_OK;
    ph__brought *brought = ph__calloc(1, sizeof *brought);
    if (brought && (!ph__declarations_copy(&brought->declared, &from->declared) ||
                    !ph__vec_reserve(&brought->anywhere, from->pools.count))) {
        ph__brought_free(brought);
        brought = NULL;
    }
    if (brought == NULL)
        return ph__fail_host_memory(call, "the update");
    brought->deferred_record = ph__deferred_record_retain(from->deferred_record);
    brought->kernels_due = true;
    *out = brought;
    return PH_OK;
}

void ph__brought_find_pools(ph__brought *brought, const ph_graph *graph, const ph_graph *from)
{
    for (size_t i = 0; i < from->pools.count; i++) {
        const ph__writer *theirs = from->pools.at[i];
        if (theirs->anywhere)
            brought->anywhere.at[brought->anywhere.count++] =
                ph__graph_find_pool(graph, theirs->pool);
    }
}

void ph__brought_free(ph__brought *brought)
{
    if (brought == NULL)
        return;
    ph__deferred_record_release(brought->deferred_record);
    ph__declarations_free(&brought->declared);
    ph__vec_free(&brought->anywhere);
    ph__free(brought);
}

void ph__brought_leave(ph_graph *graph, ph_graph *to)
{
    if (graph->brought == NULL || to->left)
        return;
    to->left = graph->brought->deferred_record;
    graph->brought->deferred_record = NULL;
}

void ph__brought_drop(ph_graph *graph)
{
    ph__brought_free(graph->brought);
    graph->brought = NULL;
}

size_t ph__brought_bytes(const ph_graph *graph)
{
    return graph->brought
               ? graph->device->driver->graph_host_bytes(graph->brought->deferred_record->template)
               : 0;
}

ph_status ph__brought_inputs(ph__inputs *out, ph_graph *graph, const char *call)
{
    ph_record *record;
    PH_TRY(ph__deferred_record_read(&record, graph->brought->deferred_record, call));
    ph_status status = ph__inputs_of_brought(out, graph, record, call);
    ph__record_free(record);
    return status;
}

bool ph__brought_owns(const ph_graph *graph, uint64_t address, ph_pool_id pool, uint64_t generation)
{
    const ph__brought *brought = graph->brought;
    if (ph__ranges_find(&brought->deferred_record->nested, (uintptr_t)address))
        return true;
    for (size_t i = 0; i < brought->anywhere.count; i++)
        if (ph__writer_is_anywhere(brought->anywhere.at[i], address, pool, generation))
            return true;
    return ph__held_has(&graph->held_updated, graph->device, (const void *)(uintptr_t)address,
                        generation);
}

/* The kernels of the nodes that the record says are the graph's since the update. */
ph_status ph__brought_kernels(ph_graph *graph, const char *call)
{
    ph_record *record;
    if (graph->brought == NULL || !graph->brought->kernels_due)
        return PH_OK;
    PH_TRY(ph__deferred_record_read(&record, graph->brought->deferred_record, call));
    size_t count = record->node_count < graph->record->node_count ? record->node_count
                                                                  : graph->record->node_count;
    for (size_t i = 0; i < count; i++)
        graph->node_kernels[i] = record->nodes[i].kernel;
    ph__record_free(record);
    graph->brought->kernels_due = false;
    return PH_OK;
}
