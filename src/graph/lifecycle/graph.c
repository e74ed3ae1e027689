/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/graph.c: the graph object's life: create, destroy, reset, its pools and its
 * record. */
#include "graph/graph.h"
#include "base/alloc.h"
#include "base/log.h"
#include "graph/lifecycle/edited.h"

static uint64_t next_id(void)
{
    static _Atomic uint64_t last;
    return atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
}

ph_status ph_graph_create(ph_graph **out, const ph_graph_options *options)
{
    static const char call[] = "ph_graph_create";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (options && !PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_graph_options");
    ph_graph *graph = ph__calloc(1, sizeof *graph);
    if (graph == NULL)
        return ph__fail_host_memory(call, "the graph");
    graph->keep = options && options->keep_graph;
    graph->defer = options && options->defer_upload;
    graph->id = next_id();
    graph->deaths = UINT64_MAX;
    *out = graph;
    return PH_OK;
}

ph_graph_state ph_graph_get_state(const ph_graph *graph)
{
    return graph ? graph->state : PH_GRAPH_NEW;
}

/* ---- letting go ---- */
void ph__graph_clear(ph_graph *graph)
{
    ph_error saved;
    if (graph->device == NULL)
        return;
    const ph__driver *driver = graph->device->driver;
    ph__error_save(&saved);
    ph__graph_unlist_annotations(graph);
    ph__upload_drop(graph);
    driver->exec_destroy(graph->exec);
    ph__edit_forget(graph);
    driver->graph_destroy(graph->template);
    graph->exec = NULL;
    graph->template = NULL;
    ph__cells_drop(graph);
    ph__slots_drop(graph);
    ph__locate_drop(graph);
    graph->breadcrumbs = false;
    graph->changed = graph->hosts_changed = false;
    ph__inputs_free(&graph->inputs, graph);
    graph->inputs_due = false;
    ph__graph_drop_update_diff(graph);
    ph__declarations_free(&graph->declared);
    ph__free(graph->site_texts);
    graph->site_texts = NULL;
    ph__graph_drop_sets(graph);
    ph__graph_drop_kernels(graph);
    ph__record_free(graph->record);
    graph->record = NULL;
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
    graph->deaths = UINT64_MAX;
    graph->watch_lost = false;
    graph->foreign_every = graph->foreign_turn = 0;
    graph->liveness = false;
    ph_device_release(graph->device);
    graph->device = NULL;
    ph__error_restore(&saved);
}

/* All that the capture brought goes; what remains is to hand the retained objects out. */
static ph__batch *let_go(ph_graph *graph)
{
    if (graph->capture_open)
        ph__graph_drop_capture(graph);
    if (graph->exec_id)
        ph_ignore(ph__hooks_run(graph, PH_HOOK_DESTROY, NULL, graph->exec_id));
    graph->exec_id = 0;
    if (graph->device)
        ph__graph_drop_held(graph);
    ph__batch *batch = ph__graph_take_batch(graph);
    ph__graph_clear(graph);
    graph->state = PH_GRAPH_NEW;
    return batch;
}

ph_status ph_graph_reset(ph_graph *graph)
{
    PH_TRY(ph__graph_check(graph, PH__CALL_RESET));
    ph__graph_forget_left(graph);
    ph_error saved;
    ph__error_save(&saved);
    ph__batch *batch = let_go(graph);
    ph__graph_leave(graph);
    ph__batch_run(batch);
    ph__error_restore(&saved);
    return PH_OK;
}

/* Inside one of its own callbacks the graph is still in use: then it goes when the call that
 * runs the callback is done. */
void ph_graph_destroy(ph_graph *graph)
{
    if (graph == NULL || (graph->device && graph->device->forked))
        return;
    ph__graph_forget_left(graph);
    graph->doomed = true;
    if (graph->busy || graph->bodies)
        return;
    if (graph->state == PH_GRAPH_CAPTURING)
        ph__log(PH_LOG_WARNING,
                "ph_graph_destroy: the graph's capture was still open, and is dropped; was "
                "ph_graph_capture_end forgotten?");
    ph_error saved;
    ph__error_save(&saved);
    ph__batch *batch = let_go(graph);
    ph__hooks_detach(&graph->hooks);
    ph__free(graph);
    ph__batch_run(batch);
    ph__error_restore(&saved);
}

/* Fails as the call would, had the hook failed. */
static void fail_abandoned(ph_graph *graph)
{
    graph->in_end_hooks = false;
    ph_ignore(ph__graph_fail(
        graph,
        ph_fail(PH_ERROR_CALLER,
                "a hook of the graph did not return: an exception left it, or its thread ended")));
    ph__graph_clear(graph);
}

void ph__graph_abandon(ph_graph *graph, ph_graph_hook_point point)
{
    ph_error saved;
    ph__error_save(&saved);
    if (point == PH_HOOK_CAPTURE_START)
        ph_graph_capture_abort(graph);
    if (point == PH_HOOK_CAPTURE_END || point == PH_HOOK_INSTANTIATE)
        fail_abandoned(graph);
    ph__slots_drop_staged(graph);
    if (point == PH_HOOK_DESTROY) {
        graph->exec_id = 0; /* its hooks were run */
        if (!graph->doomed)
            ph_ignore(ph_graph_reset(graph));
    }
    ph__graph_leave(graph);
    ph__error_restore(&saved);
}

void ph__graph_leave(ph_graph *graph)
{
    if (graph->doomed && graph->busy == 0)
        ph_graph_destroy(graph);
}

/* ---- pools ---- */
ph_status ph_graph_pool(ph_pool **out, ph_graph *graph)
{
    if (out == NULL)
        return ph__fail_null("ph_graph_pool", "out");
    *out = NULL;
    PH_TRY(ph__graph_check(graph, PH__CALL_POOL));
    ph__pool_tell(graph->own->pool);
    *out = graph->own->pool;
    return PH_OK;
}

ph_status ph_graph_pools(ph_pool **pools, size_t capacity, size_t *count, const ph_graph *graph)
{
    static const char call[] = "ph_graph_pools";
    if (count == NULL)
        return ph__fail_null(call, "count");
    *count = 0;
    if (pools == NULL && capacity)
        return ph__fail_null(call, "pools");
    PH_TRY(ph__graph_check(graph, PH__CALL_POOLS));
    size_t written = 0;
    if (written < capacity)
        pools[written++] = graph->own->pool;
    for (size_t i = 0; i < graph->pools.count && written < capacity; i++)
        if (graph->pools.at[i] != graph->own)
            pools[written++] = graph->pools.at[i]->pool;
    for (size_t i = 0; i < written; i++)
        ph__pool_tell(pools[i]);
    *count = graph->pools.count;
    return PH_OK;
}

ph_status ph_graph_retain_pool(ph_graph *graph, ph_pool *pool)
{
    static const char call[] = "ph_graph_retain_pool";
    ph__writer *writer;
    PH_TRY(ph__graph_check(graph, PH__CALL_RETAIN_POOL));
    if (pool == NULL)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: pool is NULL, the default pool, which needs no keeping", call);
    PH_TRY(ph__pool_check(pool, call));
    if (ph__pool_device(pool) != graph->device)
        return ph__fail_devices(call, "the pool", ph__pool_device(pool), "the graph",
                                graph->device);
    if (ph__graph_find_pool(graph, pool))
        return PH_OK;
    ph__pool_graph_retain(pool);
    ph_status status = ph__graph_add_pool(&writer, graph, pool, call);
    if (status != PH_OK)
        ph__pool_graph_release(pool);
    return status;
}

ph_status ph_stream_capturing_graph(ph_graph **out, const ph_stream *stream)
{
    static const char call[] = "ph_stream_capturing_graph";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(ph__stream_check(stream, call));
    uint64_t id = ph__stream_capture_id(stream);
    if (id == 0)
        return PH_OK;
    pthread_mutex_lock(&stream->device->capture_lock);
    *out = ph__capture_owner_locked(stream->device, id);
    pthread_mutex_unlock(&stream->device->capture_lock);
    return PH_OK;
}

/* ---- the record ---- */
ph_status ph_graph_record(const ph_record **out, ph_graph *graph)
{
    if (out == NULL)
        return ph__fail_null("ph_graph_record", "out");
    *out = NULL;
    PH_TRY(ph__graph_check(graph, PH__CALL_RECORD));
    PH_TRY(ph__record_find_foreign(graph->record, graph->device, "ph_graph_record"));
    *out = graph->record;
    return PH_OK;
}

ph_status ph_graph_debug_dump(ph_graph *graph, const char *path, bool verbose)
{
    static const char call[] = "ph_graph_debug_dump";
    ph__text text = {0};
    PH_TRY(ph__graph_check(graph, PH__CALL_DEBUG_DUMP));
    if (path == NULL)
        return ph__fail_null(call, "path");
    PH_TRY(ph__record_find_foreign(graph->record, graph->device, call));
    ph__record_to_dot(&text, graph->record, verbose);
    ph_status status = ph__text_write_file(&text, path, call);
    ph__text_free(&text);
    return status;
}
