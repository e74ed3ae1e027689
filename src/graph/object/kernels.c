/* SPDX-License-Identifier: MIT */
/* graph/object/kernels.c: the kernels that a graph keeps alive. */
#include "graph/object/kernels.h"
#include "base/alloc.h"
#include "graph/object/graph.h"

bool ph__graph_reserve_kernels(ph_graph *graph, size_t count)
{
    return ph__map_reserve(&graph->kernels, count);
}

void ph__graph_add_kernel(ph_graph *graph, ph_kernel *kernel)
{
    /* there is room */
    if (!ph__map_get(&graph->kernels, (uintptr_t)kernel))
        (void)ph__map_put(&graph->kernels, (uintptr_t)kernel, ph_kernel_retain(kernel));
}

/* The kernels of the record, bodies included. */
static bool hold_kernels(ph_graph *graph, const ph_record *record)
{
    bool ok = true;
    for (size_t i = 0; i < record->node_count && ok; i++) {
        ph_kernel *kernel = record->nodes[i].kernel;
        ok = !kernel || ph__graph_reserve_kernels(graph, 1);
        if (ok && kernel)
            ph__graph_add_kernel(graph, kernel);
        if (ok && record->nodes[i].info.body)
            ok = hold_kernels(graph, record->nodes[i].info.body);
    }
    return ok;
}

/* One that no node runs is retained all the same. */
bool ph__graph_keep_captured(ph_graph *graph)
{
    size_t cursor = 0;
    uint64_t key;
    void *kernel;
    pthread_mutex_lock(&graph->device->capture_lock);
    bool kept = ph__graph_reserve_kernels(graph, graph->capture.kernels.count);
    while (kept && ph__map_next(&graph->capture.kernels, &cursor, &key, &kernel))
        ph__graph_add_kernel(graph, kernel);
    pthread_mutex_unlock(&graph->device->capture_lock);
    return kept;
}

/* A launch reaches the driver before its kernel is listed: a capture that ends in between is read
 * without it. */
void ph__graph_keep_late(ph_graph *graph)
{
    size_t cursor = 0;
    uint64_t key;
    void *kernel;
    ph__capture_close_kernels(&graph->capture);
    bool room = ph__graph_reserve_kernels(graph, graph->capture.kernels.count);
    while (ph__map_next(&graph->capture.kernels, &cursor, &key, &kernel))
        if (room)
            ph__graph_add_kernel(graph, kernel);
        else
            graph->device->driver->kernel_keep(((ph_kernel *)kernel)->handle);
}

ph_status ph__graph_acquire_kernels(ph_graph *graph, const ph_record *record, const char *call)
{
    if (graph->node_kernels == NULL)
        graph->node_kernels = ph__calloc(record->node_count + 1, sizeof *graph->node_kernels);
    if (graph->node_kernels == NULL || !hold_kernels(graph, record))
        return ph__fail_host_memory(call, "the kernels of the graph");
    for (size_t i = 0; i < record->node_count; i++)
        graph->node_kernels[i] = record->nodes[i].kernel;
    return PH_OK;
}

void ph__graph_drop_kernels(ph_graph *graph)
{
    size_t cursor = 0;
    uint64_t key;
    void *kernel;
    while (ph__map_next(&graph->kernels, &cursor, &key, &kernel))
        ph_kernel_release(kernel);
    ph__map_free(&graph->kernels);
    ph__free(graph->node_kernels);
    graph->node_kernels = NULL;
}
