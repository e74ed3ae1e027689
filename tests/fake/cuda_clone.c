/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_clone.c: copies of graphs in the software libcuda, to which event nodes can be
 * added. The host driver's graphs run in the order of their list, so each is put where its event
 * belongs. */
#include "cuda_inside.h"

static const ph__driver *const host = &ph__driver_host;

FAKE(GraphClone, (ph__cu_graph * out, ph__cu_graph graph), (out, graph))
{
    fake_graph *original = fake_find(FAKE_GRAPH, graph);
    if (!out || !original)
        return PH__R_INVALID_VALUE;
    if (fake_special_in(original->graph))
        return PH__R_NOT_SUPPORTED;
    ph__host_graph *copy = ph__host_graph_clone(ph__host_graph_of(original->graph));
    fake_graph *object = copy ? fake_graph_of((ph__drv_graph *)copy) : NULL;
    int result = object ? fake_copy_notes(object, original) : PH__R_OUT_OF_MEMORY;
    if (result) {
        fake_graph_forget((ph__drv_graph *)copy);
        host->graph_destroy((ph__drv_graph *)copy);
        return result;
    }
    fake_recount(&object->object, false);
    *out = (ph__cu_graph)copy;
    return 0;
}

FAKE(GraphNodeFindInClone, (ph__cu_node * out, ph__cu_node node, ph__cu_graph clone),
     (out, node, clone))
{
    const fake_graph *object = fake_find(FAKE_GRAPH, clone);
    ph__drv_node *twin = object && node ? ph__map_get(&object->twins, (uintptr_t)node) : NULL;
    if (!out || !twin)
        return PH__R_INVALID_VALUE;
    *out = (ph__cu_node)twin;
    return 0;
}

/* Right behind what it depends on; what depends on nothing comes first. */
static int add_event(ph__host_node **out, ph__host_graph *graph, const ph__host_node_set *after,
                     ph__host_event *event)
{
    const ph__host_event_args args = {.event = event};
    const ph__host_work work = {
        .kind = PH_NODE_EVENT_RECORD, .args = &args, .args_size = sizeof args};
    size_t place = after->count ? ph__host_node_of(after->at[0])->index + 1 : 0;
    pthread_mutex_lock(&graph->device->capture_lock);
    *out = ph__host_graph_add(graph, &work, after);
    if (*out)
        fake_move_node(*out, place);
    pthread_mutex_unlock(&graph->device->capture_lock);
    return *out ? 0 : PH__R_OUT_OF_MEMORY;
}

FAKE(GraphAddEventRecordNode,
     (ph__cu_node * out, ph__cu_graph graph, const ph__cu_node *dependencies, size_t count,
      ph__cu_event event),
     (out, graph, dependencies, count, event))
{
    const fake_graph *object = fake_find(FAKE_GRAPH, graph);
    ph__host_node_set after = {0};
    ph__host_node *node;
    if (!out || !object || (count && !dependencies))
        return PH__R_INVALID_VALUE;
    if (!fake_find(FAKE_EVENT, event))
        return PH__R_INVALID_HANDLE;
    if (count > 1)
        return PH__R_NOT_SUPPORTED;
    int result = fake_expect(object->object.context, "cuGraphAddEventRecordNode");
    if (count)
        after = ph__host_set_of(ph__host_node_of((ph__drv_node *)dependencies[0]));
    if (!result)
        result = add_event(&node, ph__host_graph_of(object->graph), &after,
                           (ph__host_event *)event->event);
    if (!result)
        *out = (ph__cu_node)node->self;
    return result;
}
