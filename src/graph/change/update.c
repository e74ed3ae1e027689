/* SPDX-License-Identifier: MIT */
/* graph/change/update.c: giving a whole executable the parameters of another capture. */
#include "base/line.h"
#include "graph/change/changes.h"
#include "graph/change/probe_switch.h"
#include "graph/change/update_diff.h"
#include "graph/inputs/brought.h"
#include "graph/inputs/inputs.h"
#include "graph/inputs/liveness.h"
#include "graph/locate/probes_exec.h"
#include "graph/memory/born.h"
#include "graph/memory/epochs.h"
#include "graph/memory/owned.h"
#include "graph/object/collectives.h"
#include "graph/object/deferred_record.h"
#include "graph/object/graph.h"
#include "graph/object/kernels.h"
#include "graph/slots/slots_life.h"
#include "memory/capture/allocation_log.h"
#include "memory/pool/pool.h"
#include <string.h>

/* Everything that can fail for want of memory is had before the driver is asked, so that a
 * success cannot be half taken. */
typedef struct plan {
    ph__inputs inputs;
    ph__brought *brought; /* NULL: `inputs` are those of `from`, but where it is the graph's */
    bool own;             /* own capture, which is looked at when somebody asks */
    PH__VEC(ph__writer *) added; /* pools that the graph did not hold before */
    ph__layout layout;           /* the blocks that the capture of `from` received */
    ph__held held;               /* other memory that its nodes address */
} plan;

static void undo_plan(ph_graph *graph, plan *p)
{
    for (size_t i = 0; i < p->added.count; i++)
        ph__graph_drop_pool(graph, p->added.at[i]);
    ph__vec_free(&p->added);
    ph__layout_free(&p->layout);
    ph__held_drop(graph, &p->held);
    ph__inputs_free(&p->inputs, graph);
    ph__brought_free(p->brought);
}

/* Holds the pool of `from` too, with room for what its replays write there. */
static ph_status hold_pool_of_source(ph_graph *graph, const ph__writer *theirs, plan *p,
                                     const char *call)
{
    ph__writer *mine = ph__graph_find_pool(graph, theirs->pool);
    if (mine == NULL) {
        if (!ph__vec_reserve(&p->added, 1))
            return ph__fail_host_memory(call, "the pools of the graph");
        ph__pool_graph_retain(theirs->pool);
        ph_status status = ph__graph_add_pool(&mine, graph, theirs->pool, call);
        if (status != PH_OK) {
            ph__pool_graph_release(theirs->pool);
            return status;
        }
        mine->updated = true;
        p->added.at[p->added.count++] = mine;
    }
    return ph__writer_reserve(mine, theirs->sets.count)
               ? PH_OK
               : ph__fail_host_memory(call, "the pools of the graph");
}

/* The ranges that the graph may write from now on, also if the update is refused after all: an
 * error on the side of "overwritten". */
static ph_status share_ranges(ph_graph *graph, const ph_graph *from, const char *call)
{
    for (size_t i = 0; i < from->pools.count; i++) {
        const ph__writer *theirs = from->pools.at[i];
        ph__writer *mine = ph__graph_find_pool(graph, theirs->pool);
        if (theirs->anywhere)
            ph__writer_add_anywhere(mine);
        for (size_t s = 0; s < theirs->sets.count; s++) {
            ph__ranges copy;
            if (!ph__ranges_copy(&copy, &theirs->sets.at[s]))
                return ph__fail_host_memory(call, "the pools of the graph");
            ph__writer_add(mine, &copy);
        }
    }
    return PH_OK;
}

/* Reads as much of the nodes that are brought as the library has to know. */
static ph_status read_source(ph_graph *graph, ph_graph *from, plan *p, const char *call)
{
    PH_TRY(ph__brought_make(&p->brought, graph, from, call));
    p->own = graph == from && !graph->liveness;
    if ((p->brought || p->own) && !graph->slots && !graph->locate && !from->locate)
        return PH_OK;
    PH_TRY(ph__graph_need_record(graph, call));
    return ph__graph_need_record(from, call);
}

static ph_status make_update_plan(ph_graph *graph, const ph_graph *from, plan *p, const char *call)
{
    for (size_t i = 0; i < from->pools.count; i++)
        PH_TRY(hold_pool_of_source(graph, from->pools.at[i], p, call));
    if (!ph__graph_reserve_kernels(graph, from->kernels.count))
        return ph__fail_host_memory(call, "the kernels of the graph");
    if (!ph__changes_reserve(graph))
        return ph__fail_host_memory(call, "the changes of the graph");
    if (!ph__graph_reserve_events(graph, from))
        return ph__fail_host_memory(call, "the events of the graph");
    if (graph != from)
        PH_TRY(share_ranges(graph, from, call));
    if (graph != from && !ph__layout_copy(&p->layout, &from->layout))
        return ph__fail_host_memory(call, "the layout of the capture");
    if (graph != from)
        PH_TRY(ph__held_copy(&p->held, graph, from, call));
    return p->brought || p->own ? PH_OK : ph__inputs_of_graph(&p->inputs, graph, from, call);
}

/* The driver pairs nodes in order of creation, which is the record's. */
static void adopt_parameters(ph_graph *graph, ph_graph *from, plan *p)
{
    for (size_t i = 0; !p->brought && graph->record && i < graph->record->node_count &&
                       i < from->record->node_count;
         i++)
        graph->node_kernels[i] = from->record->nodes[i].kernel;
    size_t cursor = 0;
    uint64_t key;
    void *kernel;
    /* kernels of nested graphs, too */
    while (graph != from && ph__map_next(&from->kernels, &cursor, &key, &kernel))
        ph__graph_add_kernel(graph, kernel);
    ph__graph_add_events(graph, from);
    ph__graph_set_inputs(graph, &p->inputs);
    ph__changes_updated(graph, from);
    if (graph != from) /* which goes next, or captures anew: the driver takes time for a graph */
        ph__brought_leave(graph, from);
    ph__brought_drop(graph);
    graph->brought = p->brought;
    graph->inputs_due = p->brought || p->own;
    if (p->brought)
        ph__brought_find_pools(p->brought, graph, from);
    ph__slots_renew(graph, from->record);
    ph__locate_updated(graph, from->record, "ph_graph_update");
    ph__layout_free(&graph->updated_layout);
    graph->updated_layout = p->layout;
    ph__held_drop(graph, &graph->held_updated);
    graph->held_updated = p->held;
    graph->updated_stream = from->capture_stream;
    graph->updated_pool = graph != from ? from->own->pool : NULL;
    graph->changed = graph != from;
    graph->hosts_changed = false; /* as in `from`: what was captured, or what changed says */
    ph__vec_free(&p->added);
    for (size_t i = graph->pools.count; i-- > 0;) {
        ph__writer *mine = graph->pools.at[i];
        /* No node of the executable is of an earlier update's capture any more. */
        if (mine->updated && (graph == from || ph__graph_find_pool(from, mine->pool) == NULL))
            ph__graph_drop_pool(graph, mine);
    }
}

static ph_status refuse_update(ph_graph *graph, const ph_graph *from, ph_update_result *out,
                               const char *call)
{
    ph__graph_explain_update(graph, from, out);
    return ph__fail_native(
        PH_ERROR_MISMATCH, PH__R_UPDATE_FAILURE, PH__NAME_GRAPH_EXEC_UPDATE,
        "%s: the executable cannot take the parameters of this capture: %s; the executable is "
        "unchanged: reset the graph and capture again",
        call, out->message);
}

static ph_status fail_update(ph_graph *graph, ph_graph *from, int result, const ph__drv_update *why,
                             ph_update_result *out, const char *call)
{
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the update");
    if (result != PH__R_UPDATE_FAILURE)
        return ph__driver_fail(result, PH__NAME_GRAPH_EXEC_UPDATE,
                               "%s: the executable was not changed", call);
    out->reason = why->reason;
    ph_status read = ph__graph_need_record(graph, call);
    if (read == PH_OK)
        read = ph__graph_need_record(from, call);
    if (read != PH_OK)
        return read;
    out->node = ph__record_index_of(graph->record, why->node);
    out->from_node = ph__record_index_of(from->record, why->from_node);
    ph__line_format(out->message, sizeof out->message, "%s", why->message);
    return refuse_update(graph, from, out, call);
}

static ph_status check_graph_pair(ph_graph *graph, const ph_graph *from, const char *call)
{
    PH_TRY(ph__graph_check(graph, PH__CALL_UPDATE));
    ph__graph_drop_update_diff(graph); /* this is the last update, whatever comes of it */
    if (from == NULL)
        return ph__fail_null(call, "from");
    PH_TRY(ph__graph_check(from, PH__CALL_UPDATE_FROM));
    if (graph->device != from->device)
        return ph__fail_devices(call, "the graph", graph->device, "from", from->device);
    return ph__rule_check(graph->device, PH__RULE_EXEC_UPDATE);
}

/* The cells of the one capture are not those that the kernels of the other read. */
static ph_status refuse_cells(ph_graph *graph, ph_graph *from, ph_update_result *out,
                              const char *call)
{
    PH_TRY(ph__graph_need_record(graph, call));
    PH_TRY(ph__graph_need_record(from, call));
    out->reason = PH_UPDATE_UNSUPPORTED;
    ph__line_format(out->message, sizeof out->message,
                    "%s has cells (ph_cells_create), which belong to its own capture",
                    graph->cells ? "the graph" : "from");
    return refuse_update(graph, from, out, call);
}

/* The other ranks have agreed to the collectives of the graph. */
static ph_status check_collectives(ph_graph *graph, ph_graph *from, ph_update_result *out,
                                   const char *call)
{
    if (graph->collectives && from->collectives &&
        graph->collectives->same(graph->collectives, from->collectives))
        return PH_OK;
    PH_TRY(ph__graph_need_record(graph, call));
    PH_TRY(ph__graph_need_record(from, call));
    out->reason = PH_UPDATE_PARAMETERS;
    ph__line_format(out->message, sizeof out->message,
                    "the collectives differ in number, communicator, count, type, operation or "
                    "rank");
    return refuse_update(graph, from, out, call);
}

/* Slots are set in the places of the graph's own capture, and breadcrumbs and checks are
 * switched there. */
static ph_status check_slot_places(ph_graph *graph, const ph_graph *from, ph_update_result *out,
                                   const char *call)
{
    char why[160];
    if (ph__slots_fit(graph, from->record, why, sizeof why) &&
        ph__locate_fits(graph, from, why, sizeof why))
        return PH_OK;
    out->reason = PH_UPDATE_UNSUPPORTED;
    ph__line_format(out->message, sizeof out->message, "%s", why);
    return refuse_update(graph, from, out, call);
}

ph_status ph_graph_update(ph_graph *graph, ph_graph *from, ph_update_result *out)
{
    static const char call[] = "ph_graph_update";
    ph_update_result unused;
    ph__drv_update why = {0};
    plan p = {0};
    out = out ? out : &unused;
    memset(out, 0, sizeof *out);
    out->node = out->from_node = SIZE_MAX;
    PH_TRY(check_graph_pair(graph, from, call));
    if (graph->cells || from->cells)
        return refuse_cells(graph, from, out, call);
    if (graph->collectives || from->collectives)
        PH_TRY(check_collectives(graph, from, out, call));
    ph_status status = read_source(graph, from, &p, call);
    if (status == PH_OK)
        status = check_slot_places(graph, from, out, call);
    if (status == PH_OK)
        status = make_update_plan(graph, from, &p, call);
    if (status == PH_OK)
        status = ph__graph_share_objects(graph, from, call);
    int result = PH__R_OK;
    if (status == PH_OK)
        result = graph->device->driver->exec_update(graph->exec, from->template, &why);
    if (status == PH_OK && result != PH__R_OK)
        status = fail_update(graph, from, result, &why, out, call);
    if (status == PH_OK)
        adopt_parameters(graph, from, &p);
    else
        undo_plan(graph, &p);
    return status;
}
