/* SPDX-License-Identifier: MIT */
/* graph/object/segments.c: the segments of a graph with breaks, as its user sees them. */
#include "graph/object/segments.h"
#include "base/alloc.h"
#include "base/line.h"
#include "graph/object/deferred_record.h"
#include "graph/object/graph.h"
#include "record/origin.h"
#include <phonograph/inspect/diff.h>

size_t ph_graph_segment_count(const ph_graph *graph)
{
    if (graph == NULL || (graph->state != PH_GRAPH_ENDED && graph->state != PH_GRAPH_READY))
        return 0;
    return graph->segments ? graph->segments->list.count : 1;
}

ph_status ph_graph_segment(ph_graph **out, ph_graph *graph, size_t index)
{
    static const char call[] = "ph_graph_segment";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(ph__graph_check(graph, PH__CALL_SEGMENT));
    size_t count = ph_graph_segment_count(graph);
    if (index >= count)
        return ph_fail(PH_ERROR_NOT_FOUND, "%s: index %zu; the graph has %zu segment%s", call,
                       index, count, count == 1 ? "" : "s");
    *out = graph->segments ? graph->segments->list.at[index].graph : graph;
    return PH_OK;
}

/* ---- the record ---- */
/* A segment that was instantiated after an edit of its template has another record. */
static bool has_their_records(const ph_graph *graph)
{
    for (size_t i = 0; i < graph->segments->list.count; i++)
        if (graph->record->nodes[2 * i].info.body != graph->segments->list.at[i].graph->record)
            return false;
    return true;
}

static ph_status make_record(ph_graph *graph, ph_record_source_node *nodes, char (*names)[48],
                             size_t *order, const char *call)
{
    const ph__segments *segments = graph->segments;
    size_t count = 2 * segments->list.count - 1;
    ph_record *record;
    for (size_t i = 0; i < count; i++) {
        bool is_break = i % 2;
        ph__line_format(names[i], sizeof names[i],
                        is_break ? "break after segment %zu" : "segment %zu", i / 2);
        nodes[i].info.kind = is_break ? PH_NODE_HOST : PH_NODE_GRAPH;
        nodes[i].info.name = names[i];
        nodes[i].info.body = is_break ? NULL : segments->list.at[i / 2].graph->record;
        nodes[i].info.dependency_count = i > 0;
        order[i] = i - (i > 0);
        nodes[i].dependencies = &order[i];
    }
    ph_status status = ph_record_create(&record, nodes, count);
    if (status != PH_OK) {
        ph__error_prefix("%s: the record of a graph with breaks", call);
        return status;
    }
    ph__record_note_origin(record, graph->device, graph->id);
    graph->record = record;
    return PH_OK;
}

ph_status ph__segments_need_record(ph_graph *graph, const char *call)
{
    size_t count = graph->segments->list.count;
    for (size_t i = 0; i < count; i++)
        PH_TRY(ph__graph_need_record(graph->segments->list.at[i].graph, call));
    if (graph->record && has_their_records(graph))
        return PH_OK;
    ph__record_free(graph->record);
    graph->record = NULL;
    ph_record_source_node *nodes = ph__calloc(2 * count, sizeof *nodes);
    char(*names)[48] = ph__calloc(2 * count, sizeof *names);
    size_t *order = ph__calloc(2 * count, sizeof *order);
    ph_status status = nodes && names && order
                           ? make_record(graph, nodes, names, order, call)
                           : ph__fail_host_memory(call, "the record of a graph with breaks");
    ph__free(nodes);
    ph__free(names);
    ph__free(order);
    return status;
}

/* ---- the end ---- */
void ph__segments_drop(ph_graph *graph)
{
    ph__segments *segments = graph->segments;
    graph->segments = NULL;
    if (segments == NULL)
        return;
    for (size_t i = 0; i < segments->list.count; i++) {
        segments->list.at[i].graph->whole = NULL;
        segments->destroy(segments->list.at[i].graph);
    }
    ph__vec_free(&segments->list);
    ph__free(segments);
}
