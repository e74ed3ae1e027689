/* SPDX-License-Identifier: MIT */
/* graph/memory/cells_replay.c: the values that a graph's cells have in a replay, and the
 * order of their memory. */
#include "graph/memory/cells_replay.h"
#include "device/capture/submit.h"
#include "graph/memory/cells.h"
#include "graph/object/graph.h"

/* ---- memory ---- The allocator orders what it gives behind its earlier uses on the stream that
 * it is given to, here the default one. Replays on others come behind that by an event. */
static ph_status fail_event(int result, const char *driver_call, const char *call)
{
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the order of the graph's cells");
    return ph__driver_fail(result, driver_call,
                           "%s: ordering the graph's cells behind the default stream", call);
}

static ph_status mark_given(ph_graph *graph, const char *call)
{
    const ph__driver *driver = graph->device->driver;
    ph_stream *stream = &graph->device->default_stream;
    ph__drv_event *event = NULL;
    if (graph->cells->given)
        return PH_OK;
    int result = driver->event_create(&event, graph->device->handle, PH__EVENT_DISABLE_TIMING);
    if (result != PH__R_OK)
        return fail_event(result, PH__NAME_EVENT_CREATE, call);
    ph_status status = ph__legacy_enter(stream, PH__RULE_EVENT_RECORD_LEGACY_BLOCKING);
    if (status == PH_OK) {
        result = driver->event_record(event, stream->handle, PH__EVENT_RECORD_DEFAULT);
        ph__legacy_leave(stream);
        if (result != PH__R_OK)
            status = fail_event(result, PH__NAME_EVENT_RECORD, call);
    } else
        ph__error_prefix("%s: ordering the graph's cells behind the default stream", call);
    if (status == PH_OK)
        graph->cells->given = event;
    else
        driver->event_destroy(event);
    return status;
}

/* Beside a capture with blocking streams nothing can be recorded on the default stream: then the
 * first replay does it. */
void ph__cells_captured(ph_graph *graph, const char *call)
{
    ph_error saved;
    if (graph->cells && graph->cells->count == 0)
        ph__cells_drop(graph); /* all that was asked for failed */
    if (graph->cells == NULL)
        return;
    ph__error_save(&saved);
    if (mark_given(graph, call) != PH_OK)
        ph__error_restore(&saved);
    for (size_t i = 0; i < graph->cells->sources.count; i++) {
        const ph_cells_source *source = &graph->cells->sources.at[i];
        if (source->captured)
            source->captured(source->user);
    }
}

ph_status ph__cells_note_stream(ph_graph *graph, ph_stream *stream, const char *call)
{
    const ph__cells *cells = graph->cells;
    if (cells == NULL || stream->is_default)
        return PH_OK;
    PH_TRY(mark_given(graph, call));
    int result = graph->device->driver->stream_wait_event(stream->handle, cells->given,
                                                          PH__EVENT_RECORD_DEFAULT);
    if (result != PH__R_OK)
        return fail_event(result, PH__NAME_STREAM_WAIT_EVENT, call);
    for (size_t i = 0; i < cells->count; i++)
        PH_TRY(ph_record_stream(ph__cells_at(cells, i)->at, stream));
    return PH_OK;
}

/* ---- values ---- under the device's cells_lock ---- */
static void report_launch(const ph__cells *cells, size_t count, bool launched)
{
    for (size_t i = 0; i < count; i++)
        if (cells->sources.at[i].launched)
            cells->sources.at[i].launched(cells->sources.at[i].user, launched);
}

static ph_status fail_values(ph_status status, const char *call)
{
    if (ph_error_last()->status == status)
        ph__error_prefix("%s: the values of the graph's cells", call);
    else
        ph__fail_given(status, "%s: a source of the graph's cells", call);
    return status;
}

static void put_values(ph__cells *cells, size_t first, size_t count, const uint64_t *values)
{
    for (size_t i = first; i < first + count; i++) {
        ph__drv_cell *cell = ph__cells_at(cells, i);
        if (cell->value == values[i - first])
            continue;
        cell->value = values[i - first];
        cells->roots.at[ph__cells_roots(i + 1) - 1].due = true;
    }
}

static ph_status ask_sources(ph__cells *cells, size_t *asked, const char *call)
{
    size_t first = 0;
    for (*asked = 0; *asked < cells->sources.count; ++*asked) {
        const ph_cells_source *source = &cells->sources.at[*asked];
        uint64_t values[PH_CELLS_MAX];
        ph_status status = source->values(values, source->user);
        if (status != PH_OK)
            return fail_values(status, call);
        put_values(cells, first, source->count, values);
        first += source->count;
    }
    return PH_OK;
}

/* Values that are as they were in the last replay need not be set again. */
static ph_status set_roots(ph_graph *graph, const char *call)
{
    ph__cells *cells = graph->cells;
    for (size_t i = 0; i < cells->roots.count; i++) {
        ph__cells_root *root = &cells->roots.at[i];
        ph__drv_launch launch;
        if (!root->due)
            continue;
        ph__cells_launch(&launch, root->args);
        int result = graph->device->driver->exec_set_kernel(graph->exec, root->node, &launch);
        if (ph__result_is_host_memory(result))
            return ph__fail_host_memory(call, "the values of the graph's cells");
        if (result != PH__R_OK)
            return ph__driver_fail(result, PH__NAME_GRAPH_EXEC_KERNEL_NODE_SET_PARAMS,
                                   "%s: setting the values of the graph's cells", call);
        root->due = false;
    }
    return PH_OK;
}

ph_status ph__cells_begin(ph_graph *graph, const char *call)
{
    size_t asked;
    ph__mutex_lock(&graph->device->cells_lock);
    ph_status status = ask_sources(graph->cells, &asked, call);
    if (status == PH_OK)
        status = set_roots(graph, call);
    if (status == PH_OK)
        return PH_OK;
    ph_error saved;
    ph__error_save(&saved);
    report_launch(graph->cells, asked, false);
    ph__mutex_unlock(&graph->device->cells_lock);
    ph__error_restore(&saved);
    return status;
}

void ph__cells_end(ph_graph *graph, bool launched)
{
    report_launch(graph->cells, graph->cells->sources.count, launched);
    ph__mutex_unlock(&graph->device->cells_lock);
}

void ph__cells_renew(ph_graph *graph)
{
    for (size_t i = 0; graph->cells && i < graph->cells->roots.count; i++)
        graph->cells->roots.at[i].due = true;
}
