/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/clear.c: letting go of all that a capture brought. */
#include "graph/lifecycle/clear.h"
#include "base/alloc.h"
#include "graph/change/changes.h"
#include "graph/change/edited.h"
#include "graph/change/update_diff.h"
#include "graph/inputs/brought.h"
#include "graph/inputs/inputs.h"
#include "graph/inputs/inputs_declared.h"
#include "graph/inputs/rebind.h"
#include "graph/lifecycle/uploaded.h"
#include "graph/locate/probes.h"
#include "graph/memory/born.h"
#include "graph/memory/cells.h"
#include "graph/memory/epochs.h"
#include "graph/memory/owned.h"
#include "graph/object/annotations.h"
#include "graph/object/deferred_record.h"
#include "graph/object/graph.h"
#include "graph/object/kernels.h"
#include "graph/object/segments.h"
#include "graph/slots/slots.h"
#include "memory/capture/allocation_log.h"

/* Graphs that were updated from it may hold the deferred record, and with it the template. */
static void drop_template(ph_graph *graph)
{
    if (graph->deferred_record)
        ph__deferred_record_release(graph->deferred_record);
    else
        graph->device->driver->graph_destroy(graph->template);
    ph__deferred_record_release(graph->left);
    graph->deferred_record = graph->left = NULL;
    graph->template = NULL;
}

void ph__graph_clear(ph_graph *graph)
{
    ph_error saved;
    if (graph->device == NULL)
        return;
    const ph__driver *driver = graph->device->driver;
    ph__error_save(&saved);
    ph__segments_drop(graph);
    ph__graph_unlist_annotations(graph);
    ph__upload_drop(graph);
    driver->exec_destroy(graph->exec);
    ph__edit_forget(graph);
    graph->exec = NULL;
    ph__cells_drop(graph);
    ph__slots_drop(graph);
    ph__locate_drop(graph);
    graph->breadcrumbs = graph->viewed = false;
    graph->allow_breaks = graph->defer_breaks = false;
    graph->plan_bytes = graph->plan_bound = 0;
    graph->plan_ended = NULL;
    graph->collectives = NULL;
    graph->changed = graph->hosts_changed = false;
    ph__inputs_free(&graph->inputs, graph);
    graph->inputs_due = false;
    ph__graph_drop_update_diff(graph);
    ph__declarations_free(&graph->declared);
    ph__free(graph->site_texts);
    graph->site_texts = NULL;
    ph__graph_drop_sets(graph);
    ph__graph_drop_kernels(graph);
    ph__graph_drop_events(graph);
    ph__brought_drop(graph);
    ph__changes_drop(graph);
    ph__record_free(graph->record);
    graph->record = NULL;
    ph__free(graph->verdict);
    graph->verdict = NULL;
    graph->call_failed = false;
    ph__free(graph->failed_call);
    graph->failed_call = NULL;
    drop_template(graph);
    ph__layout_free(&graph->layout);
    ph__layout_free(&graph->updated_layout);
    graph->updated_pool = NULL;
    ph__marks_release(graph->marks);
    graph->marks = NULL;
    ph__graph_drop_held(graph);
    ph__graph_drop_pools(graph);
    ph__graph_drop_streams(graph);
    if (graph->stream)
        ph__stream_release(graph->stream);
    graph->stream = NULL;
    graph->epoch = 0;
    graph->free_count = UINT64_MAX;
    graph->watch_lost = false;
    graph->foreign_every = graph->foreign_turn = 0;
    graph->liveness = false;
    ph_device_release(graph->device);
    graph->device = NULL;
    ph__error_restore(&saved);
}
