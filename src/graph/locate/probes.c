/* SPDX-License-Identifier: MIT */
/* graph/locate/probes.c: capturing the nodes that watch replays, behind their root, and finding
 * them in the record. */
#include "graph/locate/probes.h"
#include "base/alloc.h"
#include "device/capture/culprit.h"
#include "device/handles/kernel.h"
#include "device/handles/own_kernels.h"
#include "graph/locate/locate.h"
#include "graph/object/graph.h"

ph_status ph__probe_report(const ph__probe_failure *f, const ph_stream *stream, const char *call)
{
    if (!ph__probe_failed(f) || f->status != PH_OK)
        return f->status;
    if (ph__result_is_host_memory(f->result))
        return ph__fail_host_memory(call, "the nodes that watch the capture's replays");
    return ph__stream_fail(f->result, stream, f->driver_call, "%s", call);
}

/* ---- capturing ---- under the device's capture_lock ---- */
ph__locate *ph__locate_get(ph_graph *graph)
{
    if (graph->locate)
        return graph->locate;
    ph__locate *made = ph__calloc(1, sizeof *made);
    if (made) {
        made->breadcrumbs.kernel = PH__PROBE_BREADCRUMB;
        made->checks.kernel = PH__PROBE_FINITE;
        made->breadcrumbs.root.index = made->checks.root.index = SIZE_MAX;
    }
    return graph->locate = made;
}

void ph__probe_launch(ph__drv_launch *out, const ph__probes *probes, const ph__probe_node *node)
{
    bool breadcrumb = probes->kernel == PH__PROBE_BREADCRUMB || node == &probes->root;
    *out = (ph__drv_launch){.grid = {breadcrumb ? 1 : node->blocks, 1, 1},
                            .block = {breadcrumb ? 1 : PH__FINITE_BLOCK, 1, 1},
                            .args = &node->args};
}

static void launch_probe(ph__probe_failure *f, const ph__probes *probes, ph_stream *stream,
                         const ph__probe_node *node, const char *call)
{
    ph_kernel *kernel;
    ph__drv_launch how;
    f->status = ph__device_probe_kernel(&kernel, stream->device, probes->kernel, call);
    if (ph__probe_failed(f))
        return;
    ph__probe_launch(&how, probes, node);
    f->driver_call = PH__NAME_LAUNCH_KERNEL;
    f->result = stream->device->driver->launch(stream->handle, kernel->handle, &how);
}

ph_status ph__locate_begin(ph_graph *graph, const char *call)
{
    ph__probe_failure f = {PH_OK, PH__R_OK, ""};
    if (!graph->breadcrumbs)
        return PH_OK;
    pthread_mutex_lock(&graph->device->capture_lock);
    ph__locate *locate = ph__locate_get(graph);
    if (locate)
        launch_probe(&f, &locate->breadcrumbs, graph->stream, &locate->breadcrumbs.root, call);
    else
        f.result = PH__R_OUT_OF_MEMORY;
    pthread_mutex_unlock(&graph->device->capture_lock);
    return ph__probe_report(&f, graph->stream, call);
}

static void make_root(ph__probe_failure *f, ph__probes *checks, ph_stream *stream, const char *call)
{
    ph_device *device = stream->device;
    ph_kernel *kernel;
    ph__drv_launch how;
    if (checks->root.handle)
        return;
    f->status = ph__device_probe_kernel(&kernel, device, PH__PROBE_BREADCRUMB, call);
    if (ph__probe_failed(f))
        return;
    ph__probe_launch(&how, checks, &checks->root);
    f->driver_call = PH__NAME_GRAPH_ADD_KERNEL_NODE;
    f->result =
        device->driver->capture_root(&checks->root.handle, stream->handle, kernel->handle, &how);
    if (ph__probe_failed(f))
        checks->root.handle = NULL;
}

/* Puts what comes on the stream behind the root. */
static void order_behind_root(ph__probe_failure *f, ph__probes *checks, ph_stream *stream)
{
    if (ph__map_get(&checks->ordered, stream->id))
        return;
    if (!ph__map_reserve(&checks->ordered, 1)) {
        f->result = PH__R_OUT_OF_MEMORY;
        return;
    }
    f->driver_call = PH__NAME_STREAM_UPDATE_CAPTURE_DEPENDENCIES;
    f->result = stream->device->driver->capture_depend(stream->handle, checks->root.handle);
    if (!ph__probe_failed(f))
        (void)ph__map_put(&checks->ordered, stream->id, checks);
}

void ph__probe_add(ph__probe_failure *f, ph__probes *probes, ph_stream *stream,
                   const ph__probe_node *node, const char *call)
{
    if (!ph__vec_reserve(&probes->nodes, 1)) {
        f->result = PH__R_OUT_OF_MEMORY;
        return;
    }
    if (probes->kernel == PH__PROBE_FINITE) {
        make_root(f, probes, stream, call);
        if (!ph__probe_failed(f))
            order_behind_root(f, probes, stream);
    }
    if (!ph__probe_failed(f))
        launch_probe(f, probes, stream, node, call);
    if (ph__probe_failed(f))
        return;
    probes->nodes.at[probes->nodes.count] = *node;
    probes->nodes.at[probes->nodes.count++].index = SIZE_MAX;
}

/* ---- the capture's end ---- */
/* A fork that was put behind a root, and whose launch then failed, would count as work that was
 * not joined. */
void ph__locate_join(ph_graph *graph)
{
    ph__probe_failure f = {PH_OK, PH__R_OK, ""};
    if (graph->locate == NULL || graph->locate->checks.root.handle == NULL ||
        graph->capture.stream == NULL)
        return;
    pthread_mutex_lock(&graph->device->capture_lock);
    order_behind_root(&f, &graph->locate->checks, graph->capture.stream);
    pthread_mutex_unlock(&graph->device->capture_lock);
    if (ph__probe_failed(&f))
        ph__driver_clear_reason();
}

static void note_node(ph__probes *probes, size_t number, const ph__record_node *node)
{
    if (number > probes->nodes.count)
        return;
    ph__probe_node *found = number ? &probes->nodes.at[number - 1] : &probes->root;
    found->index = node->info.index;
    found->handle = node->handle;
}

void ph__locate_record(ph_graph *graph)
{
    ph__locate *locate = graph->locate;
    const ph_record *record = graph->record;
    if (locate == NULL)
        return;
    const ph_kernel *breadcrumb = atomic_load(&graph->device->probe_kernels[PH__PROBE_BREADCRUMB]);
    const ph_kernel *finite = atomic_load(&graph->device->probe_kernels[PH__PROBE_FINITE]);
    locate->checks.root.index = ph__record_index_of(record, locate->checks.root.handle);
    for (size_t i = 0; i < record->node_count; i++) {
        const ph__record_node *node = &record->nodes[i];
        if (node->kernel == NULL || i == locate->checks.root.index)
            continue;
        if (node->kernel == breadcrumb)
            note_node(&locate->breadcrumbs, ((const ph__drv_breadcrumb *)node->info.args)->number,
                      node);
        else if (node->kernel == finite)
            note_node(&locate->checks, ((const ph__drv_finite *)node->info.args)->number, node);
    }
}

static bool probes_have(const ph__probes *probes, size_t node)
{
    bool found = probes->root.index == node;
    for (size_t i = 0; i < probes->nodes.count && !found; i++)
        found = probes->nodes.at[i].index == node;
    return found;
}

const char *ph__locate_call_of(const ph_graph *graph, size_t node)
{
    if (graph->locate && probes_have(&graph->locate->breadcrumbs, node))
        return "ph_graph_breadcrumbs_enable";
    return graph->locate && probes_have(&graph->locate->checks, node) ? "ph_finite_enable" : NULL;
}

/* ---- letting go ---- */
static void drop_probes(ph__probes *probes)
{
    ph_free_pinned(probes->table, NULL);
    for (size_t i = 0; i < probes->nodes.count; i++) {
        ph__free(probes->nodes.at[i].name);
        ph__free(probes->nodes.at[i].path);
    }
    ph__vec_free(&probes->nodes);
    ph__map_free(&probes->ordered);
}

void ph__locate_drop(ph_graph *graph)
{
    ph__locate *locate = graph->locate;
    graph->locate = NULL;
    if (locate == NULL)
        return;
    drop_probes(&locate->breadcrumbs);
    drop_probes(&locate->checks);
    for (size_t i = 0; i < locate->scopes.count; i++)
        ph__free(locate->scopes.at[i].path);
    ph__vec_free(&locate->scopes);
    ph__vec_free(&locate->shown);
    ph__free(locate);
}
