/* SPDX-License-Identifier: MIT */
/* graph/locate/probes_exec.c: probe nodes in an executable: whether they are on, and what they
 * have to do with the changes of their graph. */
#include "graph/locate/probes_exec.h"
#include "base/line.h"
#include "graph/locate/locate.h"
#include "graph/object/graph.h"
#include <string.h>

ph_status ph__locate_note_stream(const ph_graph *graph, ph_stream *stream)
{
    if (graph->locate && graph->locate->breadcrumbs.table)
        PH_TRY(ph_record_stream(graph->locate->breadcrumbs.table, stream));
    if (graph->locate && graph->locate->checks.table)
        PH_TRY(ph_record_stream(graph->locate->checks.table, stream));
    return PH_OK;
}

size_t ph__locate_bytes(const ph_graph *graph)
{
    return graph->locate ? graph->locate->breadcrumbs.bytes + graph->locate->checks.bytes : 0;
}

int ph__probes_enable(const ph_graph *graph, ph__drv_exec *exec, const ph__probes *probes,
                      bool enabled)
{
    const ph__driver *driver = graph->device->driver;
    int result = PH__R_OK;
    if (probes->root.index != SIZE_MAX)
        result = driver->exec_set_enabled(exec, probes->root.handle, enabled);
    for (size_t i = 0; i < probes->nodes.count && result == PH__R_OK; i++)
        if (probes->nodes.at[i].index != SIZE_MAX)
            result = driver->exec_set_enabled(exec, probes->nodes.at[i].handle, enabled);
    return result;
}

ph_status ph__locate_need_breadcrumbs(const ph_graph *graph, const char *call)
{
    if (graph->locate && graph->locate->breadcrumbs.nodes.count)
        return PH_OK;
    if (!graph->breadcrumbs)
        return ph_fail(PH_ERROR_STATE,
                       "%s: the graph was captured without breadcrumbs; set "
                       "ph_capture_options.breadcrumbs and "
                       "enable_annotations, then capture again",
                       call);
    return ph_fail(
        PH_ERROR_STATE,
        "%s: the capture left no breadcrumbs: no scope was begun on a stream that was in it; call "
        "ph_annotation_push in the capture, for another stream after that has joined it",
        call);
}

/* ---- changes of the graph ---- */
int ph__locate_start(const ph_graph *graph, ph__drv_exec *exec)
{
    if (graph->locate == NULL)
        return PH__R_OK;
    int result = ph__probes_enable(graph, exec, &graph->locate->breadcrumbs, false);
    return result == PH__R_OK ? ph__probes_enable(graph, exec, &graph->locate->checks, false)
                              : result;
}

void ph__probes_load(ph__probes *checks, const ph_record *record)
{
    for (size_t i = 0; i < checks->nodes.count; i++) {
        ph__probe_node *node = &checks->nodes.at[i];
        if (node->index == SIZE_MAX)
            continue;
        memcpy(&node->args.finite, record->nodes[node->index].info.args, sizeof node->args.finite);
    }
}

void ph__locate_renew(ph_graph *graph)
{
    ph__locate *locate = graph->locate;
    if (locate == NULL)
        return;
    ph__probes_load(&locate->checks, graph->record);
    locate->breadcrumbs.on = locate->checks.on = false;
    locate->breadcrumbs.given = locate->checks.given = false;
}

static bool same_nodes(const ph__probes *mine, const ph__probes *theirs)
{
    size_t count = mine ? mine->nodes.count : 0;
    bool same = count == (theirs ? theirs->nodes.count : 0);
    if (count == 0 || !same)
        return same;
    same = mine->root.index == theirs->root.index;
    for (size_t i = 0; i < count && same; i++)
        same = mine->nodes.at[i].index == theirs->nodes.at[i].index &&
               mine->nodes.at[i].blocks == theirs->nodes.at[i].blocks;
    return same;
}

/* Where one graph lacks what the other has been captured with, the driver would complain of some
 * node. */
static bool report_missing(const ph_graph *graph, const ph_graph *from, char *why, size_t size)
{
    const ph__locate *mine = graph->locate, *theirs = from->locate;
    size_t checks = mine ? mine->checks.nodes.count : 0,
           others = theirs ? theirs->checks.nodes.count : 0;
    if (graph->breadcrumbs != from->breadcrumbs)
        ph__line_format(
            why, size, "%s was captured without ph_capture_options.breadcrumbs, %s with them",
            graph->breadcrumbs ? "from" : "the graph", graph->breadcrumbs ? "the graph" : "from");
    else if ((checks == 0) != (others == 0))
        ph__line_format(
            why, size,
            "%s was captured without checks for NaN and infinity (ph_finite_check), %s with them",
            checks ? "from" : "the graph", checks ? "the graph" : "from");
    else
        return false;
    return true;
}

bool ph__locate_fits(const ph_graph *graph, const ph_graph *from, char *why, size_t size)
{
    const ph__locate *mine = graph->locate, *theirs = from->locate;
    size_t breadcrumbs = mine ? mine->breadcrumbs.nodes.count : 0,
           others = theirs ? theirs->breadcrumbs.nodes.count : 0;
    if (mine == NULL && theirs == NULL)
        return true;
    if (report_missing(graph, from, why, size))
        return false;
    if (breadcrumbs == others && graph->record->node_count != from->record->node_count)
        return true; /* the driver refuses it, and knows why */
    if (!same_nodes(mine ? &mine->breadcrumbs : NULL, theirs ? &theirs->breadcrumbs : NULL))
        ph__line_format(
            why, size,
            "from was captured with other scopes: it has %zu breadcrumbs, the graph %zu%s", others,
            breadcrumbs, breadcrumbs == others ? ", and not at the same nodes" : "");
    else if (!same_nodes(mine ? &mine->checks : NULL, theirs ? &theirs->checks : NULL))
        ph__line_format(why, size,
                        "the two captures have not the same checks for NaN and infinity "
                        "(ph_finite_check) at the "
                        "same nodes");
    else
        return true;
    return false;
}

void ph__locate_patch(const ph_graph *graph, size_t node, void *args)
{
    const ph__probes *checks = graph->locate ? &graph->locate->checks : NULL;
    for (size_t i = 0; checks && checks->given && i < checks->nodes.count; i++)
        if (checks->nodes.at[i].index == node)
            ((ph__drv_finite *)args)->parts =
                (ph__drv_finite_part *)(uintptr_t)ph__probe_part(checks, checks->nodes.at[i].part);
}
