/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_graph.c: graphs of the software libcuda, and reading them. Their handles and
 * those of their nodes are the host driver's; what CUDA knows of a node beyond that stands
 * beside the graph. */
#include "cuda_inside.h"
#include <string.h>

static const ph__driver *const host = &ph__driver_host;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the nodes and bodies of all graphs */

static ph__drv_node *node_of(ph__cu_node node)
{
    return (ph__drv_node *)node;
}

static ph__drv_graph *graph_of_node(ph__drv_node *node)
{
    return (ph__drv_graph *)ph__host_node_of(node)->graph;
}

/* ---- the objects beside graphs ---- */
static ph__cu_context context_of(ph__host_device *device)
{
    for (int i = 0; i < FAKE_GPUS; i++) {
        ph__cu_context context = fake_context_of(i);
        if (context && fake_host(context) == device)
            return context;
    }
    return fake_other_context(device);
}

fake_graph *fake_graph_of(ph__drv_graph *graph)
{
    if (!graph)
        return NULL;
    pthread_mutex_lock(&lock);
    fake_graph *object = fake_find(FAKE_GRAPH, graph);
    if (!object) {
        object = ph__calloc(1, sizeof *object);
        if (object) {
            object->graph = graph;
            object->object.uncounted = true;
        }
        if (object && !fake_add(&object->object, FAKE_GRAPH,
                                context_of(ph__host_graph_of(graph)->device), graph)) {
            ph__free(object);
            object = NULL;
        }
    }
    pthread_mutex_unlock(&lock);
    return object;
}

static void free_object(fake_graph *object)
{
    size_t cursor = 0;
    uint64_t key;
    void *node;
    while (ph__map_next(&object->nodes, &cursor, &key, &node))
        ph__free(node);
    ph__map_free(&object->nodes);
    ph__map_free(&object->removed);
    ph__map_free(&object->twins);
    for (size_t i = 0; i < object->bodies.count; i++) {
        (void)fake_remove(FAKE_GRAPH, object->bodies.at[i]->graph);
        free_object(object->bodies.at[i]);
    }
    ph__vec_free(&object->bodies);
    fake_special_forget(object->graph);
    ph__free(object);
}

void fake_graph_forget(ph__drv_graph *graph)
{
    fake_graph *object = graph ? fake_remove(FAKE_GRAPH, graph) : NULL;
    if (object)
        free_object(object);
}

void fake_graph_end(fake_graph *object)
{
    ph__drv_graph *graph = object->graph;
    free_object(object);
    host->graph_destroy(graph);
}

FAKE(GraphDestroy, (ph__cu_graph graph), (graph))
{
    fake_graph *object = fake_find(FAKE_GRAPH, graph);
    if (!object || object->object.uncounted)
        return PH__R_INVALID_VALUE; /* also bodies, and graphs under capture */
    (void)fake_remove(FAKE_GRAPH, graph);
    fake_graph_end(object);
    return 0;
}

/* ---- what a kernel's node was launched with ---- */
static int note(fake_graph *object, ph__drv_node *node, ph__cu_function function,
                const fake_launch_form *form)
{
    const ph__host_node *inner = ph__host_node_of(node);
    const fake_entry *entry = &function->entry;
    fake_node *fresh = ph__calloc(1, sizeof *fresh + entry->count * sizeof fresh->params[0]);
    unsigned char *args = (unsigned char *)(uintptr_t)inner->work.args;
    if (!fresh)
        return PH__R_OUT_OF_MEMORY;
    fresh->form = *form;
    fresh->size = entry->end;
    fresh->extra[0] = PH__CU_LAUNCH_PARAM_BUFFER_SIZE;
    fresh->extra[1] = &fresh->size;
    fresh->extra[2] = PH__CU_LAUNCH_PARAM_BUFFER_POINTER;
    fresh->extra[3] = args;
    fresh->extra[4] = PH__CU_LAUNCH_PARAM_END;
    for (size_t i = 0; i < entry->count; i++)
        fresh->params[i] = args + entry->params[i].offset;
    pthread_mutex_lock(&lock);
    bool put = ph__map_put(&object->nodes, (uintptr_t)node, fresh);
    pthread_mutex_unlock(&lock);
    if (!put)
        ph__free(fresh);
    return put ? 0 : PH__R_OUT_OF_MEMORY;
}

int fake_node_note(ph__drv_node *node, ph__cu_function function, const fake_launch_form *form)
{
    fake_graph *object = fake_graph_of(graph_of_node(node));
    return object ? note(object, node, function, form) : PH__R_OUT_OF_MEMORY;
}

static const fake_node *noted(ph__drv_node *node)
{
    fake_graph *object = fake_graph_of(graph_of_node(node));
    if (!object)
        return NULL;
    pthread_mutex_lock(&lock);
    const fake_node *found = ph__map_get(&object->nodes, (uintptr_t)node);
    pthread_mutex_unlock(&lock);
    return found;
}

bool fake_node_is_removed(ph__drv_node *node)
{
    fake_graph *object = fake_find(FAKE_GRAPH, graph_of_node(node));
    pthread_mutex_lock(&lock);
    bool removed = object && ph__map_get(&object->removed, (uintptr_t)node) != NULL;
    pthread_mutex_unlock(&lock);
    return removed;
}

bool fake_node_is_programmatic(ph__drv_node *node, ph__drv_node *dependency)
{
    const fake_node *known = noted(node);
    return known && known->form.programmatic &&
           ph__host_node_of(dependency)->work.kind == PH_NODE_KERNEL;
}

bool fake_node_remove(fake_graph *object, ph__drv_node *node)
{
    pthread_mutex_lock(&lock);
    bool put = ph__map_put(&object->removed, (uintptr_t)node, node);
    pthread_mutex_unlock(&lock);
    return put;
}

/* The nodes of a copy are those of its original, in order. */
static int copy_notes(fake_graph *object, ph__drv_graph *from)
{
    const ph__host_graph *copy = ph__host_graph_of(object->graph),
                         *original = ph__host_graph_of(from);
    int result = 0;
    for (size_t i = 0; i < copy->nodes.count && !result; i++) {
        const ph__host_node *node = ph__host_node_of(copy->nodes.at[i]);
        const ph__host_node *other = ph__host_node_of(original->nodes.at[i]);
        const fake_node *known = noted(original->nodes.at[i]);
        ph__cu_function function = fake_function_of((ph__drv_kernel *)node->work.kernel);
        if (known && function)
            result = note(object, copy->nodes.at[i], function, &known->form);
        if (!result && fake_node_is_removed(original->nodes.at[i]) &&
            !fake_node_remove(object, copy->nodes.at[i]))
            result = PH__R_OUT_OF_MEMORY;
        if (!result && node->work.body)
            result = fake_body_note(object, (ph__drv_graph *)node->work.body,
                                    (ph__drv_graph *)other->work.body);
    }
    return result;
}

int fake_body_note(fake_graph *parent, ph__drv_graph *to, ph__drv_graph *from)
{
    fake_graph *object = fake_graph_of(to);
    int result = object && ph__vec_push(&parent->bodies, object) ? 0 : PH__R_OUT_OF_MEMORY;
    return result ? result : copy_notes(object, from);
}

int fake_copy_notes(fake_graph *copy, fake_graph *original)
{
    const ph__host_graph *to = ph__host_graph_of(copy->graph),
                         *from = ph__host_graph_of(original->graph);
    for (size_t i = 0; i < to->nodes.count; i++)
        if (!ph__map_put(&copy->twins, (uintptr_t)from->nodes.at[i], to->nodes.at[i]))
            return PH__R_OUT_OF_MEMORY;
    return copy_notes(copy, original->graph);
}

/* ---- reading ---- */
/* Those that were not destroyed, as many as there is room for; the rest of the room is NULL. */
static size_t give_nodes(ph__cu_node *out, ph__drv_node *const *nodes, size_t room, size_t count)
{
    size_t given = 0;
    for (size_t i = 0; i < count; i++) {
        if (fake_node_is_removed(nodes[i]))
            continue;
        if (out && given < room)
            out[given] = (ph__cu_node)nodes[i];
        given++;
    }
    for (size_t i = given; out && i < room; i++)
        out[i] = NULL;
    return given;
}

FAKE(GraphGetNodes, (ph__cu_graph graph, ph__cu_node *nodes, size_t *count), (graph, nodes, count))
{
    ph__drv_node *const *all;
    size_t available;
    if (!count || !graph)
        return PH__R_INVALID_VALUE;
    int result = host->graph_nodes(&all, &available, (ph__drv_graph *)graph);
    if (result)
        return result;
    available = give_nodes(nodes, all, nodes ? *count : 0, available);
    if (!nodes || *count > available)
        *count = available;
    return 0;
}

FAKE(GraphNodeGetType, (ph__cu_node node, int *type), (node, type))
{
    ph__drv_node_info info;
    int result = node && type ? host->node_info(&info, node_of(node)) : PH__R_INVALID_VALUE;
    const fake_special *special = result ? NULL : fake_special_of(node_of(node));
    if (!result)
        *type = (int)(special ? special->kind : info.kind);
    return result;
}

static void give_edge(ph__cu_edge *out, ph__drv_node *node, ph__drv_node *dependency)
{
    *out = fake_node_is_programmatic(node, dependency)
               ? (ph__cu_edge){.from_port = 1, .type = PH__CU_DEPENDENCY_TYPE_PROGRAMMATIC}
               : (ph__cu_edge){0};
}

FAKE(GraphNodeGetDependencies,
     (ph__cu_node node, ph__cu_node *dependencies, ph__cu_edge *edges, size_t *count),
     (node, dependencies, edges, count))
{
    ph__drv_node_info info;
    size_t given = 0;
    int result = node && count ? host->node_info(&info, node_of(node)) : PH__R_INVALID_VALUE;
    if (result)
        return result;
    for (size_t i = 0; i < info.dependency_count; i++) {
        if (fake_node_is_removed(info.dependencies[i]))
            continue;
        if (!edges && fake_node_is_programmatic(node_of(node), info.dependencies[i]))
            return FAKE_LOSSY_QUERY;
        if (edges && dependencies && given < *count)
            give_edge(&edges[given], node_of(node), info.dependencies[i]);
        given++;
    }
    if (dependencies)
        (void)give_nodes(dependencies, info.dependencies, *count, info.dependency_count);
    if (!dependencies || *count > given)
        *count = given;
    return 0;
}

/* Every edge of a graph. */
typedef int edge_visit(void *user, ph__drv_node *from, ph__drv_node *to);
static int visit_edges(ph__cu_graph graph, edge_visit *visit, void *user)
{
    ph__drv_node *const *nodes;
    size_t count;
    int result = host->graph_nodes(&nodes, &count, (ph__drv_graph *)graph);
    for (size_t n = 0; !result && n < count; n++) {
        ph__drv_node_info info;
        result = host->node_info(&info, nodes[n]);
        for (size_t i = 0; !result && i < info.dependency_count && !fake_node_is_removed(nodes[n]);
             i++)
            if (!fake_node_is_removed(info.dependencies[i]))
                result = visit(user, info.dependencies[i], nodes[n]);
    }
    return result;
}

typedef struct edge_list {
    ph__cu_node *from, *to;
    ph__cu_edge *edges;
    size_t room, used;
} edge_list;

static int list_edge(void *user, ph__drv_node *from, ph__drv_node *to)
{
    edge_list *list = user;
    size_t at = list->used++;
    if (!list->edges && fake_node_is_programmatic(to, from))
        return FAKE_LOSSY_QUERY;
    if (!list->from || !list->to || at >= list->room)
        return 0;
    list->from[at] = (ph__cu_node)from;
    list->to[at] = (ph__cu_node)to;
    if (list->edges)
        give_edge(&list->edges[at], to, from);
    return 0;
}

typedef struct dependent_list {
    ph__drv_node *of;
    edge_list list;
} dependent_list;

static int list_dependent(void *user, ph__drv_node *from, ph__drv_node *to)
{
    dependent_list *dependents = user;
    return from == dependents->of ? list_edge(&dependents->list, from, to) : 0;
}

FAKE(GraphNodeGetDependentNodes,
     (ph__cu_node node, ph__cu_node *dependents, ph__cu_edge *edges, size_t *count),
     (node, dependents, edges, count))
{
    if (!node || !count)
        return PH__R_INVALID_VALUE;
    ph__cu_node *froms = ph__calloc(*count + 1, sizeof *froms); /* nobody asks for them */
    if (!froms)
        return PH__R_OUT_OF_MEMORY;
    dependent_list found = {node_of(node), {froms, dependents, edges, *count, 0}};
    int result = visit_edges((ph__cu_graph)graph_of_node(node_of(node)), list_dependent, &found);
    ph__free(froms);
    if (!result && (!dependents || *count > found.list.used))
        *count = found.list.used;
    return result;
}

/* A node of that kind: 0 or 1. */
static int info_of(ph__drv_node_info *out, ph__cu_node node, ph_node_kind kind, const void *params)
{
    int result = node && params ? host->node_info(out, node_of(node)) : PH__R_INVALID_VALUE;
    return result || out->kind == kind ? result : PH__R_INVALID_VALUE;
}

FAKE(GraphKernelNodeGetParams, (ph__cu_node node, ph__cu_kernel_params *params), (node, params))
{
    ph__drv_node_info info;
    int result = info_of(&info, node, PH_NODE_KERNEL, params);
    if (result)
        return result;
    const fake_node *known = noted(node_of(node));
    ph__cu_function function = fake_function_of(info.kernel);
    if (!known || !function)
        return PH__R_INVALID_VALUE;
    if (function->unloaded)
        fake_misuse("cuGraphKernelNodeGetParams: the module of %s was unloaded",
                    function->entry.name);
    *params = (ph__cu_kernel_params){.function = function,
                                     .shared_bytes = (unsigned)info.launch.shared_bytes,
                                     .context = function->object.context};
    memcpy(params->grid, info.launch.grid, sizeof params->grid);
    memcpy(params->block, info.launch.block, sizeof params->block);
    fake_node *arguments = (fake_node *)(uintptr_t)known;
    if (known->form.with_extra)
        params->extra = arguments->extra;
    else
        params->params = arguments->params;
    return 0;
}

/* Of all attributes a node has a cluster's size and a domain; the others are as a driver has them
 * where nobody asked for any. */
FAKE(GraphKernelNodeGetAttribute, (ph__cu_node node, int attribute, ph__cu_launch_value *value),
     (node, attribute, value))
{
    ph__drv_node_info info;
    int result = info_of(&info, node, PH_NODE_KERNEL, value);
    const fake_node *known = result ? NULL : noted(node_of(node));
    if (result || !known)
        return PH__R_INVALID_VALUE;
    memset(value, 0, sizeof *value);
    if (attribute == PH__CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
        memcpy(value->bytes, known->form.cluster, sizeof known->form.cluster);
    else if (attribute == PH__CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN)
        memcpy(value->bytes, &known->form.sync_domain, sizeof known->form.sync_domain);
    return 0;
}

FAKE(GraphMemcpyNodeGetParams, (ph__cu_node node, ph__cu_copy_params *params), (node, params))
{
    ph__drv_node_info info;
    int result = info_of(&info, node, PH_NODE_MEMCPY, params);
    if (result)
        return result;
    *params = (ph__cu_copy_params){.src_type = PH__CU_MEMORY_UNIFIED,
                                   .src_device = (uintptr_t)info.copy.src,
                                   .dst_type = PH__CU_MEMORY_UNIFIED,
                                   .dst_device = (uintptr_t)info.copy.dst,
                                   .width_bytes = info.copy.bytes,
                                   .height = 1,
                                   .depth = 1};
    return 0;
}

FAKE(GraphMemsetNodeGetParams, (ph__cu_node node, ph__cu_fill_params *params), (node, params))
{
    ph__drv_node_info info;
    const fake_special *rows = node ? fake_special_of(node_of(node)) : NULL;
    if (rows && rows->kind == PH_NODE_MEMSET && params) {
        *params = rows->fill;
        return 0;
    }
    int result = info_of(&info, node, PH_NODE_MEMSET, params);
    if (!result)
        *params = (ph__cu_fill_params){.dst = (uintptr_t)info.fill.dst,
                                       .value = info.fill.value,
                                       .element_bytes = info.fill.value_size,
                                       .width = info.fill.count,
                                       .height = 1};
    return result;
}

FAKE(GraphHostNodeGetParams, (ph__cu_node node, ph__cu_host_params *params), (node, params))
{
    ph__drv_node_info info;
    int result = info_of(&info, node, PH_NODE_HOST, params);
    if (!result)
        *params = (ph__cu_host_params){.fn = info.host.fn, .user = info.host.user};
    return result;
}

FAKE(GraphChildGraphNodeGetGraph, (ph__cu_node node, ph__cu_graph *graph), (node, graph))
{
    ph__drv_node_info info;
    int result = info_of(&info, node, PH_NODE_GRAPH, graph);
    if (!result)
        *graph = (ph__cu_graph)info.body;
    return result;
}

/* ---- nodes that take and give memory back ---- */
static const fake_special *memory_node(ph__cu_node node, ph_node_kind kind, const void *out)
{
    const fake_special *special = node && out ? fake_special_of(node_of(node)) : NULL;
    return special && special->kind == kind ? special : NULL;
}

FAKE(GraphMemAllocNodeGetParams, (ph__cu_node node, ph__cu_alloc_params *params), (node, params))
{
    const fake_special *special = memory_node(node, PH_NODE_MEM_ALLOC, params);
    if (special)
        *params =
            (ph__cu_alloc_params){.address = (uintptr_t)special->memory, .bytes = special->bytes};
    return special ? 0 : PH__R_INVALID_VALUE;
}

FAKE(GraphBatchMemOpNodeGetParams, (ph__cu_node node, ph__cu_mem_ops *params), (node, params))
{
    const fake_special *special = memory_node(node, PH_NODE_BATCH_MEM_OP, params);
    if (special)
        *params = (ph__cu_mem_ops){
            .context = special->context, .count = special->op_count, .ops = special->ops};
    return special ? 0 : PH__R_INVALID_VALUE;
}

FAKE(GraphMemFreeNodeGetParams, (ph__cu_node node, ph__cu_pointer *address), (node, address))
{
    const fake_special *special = memory_node(node, PH_NODE_MEM_FREE, address);
    if (special)
        *address = (uintptr_t)special->memory;
    return special ? 0 : PH__R_INVALID_VALUE;
}
