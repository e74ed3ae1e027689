/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_edit.c: changing graphs of the software libcuda: kernel nodes, edges, nodes
 * that are destroyed. The host driver's graphs run in the order of their list, so a node that
 * something earlier comes to depend on is moved in front of it; a destroyed node stays there and
 * does nothing. */
#include "cuda_inside.h"
#include <string.h>

/* ---- the order ---- */

static ph__drv_node **list_of(ph__host_graph *graph)
{
    return (ph__drv_node **)(uintptr_t)graph->nodes.at;
}

/* As ph__host_graph_add numbers them. */
static void number_nodes(ph__host_graph *graph)
{
    graph->slot_count = 0;
    for (size_t i = 0; i < graph->nodes.count; i++) {
        ph__host_node *node = ph__host_node_of(graph->nodes.at[i]);
        node->index = i;
        node->slot = graph->slot_count + (node->work.body ? 1 + node->work.body->slot_count : 0);
        graph->slot_count = node->slot + 1;
    }
}

void fake_move_node(ph__host_node *node, size_t to)
{
    ph__drv_node **list = list_of(node->graph);
    size_t from = node->index;
    if (from > to)
        memmove(&list[to + 1], &list[to], (from - to) * sizeof *list);
    else
        memmove(&list[from], &list[from + 1], (to - from) * sizeof *list);
    list[to] = (ph__drv_node *)node;
    number_nodes(node->graph);
}

static bool depends_on_later(const ph__host_node *node, size_t index)
{
    for (size_t i = 0; i < node->dependency_count; i++)
        if (ph__host_node_of(node->dependencies[i])->index >= index)
            return true;
    return false;
}

/* ---- edges ---- */

static int add_edge(ph__host_node *from, ph__host_node *to)
{
    ph__host_node_set set = {.at = to->dependencies, .count = to->dependency_count};
    const ph__host_node_set one = ph__host_set_of(from);
    if (from->graph != to->graph || from == to)
        return PH__R_INVALID_VALUE;
    if (from->index > to->index) {
        if (depends_on_later(from, to->index))
            return PH__R_INVALID_VALUE; /* a cycle, as the list stands */
        fake_move_node(from, to->index);
    }
    if (!ph__host_set_unite(to->graph, &set, &one))
        return PH__R_OUT_OF_MEMORY;
    to->dependencies = set.at;
    to->dependency_count = set.count;
    from->has_dependents = true;
    return 0;
}

FAKE(GraphAddDependencies,
     (ph__cu_graph graph, const ph__cu_node *from, const ph__cu_node *to, const ph__cu_edge *edges,
      size_t count),
     (graph, from, to, edges, count))
{
    int result = fake_find(FAKE_GRAPH, graph) && from && to ? 0 : PH__R_INVALID_VALUE;
    for (size_t i = 0; i < count && !result; i++) {
        ph__host_node *a = ph__host_node_of((ph__drv_node *)from[i]);
        ph__host_node *b = ph__host_node_of((ph__drv_node *)to[i]);
        if (edges && (edges[i].type || edges[i].from_port))
            return PH__R_NOT_SUPPORTED;
        pthread_mutex_lock(&b->graph->device->capture_lock);
        result = add_edge(a, b);
        pthread_mutex_unlock(&b->graph->device->capture_lock);
    }
    return result;
}

/* ---- kernel nodes ---- */

static int add_kernel(ph__drv_node **out, ph__drv_graph *graph, const ph__host_node_set *after,
                      const ph__cu_kernel_params *params, const unsigned char *args)
{
    ph__host_graph *template = ph__host_graph_of(graph);
    ph__host_kernel *kernel = (ph__host_kernel *)params->function->kernel;
    ph__host_node_set dependencies = {0};
    ph__host_work work = {.kind = PH_NODE_KERNEL,
                          .kernel = kernel,
                          .shared_bytes = params->shared_bytes,
                          .args = args,
                          .args_size = kernel->args_size};
    memcpy(work.grid, params->grid, sizeof work.grid);
    memcpy(work.block, params->block, sizeof work.block);
    pthread_mutex_lock(&template->device->capture_lock);
    ph__host_node *node = ph__host_set_unite(template, &dependencies, after)
                              ? ph__host_graph_add(template, &work, &dependencies)
                              : NULL;
    pthread_mutex_unlock(&template->device->capture_lock);
    if (!node)
        return PH__R_OUT_OF_MEMORY;
    *out = node->self;
    return 0;
}

FAKE(GraphAddKernelNode,
     (ph__cu_node * out, ph__cu_graph graph, const ph__cu_node *dependencies, size_t count,
      const ph__cu_kernel_params *params),
     (out, graph, dependencies, count, params))
{
    unsigned char args[FAKE_ARGS];
    const ph__host_node_set after = {.at = (ph__drv_node *const *)dependencies, .count = count};
    ph__drv_node *node;
    if (!out || !graph || !params || (count && !dependencies) || params->kernel ||
        !fake_find(FAKE_FUNCTION, params->function))
        return PH__R_INVALID_VALUE;
    int result = fake_expect(params->function->object.context, "cuGraphAddKernelNode");
    if (!result)
        result = fake_args(args, params->function, params->params, params->extra);
    if (!result)
        result = fake_check_shared(params->function, params->shared_bytes);
    if (!result)
        result = add_kernel(&node, (ph__drv_graph *)graph, &after, params, args);
    if (!result)
        result = fake_node_note(node, params->function,
                                &(fake_launch_form){.with_extra = params->extra != NULL});
    if (!result)
        *out = (ph__cu_node)node;
    return result;
}

/* ---- nodes that go ---- */

static void do_nothing(void *user)
{
    (void)user;
}

/* As CUDA has it: not out of a graph whose nodes take memory or give it back. */
FAKE(GraphDestroyNode, (ph__cu_node handle), (handle))
{
    static const ph__drv_host nothing = {do_nothing, NULL};
    ph__host_node *node = ph__host_node_of((ph__drv_node *)handle);
    if (!node || node->work.body)
        return node ? PH__R_NOT_SUPPORTED : PH__R_INVALID_VALUE;
    ph__drv_graph *graph = (ph__drv_graph *)node->graph;
    fake_graph *object = fake_graph_of(graph);
    if (!object || fake_special_in(graph))
        return object ? PH__R_NOT_SUPPORTED : PH__R_OUT_OF_MEMORY;
    if (fake_node_is_removed((ph__drv_node *)node)) {
        fake_misuse("cuGraphDestroyNode: the node was destroyed before");
        return PH__R_INVALID_VALUE;
    }
    if (!fake_node_remove(object, (ph__drv_node *)node))
        return PH__R_OUT_OF_MEMORY;
    if (node->work.kernel)
        ph__host_kernel_release(node->work.kernel);
    node->work =
        (ph__host_work){.kind = PH_NODE_HOST, .args = &nothing, .args_size = sizeof nothing};
    return 0;
}
