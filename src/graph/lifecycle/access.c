/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/access.c: the pools, the record and the capture that a graph shows. */
#include "base/text.h"
#include "base/text_file.h"
#include "graph/memory/epochs.h"
#include "graph/object/graph.h"
#include "memory/pool/pool.h"
#include "memory/state/pool_handle.h"
#include "record/dot.h"
#include "record/foreign.h"

/* ---- pools ---- */
ph_status ph_graph_pool(ph_pool **out, ph_graph *graph)
{
    if (out == NULL)
        return ph__fail_null("ph_graph_pool", "out");
    *out = NULL;
    PH_TRY(ph__graph_check(graph, PH__CALL_POOL));
    ph__pool_report_handle(graph->own->pool);
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
        ph__pool_report_handle(pools[i]);
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
