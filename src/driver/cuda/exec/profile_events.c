/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/profile_events.c: a copy of a graph that reports when each node was done: an
 * event is recorded behind each, and one before the first. A node is taken to begin when the
 * last that it depends on is done. */
#include "driver/cuda/exec/profile_events.h"
#include "driver/cuda/exec/exec.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/nodes/decode.h"

struct ph__cuda_clone {
    ph__drv_exec *exec;
    ph__cu_graph graph;
    ph__cu_exec handle;   /* of the copy */
    ph__cu_exec original; /* the executable's own handle, while the copy is in its place */
    size_t count;
    ph__cu_node *nodes;
    ph__cu_event *events; /* of each node, and the first one behind them; as many as there are */
    size_t event_count;
    uint64_t *done_ns;
};

static void destroy_clone(ph__cuda_clone *copy)
{
    int mode = ph__cuda_relax();
    if (copy->handle)
        (void)ph__cu.GraphExecDestroy(copy->handle);
    if (copy->graph)
        (void)ph__cu.GraphDestroy(copy->graph);
    for (size_t i = 0; i < copy->event_count; i++)
        (void)ph__cu.EventDestroy(copy->events[i]);
    ph__cuda_unrelax(mode);
    ph__free(copy->nodes);
    ph__free(copy->events);
    ph__free(copy->done_ns);
    ph__free(copy);
}

/* A graph that CUDA does not copy: with nodes that take memory, say. Other failures are their
 * own. */
static int report_refusal(int result, const char *call)
{
    if (result != PH__R_INVALID_VALUE && result != PH__R_NOT_SUPPORTED)
        return ph__cuda_report_memory(result);
    ph__driver_set_reason("the driver makes no copy of a graph with such nodes (%s gave %d)", call,
                          result);
    return PH__R_NOT_SUPPORTED;
}

static int make_events(ph__cuda_clone *copy)
{
    int result = PH__R_OK;
    while (result == PH__R_OK && copy->event_count <= copy->count) {
        result = ph__cu.EventCreate(&copy->events[copy->event_count], PH__EVENT_TIMING);
        copy->event_count += result == PH__R_OK;
    }
    return result;
}

/* The nodes that depend on nothing come behind the first event. */
static int put_events(ph__cuda_clone *copy, ph__drv_graph *graph)
{
    ph__cu_node first, behind;
    int result =
        ph__cu.GraphAddEventRecordNode(&first, copy->graph, NULL, 0, copy->events[copy->count]);
    for (size_t i = 0; result == PH__R_OK && i < copy->count; i++) {
        ph__drv_node *node = graph->nodes.at[i];
        result = ph__cu.GraphNodeFindInClone(&copy->nodes[i], node->handle, copy->graph);
        if (result == PH__R_OK)
            result = ph__cu.GraphAddEventRecordNode(&behind, copy->graph, &copy->nodes[i], 1,
                                                    copy->events[i]);
        if (result == PH__R_OK)
            result = ph__cuda_decode(node);
        if (result == PH__R_OK && node->info.dependency_count == 0)
            result = ph__cu.GraphAddDependencies(copy->graph, &first, &copy->nodes[i], NULL, 1);
    }
    return result;
}

/* Nodes that are off in the executable are off in the copy. */
static int switch_off(const ph__cuda_clone *copy, const ph__drv_exec *exec)
{
    int result = PH__R_OK;
    for (size_t i = 0; result == PH__R_OK && i < copy->count; i++) {
        const ph__drv_node *node = exec->graph->nodes.at[i];
        unsigned enabled = 1;
        if (node->info.kind > PH_NODE_MEMSET)
            continue;
        result = ph__cu.GraphNodeGetEnabled(exec->handle, node->handle, &enabled);
        if (result == PH__R_OK && !enabled)
            result = ph__cu.GraphNodeSetEnabled(copy->handle, copy->nodes[i], 0);
    }
    return result;
}

/* As any executable, before it is changed. */
static int upload_timed(ph__cu_exec handle, const ph__drv_device *device)
{
    int result = ph__cu.GraphUpload(handle, device->upload);
    return result == PH__R_OK ? ph__cu.StreamSynchronize(device->upload) : result;
}

static int clone_with_events(ph__cuda_clone *copy, const ph__drv_exec *exec)
{
    ph__cu_instantiate_params params = {.flags = PH__INSTANTIATE_AUTO_FREE_ON_LAUNCH |
                                                 PH__INSTANTIATE_USE_NODE_PRIORITY};
    int result = ph__cu.GraphClone(&copy->graph, exec->graph->handle);
    if (result != PH__R_OK)
        return report_refusal(result, "cuGraphClone");
    result = make_events(copy);
    if (result == PH__R_OK)
        result = put_events(copy, exec->graph);
    if (result == PH__R_OK) {
        result = ph__cu.GraphInstantiateWithParams(&copy->handle, copy->graph, &params);
        if (result != PH__R_OK)
            return report_refusal(result, "cuGraphInstantiate");
        result = upload_timed(copy->handle, exec->device);
        if (result != PH__R_OK)
            return report_refusal(result, "cuGraphUpload");
    }
    return result == PH__R_OK ? switch_off(copy, exec) : result;
}

int ph__cuda_clone_open(ph__cuda_clone **out, ph__drv_exec *exec)
{
    ph__drv_node *const *nodes;
    size_t count;
    int result = ph__cuda_graph_nodes(&nodes, &count, exec->graph);
    if (result == PH__R_OK) /* while the handle is its own */
        result = ph__cuda_exec_upload_first(exec);
    if (result != PH__R_OK)
        return result;
    ph__cuda_clone *copy = ph__calloc(1, sizeof *copy);
    if (!copy)
        return PH__R_OUT_OF_MEMORY;
    *copy = (ph__cuda_clone){.exec = exec, .count = count};
    copy->nodes = ph__calloc(count + 1, sizeof *copy->nodes);
    copy->events = ph__calloc(count + 1, sizeof *copy->events);
    copy->done_ns = ph__calloc(count + 1, sizeof *copy->done_ns);
    if (!copy->nodes || !copy->events || !copy->done_ns) {
        destroy_clone(copy);
        return PH__R_OUT_OF_MEMORY;
    }
    ph__cuda_scope scope;
    result = ph__cuda_enter(&scope, exec->device);
    if (result == PH__R_OK) {
        result = clone_with_events(copy, exec);
        ph__cuda_leave(&scope);
    }
    if (result != PH__R_OK) {
        destroy_clone(copy);
        return result;
    }
    copy->original = exec->handle;
    exec->handle = copy->handle;
    exec->copies = copy->nodes;
    *out = copy;
    return PH__R_OK;
}

/* Nodes stand behind what they depend on only where they were captured so: the times of all are
 * read first. */
static int read_events(ph__cuda_clone *copy)
{
    int result = PH__R_OK;
    for (size_t i = 0; result == PH__R_OK && i < copy->count; i++) {
        float milliseconds = 0;
        result = ph__cu.EventElapsedTime(&milliseconds, copy->events[copy->count], copy->events[i]);
        double ns = (double)milliseconds * 1e6;
        copy->done_ns[i] = ns > 0 ? (uint64_t)(ns + 0.5) : 0;
    }
    return result;
}

int ph__cuda_clone_read(ph__cuda_clone *copy, ph__cuda_spans *spans)
{
    ph__cuda_scope scope;
    if (!ph__vec_reserve(spans, copy->count))
        return PH__R_OUT_OF_MEMORY;
    int result = ph__cuda_enter(&scope, copy->exec->device);
    if (result != PH__R_OK)
        return result;
    result = read_events(copy);
    ph__cuda_leave(&scope);
    for (size_t i = 0; result == PH__R_OK && i < copy->count; i++) {
        ph__drv_node *node = copy->exec->graph->nodes.at[i];
        uint64_t start = 0, end = copy->done_ns[i];
        for (size_t d = 0; d < node->info.dependency_count; d++) {
            uint64_t done = copy->done_ns[node->info.dependencies[d]->index];
            start = done > start ? done : start;
        }
        /* Counted from 1, so that no time is 0. */
        spans->at[spans->count++] =
            (ph__drv_span){node, 1 + start, 1 + (end > start ? end : start)};
    }
    return result;
}

void ph__cuda_clone_close(ph__cuda_clone *copy)
{
    if (!copy)
        return;
    copy->exec->handle = copy->original;
    copy->exec->copies = NULL;
    destroy_clone(copy);
}
