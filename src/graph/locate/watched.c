/* SPDX-License-Identifier: MIT */
/* graph/locate/watched.c: capturing the nodes that watch replays, behind their root, and finding
 * them in the record. */
#include "graph/locate/watched.h"
#include "base/alloc.h"
#include "device/capture/culprit.h"
#include "device/handles/kernel.h"
#include "device/handles/own_kernels.h"
#include "graph/locate/locate.h"
#include "graph/object/graph.h"

ph_status ph__watch_tell(const ph__watch_failure *f, const ph_stream *stream, const char *call)
{
    if (!ph__watch_failed(f) || f->status != PH_OK)
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
        made->crumbs.kernel = PH__WATCH_CRUMB;
        made->checks.kernel = PH__WATCH_FINITE;
        made->crumbs.root.index = made->checks.root.index = SIZE_MAX;
    }
    return graph->locate = made;
}

void ph__watched_launch(ph__drv_launch *out, const ph__watched *watched,
                        const ph__watched_node *node)
{
    bool crumb = watched->kernel == PH__WATCH_CRUMB || node == &watched->root;
    *out = (ph__drv_launch){.grid = {crumb ? 1 : node->blocks, 1, 1},
                            .block = {crumb ? 1 : PH__FINITE_BLOCK, 1, 1},
                            .args = &node->args};
}

static void launch(ph__watch_failure *f, const ph__watched *watched, ph_stream *stream,
                   const ph__watched_node *node, const char *call)
{
    ph_kernel *kernel;
    ph__drv_launch how;
    f->status = ph__device_watch_kernel(&kernel, stream->device, watched->kernel, call);
    if (ph__watch_failed(f))
        return;
    ph__watched_launch(&how, watched, node);
    f->driver_call = PH__NAME_LAUNCH_KERNEL;
    f->result = stream->device->driver->launch(stream->handle, kernel->handle, &how);
}

ph_status ph__locate_begin(ph_graph *graph, const char *call)
{
    ph__watch_failure f = {PH_OK, PH__R_OK, ""};
    if (!graph->breadcrumbs)
        return PH_OK;
    pthread_mutex_lock(&graph->device->capture_lock);
    ph__locate *locate = ph__locate_get(graph);
    if (locate)
        launch(&f, &locate->crumbs, graph->stream, &locate->crumbs.root, call);
    else
        f.result = PH__R_OUT_OF_MEMORY;
    pthread_mutex_unlock(&graph->device->capture_lock);
    return ph__watch_tell(&f, graph->stream, call);
}

static void make_root(ph__watch_failure *f, ph__watched *checks, ph_stream *stream,
                      const char *call)
{
    ph_device *device = stream->device;
    ph_kernel *kernel;
    ph__drv_launch how;
    if (checks->root.handle)
        return;
    f->status = ph__device_watch_kernel(&kernel, device, PH__WATCH_CRUMB, call);
    if (ph__watch_failed(f))
        return;
    ph__watched_launch(&how, checks, &checks->root);
    f->driver_call = PH__NAME_GRAPH_ADD_KERNEL_NODE;
    f->result =
        device->driver->capture_root(&checks->root.handle, stream->handle, kernel->handle, &how);
    if (ph__watch_failed(f))
        checks->root.handle = NULL;
}

/* Puts what comes on the stream behind the root. */
static void order(ph__watch_failure *f, ph__watched *checks, ph_stream *stream)
{
    if (ph__map_get(&checks->ordered, stream->id))
        return;
    if (!ph__map_reserve(&checks->ordered, 1)) {
        f->result = PH__R_OUT_OF_MEMORY;
        return;
    }
    f->driver_call = PH__NAME_STREAM_UPDATE_CAPTURE_DEPENDENCIES;
    f->result = stream->device->driver->capture_depend(stream->handle, checks->root.handle);
    if (!ph__watch_failed(f))
        (void)ph__map_put(&checks->ordered, stream->id, checks);
}

void ph__watched_add(ph__watch_failure *f, ph__watched *watched, ph_stream *stream,
                     const ph__watched_node *node, const char *call)
{
    if (!ph__vec_reserve(&watched->nodes, 1)) {
        f->result = PH__R_OUT_OF_MEMORY;
        return;
    }
    if (watched->kernel == PH__WATCH_FINITE) {
        make_root(f, watched, stream, call);
        if (!ph__watch_failed(f))
            order(f, watched, stream);
    }
    if (!ph__watch_failed(f))
        launch(f, watched, stream, node, call);
    if (ph__watch_failed(f))
        return;
    watched->nodes.at[watched->nodes.count] = *node;
    watched->nodes.at[watched->nodes.count++].index = SIZE_MAX;
}

/* ---- the capture's end ---- */
/* A fork that was put behind a root, and whose launch then failed, would count as work that was
 * not joined. */
void ph__locate_join(ph_graph *graph)
{
    ph__watch_failure f = {PH_OK, PH__R_OK, ""};
    if (graph->locate == NULL || graph->locate->checks.root.handle == NULL ||
        graph->capture.stream == NULL)
        return;
    pthread_mutex_lock(&graph->device->capture_lock);
    order(&f, &graph->locate->checks, graph->capture.stream);
    pthread_mutex_unlock(&graph->device->capture_lock);
    if (ph__watch_failed(&f))
        ph__driver_clear_reason();
}

static void note_node(ph__watched *watched, size_t number, const ph__record_node *node)
{
    if (number > watched->nodes.count)
        return;
    ph__watched_node *found = number ? &watched->nodes.at[number - 1] : &watched->root;
    found->index = node->info.index;
    found->handle = node->handle;
}

void ph__locate_record(ph_graph *graph)
{
    ph__locate *locate = graph->locate;
    const ph_record *record = graph->record;
    if (locate == NULL)
        return;
    const ph_kernel *crumb = atomic_load(&graph->device->watch_kernels[PH__WATCH_CRUMB]);
    const ph_kernel *finite = atomic_load(&graph->device->watch_kernels[PH__WATCH_FINITE]);
    locate->checks.root.index = ph__record_index_of(record, locate->checks.root.handle);
    for (size_t i = 0; i < record->node_count; i++) {
        const ph__record_node *node = &record->nodes[i];
        if (node->kernel == NULL || i == locate->checks.root.index)
            continue;
        if (node->kernel == crumb)
            note_node(&locate->crumbs, ((const ph__drv_crumb *)node->info.args)->number, node);
        else if (node->kernel == finite)
            note_node(&locate->checks, ((const ph__drv_finite *)node->info.args)->number, node);
    }
}

static bool watched_has(const ph__watched *watched, size_t node)
{
    bool found = watched->root.index == node;
    for (size_t i = 0; i < watched->nodes.count && !found; i++)
        found = watched->nodes.at[i].index == node;
    return found;
}

const char *ph__locate_call_of(const ph_graph *graph, size_t node)
{
    if (graph->locate && watched_has(&graph->locate->crumbs, node))
        return "ph_graph_breadcrumbs_enable";
    return graph->locate && watched_has(&graph->locate->checks, node) ? "ph_finite_enable" : NULL;
}

/* ---- letting go ---- */
static void drop_watched(ph__watched *watched)
{
    ph_free_pinned(watched->table, NULL);
    for (size_t i = 0; i < watched->nodes.count; i++) {
        ph__free(watched->nodes.at[i].name);
        ph__free(watched->nodes.at[i].path);
    }
    ph__vec_free(&watched->nodes);
    ph__map_free(&watched->ordered);
}

void ph__locate_drop(ph_graph *graph)
{
    ph__locate *locate = graph->locate;
    graph->locate = NULL;
    if (locate == NULL)
        return;
    drop_watched(&locate->crumbs);
    drop_watched(&locate->checks);
    for (size_t i = 0; i < locate->scopes.count; i++)
        ph__free(locate->scopes.at[i].path);
    ph__vec_free(&locate->scopes);
    ph__vec_free(&locate->shown);
    ph__free(locate);
}
