/* SPDX-License-Identifier: MIT */
/* graph/change/edited.c: with keep_graph the template is the user's to edit by CUDA's own calls
 * for nodes. The next instantiate reads it again where it has changed,
 * and record, annotations, kernels and inputs follow. */
#include "graph/change/edited.h"
#include "base/alloc.h"
#include "base/line.h"
#include "graph/change/template_same.h"
#include "graph/change/update_diff.h"
#include "graph/inputs/inputs.h"
#include "graph/inputs/liveness.h"
#include "graph/inputs/rebind.h"
#include "graph/locate/locate.h"
#include "graph/locate/probes.h"
#include "graph/memory/cells.h"
#include "graph/memory/epochs.h"
#include "graph/memory/owned.h"
#include "graph/object/annotations.h"
#include "graph/object/deferred_record.h"
#include "graph/object/graph.h"
#include "graph/object/kernels.h"
#include "graph/slots/slots.h"
#include "graph/slots/slots_life.h"
#include "record/annotations.h"
#include "record/origin.h"
#include "record/words.h"
#include <string.h>

/* ---- what it was ---- */
static ph_status fail_read(int result, const char *call)
{
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the nodes of the template");
    return ph__driver_fail(result, PH__NAME_GRAPH_GET_NODES,
                           "%s: the template could not be read back", call);
}

/* Read to the end now: the driver tells later only what is there then. */
static int read_whole_graph(ph__drv_graph *graph, const ph__driver *driver)
{
    ph__drv_node *const *nodes;
    ph__drv_node_info info;
    size_t count = 0;
    int result = driver->graph_nodes(&nodes, &count, graph);
    for (size_t i = 0; i < count && result == PH__R_OK; i++) {
        result = driver->node_info(&info, nodes[i]);
        if (result == PH__R_OK && info.kind == PH_NODE_GRAPH && info.body)
            result = read_whole_graph(info.body, driver);
    }
    return result;
}

static ph_status read_again(ph__drv_graph **out, ph_graph *graph, const char *call)
{
    const ph__driver *driver = graph->device->driver;
    int result = driver->graph_reread(out, graph->template);
    if (result == PH__R_OK && (result = read_whole_graph(*out, driver)) != PH__R_OK) {
        driver->graph_destroy(*out);
        *out = NULL;
    }
    return result == PH__R_OK ? PH_OK : fail_read(result, call);
}

ph_status ph__edit_expect(ph_graph *graph, const char *call)
{
    if (graph->device->driver->node_native == NULL || graph->shown || graph->edited)
        return PH_OK;
    return read_again(&graph->shown, graph, call);
}

void ph__edit_forget(ph_graph *graph)
{
    if (graph->shown)
        graph->device->driver->graph_destroy(graph->shown);
    graph->shown = NULL;
    graph->edited = false;
}

/* ---- what the library needs of it ---- */
static const ph__record_node *find_native(const ph__edit *edit, const ph_graph *graph,
                                          const ph__drv_node *node)
{
    return node ? ph__map_get(&edit->by_native,
                              (uint64_t)(uintptr_t)graph->device->driver->node_native(node))
                : NULL;
}

static bool map_nodes(ph__edit *edit, const ph__driver *driver)
{
    bool mapped = ph__map_reserve(&edit->by_native, edit->record->node_count);
    for (size_t i = 0; i < edit->record->node_count && mapped; i++) {
        const ph__record_node *node = &edit->record->nodes[i];
        mapped =
            ph__map_put(&edit->by_native, (uint64_t)(uintptr_t)driver->node_native(node->handle),
                        (void *)(uintptr_t)node);
    }
    return mapped;
}

static ph_status fail_gone(const ph_graph *graph, size_t node, const char *whose, const char *call)
{
    return ph_fail(
        PH_ERROR_STATE,
        "%s: node %zu (%s), which %s, is no longer in the template as it was captured; leave it "
        "there, or capture again without it",
        call, node, graph->record->nodes[node].info.name, whose);
}

static bool is_there(const ph__edit *edit, const ph_graph *graph, const ph__drv_node *node,
                     size_t index)
{
    const ph__record_node *found = find_native(edit, graph, node);
    return found && found->info.kind == graph->record->nodes[index].info.kind &&
           found->kernel == graph->record->nodes[index].kernel;
}

static ph_status check_probes(const ph__edit *edit, const ph_graph *graph, const ph__probes *probes,
                              const char *call)
{
    static const char whose[] = "watches replays (breadcrumbs, checks)";
    if (probes->root.handle && probes->root.index != SIZE_MAX &&
        !is_there(edit, graph, probes->root.handle, probes->root.index))
        return fail_gone(graph, probes->root.index, whose, call);
    for (size_t i = 0; i < probes->nodes.count; i++) {
        const ph__probe_node *node = &probes->nodes.at[i];
        if (node->handle && node->index != SIZE_MAX &&
            !is_there(edit, graph, node->handle, node->index))
            return fail_gone(graph, node->index, whose, call);
    }
    return PH_OK;
}

/* Slots name their nodes by number: those before them stay as many. */
static ph_status check_slots(const ph__edit *edit, const ph_graph *graph, const char *call)
{
    const ph__driver *driver = graph->device->driver;
    char why[200];
    for (size_t i = 0; graph->slots && i < graph->slots->node_count; i++)
        if (graph->slots->nodes[i] && (i >= edit->record->node_count ||
                                       driver->node_native(edit->record->nodes[i].handle) !=
                                           driver->node_native(graph->slots->nodes[i]->handle)))
            return fail_gone(graph, i, "has places of slots", call);
    if (!ph__slots_fit(graph, edit->record, why, sizeof why))
        return ph_fail(PH_ERROR_STATE, "%s: the template was edited, and %s", call, why);
    return PH_OK;
}

static ph_status check_needed(const ph__edit *edit, const ph_graph *graph, const char *call)
{
    for (size_t i = 0; graph->cells && i < graph->cells->roots.count; i++) {
        const ph__cells_root *root = &graph->cells->roots.at[i];
        if (!is_there(edit, graph, root->node, root->index))
            return fail_gone(graph, root->index, "gives cells their values", call);
    }
    if (graph->locate) {
        PH_TRY(check_probes(edit, graph, &graph->locate->breadcrumbs, call));
        PH_TRY(check_probes(edit, graph, &graph->locate->checks, call));
    }
    return check_slots(edit, graph, call);
}

/* ---- making it ---- */
static bool add_own_ranges(ph__ranges *to, const ph__ranges *from)
{
    for (size_t i = 0; i < from->count; i++) {
        const ph__range *there = ph__ranges_from(to, from->at[i].base);
        if ((there == NULL || there->base >= from->at[i].base + from->at[i].size) &&
            !ph__ranges_add(to, from->at[i].base, from->at[i].size, from->at[i].value))
            return false;
    }
    return true;
}

/* As at the capture's end: what its pool gave, its cells; in bodies that of the nested graphs, too.
 */
static ph_status find_own(ph__edit *edit, const ph_graph *graph, const char *call)
{
    bool made =
        graph->own->sets.count == 0 || ph__ranges_copy(&edit->capture, &graph->own->sets.at[0]);
    made = made && ph__cells_add_ranges(&edit->capture, graph);
    for (size_t i = 0; i < graph->pools.count && made; i++)
        for (size_t s = 0; s < graph->pools.at[i]->sets.count && made; s++)
            made = add_own_ranges(&edit->nested, &graph->pools.at[i]->sets.at[s]);
    return made ? PH_OK : ph__fail_host_memory(call, "the ranges of the capture");
}

/* Makes the objects that depend on the record from the new one. */
static ph_status make_rest(ph__edit *edit, ph_graph *graph, const char *call)
{
    ph_record *before = graph->record;
    ph_kernel **kernels = graph->node_kernels;
    graph->record = edit->record;
    graph->node_kernels = NULL;
    ph_status status = ph__graph_acquire_kernels(graph, edit->record, call);
    if (status == PH_OK && graph->liveness)
        status = ph__inputs_of_graph(&edit->inputs, graph, graph, call);
    edit->kernels = graph->node_kernels;
    graph->record = before;
    graph->node_kernels = kernels;
    return status;
}

static ph_status make_edit(ph__edit *edit, ph_graph *graph, const char *call)
{
    PH_TRY(find_own(edit, graph, call));
    const ph__own_memory own = {.capture = &edit->capture, .nested = &edit->nested};
    PH_TRY(ph__record_build(&edit->record, graph->device, edit->template, &own, call));
    edit->record->layout = graph->record->layout;
    PH_TRY(ph__record_inherit(edit->record, graph->record, graph->device->driver, call));
    if (!map_nodes(edit, graph->device->driver))
        return ph__fail_host_memory(call, "the nodes of the template");
    PH_TRY(check_needed(edit, graph, call));
    if (graph->slots) {
        edit->slot_nodes = ph__calloc(edit->record->node_count + 1, sizeof(struct ph__slot_node *));
        if (edit->slot_nodes == NULL)
            return ph__fail_host_memory(call, "the slots of the graph");
    }
    return make_rest(edit, graph, call);
}

ph_status ph__edit_read(ph__edit *out, ph_graph *graph, const char *call)
{
    const ph__driver *driver = graph->device->driver;
    ph__drv_graph *before = graph->edited ? graph->template : graph->shown;
    if (before == NULL)
        return PH_OK;
    PH_TRY(read_again(&out->template, graph, call));
    if (ph__template_same(before, out->template, driver)) {
        driver->graph_destroy(out->template);
        out->template = NULL;
        return PH_OK;
    }
    ph_status status = make_edit(out, graph, call);
    if (status != PH_OK)
        ph__edit_abandon(out, graph);
    return status;
}

/* ---- nodes that watch replays ---- what is told the driver of an executable names nodes of the
 * template that it was made of. */
static void point_probes(ph__probes *probes, const ph__edit *edit, const ph_graph *graph)
{
    for (size_t i = 0; i <= probes->nodes.count; i++) {
        ph__probe_node *node = i ? &probes->nodes.at[i - 1] : &probes->root;
        if (node->handle == NULL || node->index == SIZE_MAX)
            continue;
        const ph__record_node *there = edit ? find_native(edit, graph, node->handle) : NULL;
        node->handle = there ? there->handle : graph->record->nodes[node->index].handle;
    }
}

void ph__edit_point(ph__edit *edit, ph_graph *graph)
{
    if (edit->template == NULL || graph->locate == NULL)
        return;
    point_probes(&graph->locate->breadcrumbs, edit, graph);
    point_probes(&graph->locate->checks, edit, graph);
    edit->pointed = true;
}

static void point_back(ph_graph *graph)
{
    point_probes(&graph->locate->breadcrumbs, NULL, graph);
    point_probes(&graph->locate->checks, NULL, graph);
}

void ph__edit_abandon(ph__edit *edit, ph_graph *graph)
{
    ph_error saved;
    if (edit->template == NULL)
        return;
    ph__error_save(&saved);
    if (edit->pointed)
        point_back(graph);
    ph__inputs_free(&edit->inputs, graph);
    ph__record_free(edit->record);
    graph->device->driver->graph_destroy(edit->template);
    ph__free(edit->kernels);
    ph__free(edit->slot_nodes);
    ph__map_free(&edit->by_native);
    ph__ranges_free(&edit->capture);
    ph__ranges_free(&edit->nested);
    *edit = (ph__edit){0};
    ph__error_restore(&saved);
}

/* ---- taking it over ---- */
static void move_slots(const ph__edit *edit, const ph_graph *graph)
{
    ph__slots *slots = graph->slots;
    for (size_t i = 0; i < slots->node_count; i++) {
        if (slots->nodes[i] == NULL)
            continue;
        edit->slot_nodes[i] = slots->nodes[i];
        slots->nodes[i]->handle = edit->record->nodes[i].handle;
    }
    ph__free(slots->nodes);
    slots->nodes = edit->slot_nodes;
    slots->node_count = edit->record->node_count;
}

static void move_roots(const ph__edit *edit, const ph_graph *graph)
{
    for (size_t i = 0; graph->cells && i < graph->cells->roots.count; i++) {
        ph__cells_root *root = &graph->cells->roots.at[i];
        root->node = find_native(edit, graph, root->node)->handle;
    }
}

void ph__edit_commit(ph__edit *edit, ph_graph *graph)
{
    const ph__driver *driver = graph->device->driver;
    if (edit->template == NULL)
        return;
    const ph__own_memory own = {.capture = &edit->capture, .nested = &edit->nested};
    move_roots(edit, graph);
    if (graph->slots)
        move_slots(edit, graph);
    ph__graph_drop_sets(graph);
    ph__graph_drop_update_diff(graph);
    bool listed = graph->annotated_at != NULL;
    ph__graph_unlist_annotations(graph);
    ph__record_free(graph->record);
    graph->record = edit->record;
    ph__record_note_origin(graph->record, graph->device, graph->id);
    ph__free(graph->verdict); /* of other work */
    graph->verdict = NULL;
    if (listed)
        ph__graph_list_annotations(graph);
    ph__free(graph->node_kernels);
    graph->node_kernels = edit->kernels;
    ph__graph_set_inputs(graph, &edit->inputs);
    graph->inputs_due = !graph->liveness;
    driver->graph_hand_over(edit->template, graph->template);
    if (graph->deferred_record) /* and what was read of it; graphs may have been updated from it */
        ph__deferred_record_release(graph->deferred_record);
    else
        driver->graph_destroy(graph->template);
    graph->deferred_record = NULL;
    graph->template = edit->template;
    if (graph->shown)
        driver->graph_destroy(graph->shown);
    graph->shown = NULL; /* the template itself shows from now on what it was */
    graph->edited = true;
    ph__cells_record(graph, &own);
    ph__locate_record(graph);
    ph__map_free(&edit->by_native);
    ph__ranges_free(&edit->capture);
    ph__ranges_free(&edit->nested);
}
