/* SPDX-License-Identifier: MIT */
/* graph/inputs/hold.c: memory that a graph holds on request. It is no input any more. */
#include "memory/observe/hold.h"
#include "graph/inputs/liveness.h"
#include "graph/memory/born.h"
#include "graph/object/graph.h"
#include "memory/observe/lookup.h"
#include "memory/plan/notes.h"

ph_status ph_graph_hold_memory(ph_graph *graph, const void *address)
{
    static const char call[] = "ph_graph_hold_memory";
    ph_allocation found;
    PH_TRY(ph__graph_check(graph, PH__CALL_HOLD_MEMORY));
    if (address == NULL)
        return ph__fail_null(call, "address");
    if (!ph__memory_find(&found, graph->device, address))
        return ph__fail_not_live(call, address, graph->device);
    if (found.foreign)
        return ph_fail(
            PH_ERROR_ARGUMENT,
            "%s: %p is a block of another allocator (ph_foreign_announce), which can free "
            "it at any time; keep it there",
            call, address);
    ph_error before;
    ph__error_save(&before);
    const bool ends_plan = ph__slow_path_has(ph__memory_of(graph->device), PH__SLOW_PLAN) &&
                           ph__plan_note_hold(ph__memory_of(graph->device), found.base);
    /* Nested graphs of an open capture give it what they hold, on any thread. */
    pthread_mutex_lock(&graph->device->capture_lock);
    const size_t count = graph->held.count;
    const ph__born born = {graph->device, found.base, found.generation};
    ph_status status = ph__held_add(&graph->held, &born, call);
    pthread_mutex_unlock(&graph->device->capture_lock);
    if (status == PH_ERROR_CAPTURE && ends_plan) { /* the plan's: no allocation to be held */
        ph__error_restore(&before);
        return PH_OK;
    }
    if (status != PH_OK || graph->state == PH_GRAPH_CAPTURING || graph->held.count == count)
        return status;
    return ph__graph_acquire_inputs(graph, call);
}
