/* SPDX-License-Identifier: MIT */
/* graph/object/annotations.c: the list of all annotated nodes of the process's graphs. */
#include "graph/object/annotations.h"
#include "base/fork.h"
#include "base/log.h"
#include "graph/object/deferred_record.h"
#include "graph/object/graph.h"
#include <string.h>

static struct {
    pthread_mutex_t lock;
    ph_graph *first, **end; /* in the order in which their captures ended */
} all = {.lock = PTHREAD_MUTEX_INITIALIZER, .end = &all.first};

static void unlist_graph(ph_graph *graph)
{
    if (graph->annotated_at == NULL)
        return;
    *graph->annotated_at = graph->next_annotated;
    if (graph->next_annotated)
        graph->next_annotated->annotated_at = graph->annotated_at;
    else
        all.end = graph->annotated_at;
    graph->next_annotated = NULL;
    graph->annotated_at = NULL;
}

/* The parent's graphs are not for the child to ask about. */
static void unlist_all(void)
{
    while (all.first)
        unlist_graph(all.first);
}
PH__FORK_PART(.order = PH__FORK_ANNOTATED, .lock = &all.lock, .child = unlist_all)

void ph__graph_list_annotations(ph_graph *graph)
{
    if (graph->marks == NULL)
        return;
    pthread_mutex_lock(&all.lock);
    unlist_graph(graph);
    graph->annotated_at = all.end;
    *all.end = graph;
    all.end = &graph->next_annotated;
    pthread_mutex_unlock(&all.lock);
}

void ph__graph_unlist_annotations(ph_graph *graph)
{
    pthread_mutex_lock(&all.lock);
    unlist_graph(graph);
    pthread_mutex_unlock(&all.lock);
}

/* Whoever lists the annotations of all graphs makes their records, on any thread. */
ph_status ph__graph_need_annotated(ph_graph *graph, const char *call)
{
    ph__log_held held;
    ph__log_hold(&held);
    pthread_mutex_lock(&all.lock);
    ph_status status = ph__deferred_record_give(graph, call);
    pthread_mutex_unlock(&all.lock);
    ph__log_report(&held);
    return status;
}

void ph_clear_kernel_annotations(void)
{
    pthread_mutex_lock(&all.lock);
    ph__annotations_forget();
    unlist_all();
    pthread_mutex_unlock(&all.lock);
}

/* Asking a driver that cannot tell costs much each time: once in vain, and a graph's other nodes
 * are not asked for. */
typedef struct answers {
    bool noted, vain;
} answers;

static uint64_t tools_id(answers *so_far, const ph_graph *graph, const ph__record_node *node)
{
    uint64_t id = 0;
    if (graph->exec && !so_far->vain)
        graph->device->driver->exec_tools_id(&id, graph->exec, node->handle);
    so_far->noted = so_far->noted || id != 0;
    so_far->vain = !so_far->noted;
    return id;
}

static void put_annotation(ph_kernel_annotation *out, ph_graph *graph, size_t node, answers *so_far)
{
    const ph__annotation *annotation = graph->record->nodes[node].annotation;
    *out = (ph_kernel_annotation){.graph = graph,
                                  .exec_id = graph->exec ? graph->exec_id : 0,
                                  .node = node,
                                  .tools_id = tools_id(so_far, graph, &graph->record->nodes[node]),
                                  .pairs = annotation->pairs,
                                  .count = annotation->count};
}

static void put_annotations(ph_kernel_annotation *out, size_t capacity, size_t *found,
                            ph_graph *graph)
{
    answers so_far = {false, false};
    for (size_t i = 0; graph->record && i < graph->record->node_count; i++) {
        if (graph->record->nodes[i].annotation == NULL)
            continue;
        if (*found < capacity)
            put_annotation(&out[*found], graph, i, &so_far);
        ++*found;
    }
}

ph_status ph_get_kernel_annotations(ph_kernel_annotation *out, size_t capacity, size_t *count)
{
    static const char call[] = "ph_get_kernel_annotations";
    if (count == NULL)
        return ph__fail_null(call, "count");
    *count = 0;
    if (out == NULL && capacity)
        return ph__fail_null(call, "out");
    ph_status status = PH_OK;
    size_t found = 0;
    ph__log_held held;
    ph__log_hold(&held);
    pthread_mutex_lock(&all.lock);
    for (ph_graph *graph = all.first; graph && status == PH_OK; graph = graph->next_annotated) {
        status = ph__deferred_record_give(graph, call);
        if (status == PH_OK)
            put_annotations(out, capacity, &found, graph);
    }
    pthread_mutex_unlock(&all.lock);
    ph__log_report(&held);
    if (status == PH_OK)
        *count = found;
    return status;
}
