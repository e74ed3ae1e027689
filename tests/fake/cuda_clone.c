/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_clone.c: copies of graphs in the software libcuda, to which event nodes can be added. The host driver's graphs run in order of
 * creation, so that a copy has a place for an event from the start: before all nodes, and behind each. */
#include "cuda_inside.h"

static const ph__driver *const host = &ph__driver_host;

/* Of the copy, by index of the original's node. */
static size_t place_of(size_t index)
{
    return 1 + 2 * index;
}

static bool add_place(ph__host_graph *copy, ph__host_event *event, ph__host_node *behind)
{
    const ph__host_event_args args = {.event = event};
    const ph__host_work work = {.kind = PH_NODE_EVENT_RECORD, .args = &args, .args_size = sizeof args};
    const ph__host_node_set none = {0}, one = behind ? ph__host_set_of(behind) : none;
    return ph__host_graph_add(copy, &work, &one) != NULL;
}

/* What depends on nothing comes behind the first place. */
static bool add_node(ph__host_graph *copy, const ph__host_node *node)
{
    ph__host_node_set dependencies = ph__host_set_of(ph__host_node_of(copy->nodes.at[0]));
    ph__host_work work = node->work;
    bool ok = true;
    pthread_mutex_lock(&copy->device->capture_lock);
    for (size_t i = 0; ok && i < node->dependency_count; i++) {
        size_t place = place_of(ph__host_node_of(node->dependencies[i])->index);
        ph__host_node_set one = ph__host_set_of(ph__host_node_of(copy->nodes.at[place]));
        if (i == 0)
            dependencies = one;
        else
            ok = ph__host_set_unite(copy, &dependencies, &one);
    }
    pthread_mutex_unlock(&copy->device->capture_lock);
    if (ok && work.body)
        ok = (work.body = ph__host_graph_clone(work.body)) != NULL;
    if (ok && ph__host_graph_add(copy, &work, &dependencies))
        return true;
    if (work.body != node->work.body)
        host->graph_destroy((ph__drv_graph *)work.body);
    return false;
}

static ph__host_graph *copy_graph(const ph__host_graph *graph, ph__host_event *nothing)
{
    ph__host_graph *copy = ph__host_graph_create(graph->device);
    bool ok = copy && add_place(copy, nothing, NULL);
    for (size_t i = 0; ok && i < graph->nodes.count; i++)
        ok = add_node(copy, ph__host_node_of(graph->nodes.at[i])) &&
             add_place(copy, nothing, ph__host_node_of(copy->nodes.at[place_of(i)]));
    if (ok)
        return copy;
    host->graph_destroy((ph__drv_graph *)copy);
    return NULL;
}

FAKE(GraphClone, (ph__cu_graph * out, ph__cu_graph graph), (out, graph))
{
    ph__drv_event *nothing;
    fake_graph *original = fake_find(FAKE_GRAPH, graph);
    if (!out || !original)
        return PH__R_INVALID_VALUE;
    if (fake_special_in(original->graph))
        return PH__R_NOT_SUPPORTED;
    ph__host_graph *from = ph__host_graph_of(original->graph);
    int result = host->event_create(&nothing, (ph__drv_device *)from->device, PH__EVENT_TIMING);
    if (result)
        return result;
    ph__host_graph *copy = copy_graph(from, (ph__host_event *)nothing);
    host->event_destroy(nothing); /* the places keep it */
    fake_graph *object = copy ? fake_graph_of((ph__drv_graph *)copy) : NULL;
    if (!object) {
        host->graph_destroy((ph__drv_graph *)copy);
        return PH__R_OUT_OF_MEMORY;
    }
    fake_recount(&object->object, false);
    object->clone_of = original->graph;
    *out = (ph__cu_graph)copy;
    return 0;
}

FAKE(GraphNodeFindInClone, (ph__cu_node * out, ph__cu_node node, ph__cu_graph clone), (out, node, clone))
{
    const fake_graph *object = fake_find(FAKE_GRAPH, clone);
    const ph__host_node *inner = ph__host_node_of((ph__drv_node *)node);
    if (!out || !object || !inner || object->clone_of != (ph__drv_graph *)inner->graph)
        return PH__R_INVALID_VALUE;
    *out = (ph__cu_node)ph__host_graph_of(object->graph)->nodes.at[place_of(inner->index)];
    return 0;
}

FAKE(GraphAddEventRecordNode,
     (ph__cu_node * out, ph__cu_graph graph, const ph__cu_node *dependencies, size_t count,
      ph__cu_event event),
     (out, graph, dependencies, count, event))
{
    const fake_graph *object = fake_find(FAKE_GRAPH, graph);
    if (!out || !object || (count && !dependencies))
        return PH__R_INVALID_VALUE;
    if (!fake_find(FAKE_EVENT, event))
        return PH__R_INVALID_HANDLE;
    if (!object->clone_of || count > 1)
        return PH__R_NOT_SUPPORTED;
    int result = fake_expect(object->object.context, "cuGraphAddEventRecordNode");
    if (result)
        return result;
    const ph__host_graph *copy = ph__host_graph_of(object->graph);
    size_t place = count ? ph__host_node_of((ph__drv_node *)dependencies[0])->index + 1 : 0;
    const ph__host_node *node = ph__host_node_of(copy->nodes.at[place]);
    ph__host_event_args *args = (ph__host_event_args *)(uintptr_t)node->work.args;
    ph__host_event *before = args->event;
    args->event = (ph__host_event *)event->event;
    ph__host_event_retain(args->event);
    ph__host_event_release(before);
    *out = (ph__cu_node)node->self;
    return 0;
}

/* Only those that there are from the start. */
FAKE(GraphAddDependencies,
     (ph__cu_graph graph, const ph__cu_node *from, const ph__cu_node *to, const ph__cu_edge *edges,
      size_t count),
     (graph, from, to, edges, count))
{
    const fake_graph *object = fake_find(FAKE_GRAPH, graph);
    if (!object || !from || !to)
        return PH__R_INVALID_VALUE;
    for (size_t i = 0; i < count; i++) {
        const ph__host_node *node = ph__host_node_of((ph__drv_node *)to[i]);
        if (edges || node->dependency_count != 1 || node->dependencies[0] != (ph__drv_node *)from[i])
            return PH__R_NOT_SUPPORTED;
    }
    return 0;
}
