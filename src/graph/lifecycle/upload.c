/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/upload.c: uploading executables that were made without that. */
#include "device/capture/refuse.h"
#include "device/capture/submit.h"
#include "graph/lifecycle/graph.h"
#include "graph/lifecycle/instantiate.h"
#include "graph/lifecycle/uploaded.h"
#include "graph/object/graph.h"
#include "graph/object/segments.h"

static ph_status refuse_capturing_stream(ph_stream *stream, const char *call)
{
    uint64_t capture_id;
    PH_TRY(ph__stream_find_capture(&capture_id, stream, call));
    if (capture_id)
        return ph__rule_refuse(stream->device, PH__RULE_EXEC_UPLOAD_CAPTURING, capture_id);
    PH_TRY(ph__rule_check(stream->device, PH__RULE_EXEC_UPLOAD_OTHER));
    return ph__legacy_check(stream, PH__RULE_EXEC_UPLOAD_LEGACY_BLOCKING);
}

static ph_status check_upload(const ph_graph *graph, ph_stream *stream, const char *call)
{
    PH_TRY(ph__graph_check(graph, PH__CALL_UPLOAD));
    PH_TRY(ph__stream_check(stream, call));
    if (stream->device != graph->device)
        return ph__fail_devices(call, "the graph", graph->device, "the stream", stream->device);
    return refuse_capturing_stream(stream, call);
}

/* A hook of a new executable may have begun a capture. */
static ph_status need_exec(ph_graph *graph, ph_stream *stream, const char *call)
{
    bool ended = graph->state == PH_GRAPH_ENDED;
    PH_TRY(ph__graph_need_exec(graph, call));
    return ended ? refuse_capturing_stream(stream, call) : PH_OK;
}

/* ---- what is to be uploaded ---- */
typedef struct uploads {
    PH__VEC(ph_graph *) graphs; /* in place of one with breaks its segments */
    PH__VEC(ph__drv_exec *) execs;
} uploads;

static void free_uploads(uploads *all)
{
    for (size_t i = 0; i < all->graphs.count; i++)
        all->graphs.at[i]->to_upload = false;
    ph__vec_free(&all->graphs);
    ph__vec_free(&all->execs);
}

static ph_status add_upload(uploads *all, ph_graph *graph, const char *call)
{
    if (!graph->exec)
        return ph_fail(PH_ERROR_STATE,
                       "%s: graph %llu has no executable any more, as a hook of another graph of "
                       "this call reset it; let hooks leave the other graphs alone",
                       call, (unsigned long long)graph->id);
    if (graph->to_upload || graph->device->driver->exec_uploads(graph->exec) != 0)
        return PH_OK;
    if (!ph__vec_push(&all->graphs, graph))
        return ph__fail_host_memory(call, "the executables to upload");
    graph->to_upload = true;
    return ph__vec_push(&all->execs, graph->exec)
               ? PH_OK
               : ph__fail_host_memory(call, "the executables to upload");
}

static ph_status add_uploads(uploads *all, ph_graph *graph, ph_stream *stream, const char *call)
{
    PH_TRY(check_upload(graph, stream, call));
    if (!graph->segments)
        return add_upload(all, graph, call);
    for (size_t i = 0; i < graph->segments->list.count; i++)
        PH_TRY(add_uploads(all, graph->segments->list.at[i].graph, stream, call));
    return PH_OK;
}

/* ---- uploading ---- */
static ph_status fail_upload(int result, const char *call)
{
    return ph__result_is_host_memory(result)
               ? ph__fail_host_memory(call, "the upload of the executable")
               : ph__driver_fail(result, PH__NAME_GRAPH_UPLOAD,
                                 "%s: the executable was not uploaded", call);
}

/* Where one fails those before it are uploaded, and its own may be under way: the mark is behind
 * all of them. */
static ph_status submit_uploads(const uploads *all, ph_stream *stream, ph__upload_mark *mark,
                                const char *call)
{
    const ph__driver *driver = stream->device->driver;
    int uploaded = driver->exec_upload(all->execs.at, all->execs.count, stream->handle);
    ph_status status = uploaded == PH__R_OK ? PH_OK : fail_upload(uploaded, call);
    int result = driver->event_record(mark->event, stream->handle, PH__EVENT_RECORD_DEFAULT);
    if (result != PH__R_OK)
        ph__upload_mark_defer(mark, stream);
    return status != PH_OK || result == PH__R_OK
               ? status
               : ph__driver_fail(result, PH__NAME_EVENT_RECORD,
                                 "%s: behind the upload of the executable", call);
}

/* *submitted: some of it. */
static ph_status submit_free(bool *submitted, const uploads *all, ph_stream *stream,
                             ph__upload_mark *mark, const char *call)
{
    ph__shared_lock(&stream->asks);
    ph_status status = refuse_capturing_stream(stream, call);
    if (status == PH_OK)
        status = ph__legacy_enter(stream, PH__RULE_EXEC_UPLOAD_LEGACY_BLOCKING);
    if (status == PH_OK) {
        *submitted = true;
        status = submit_uploads(all, stream, mark, call);
        ph__legacy_leave(stream);
    }
    ph__shared_unlock(&stream->asks);
    return status;
}

static ph_status upload_found(const uploads *all, ph_stream *stream, const char *call)
{
    ph__upload_mark *mark = NULL;
    bool submitted = false;
    ph_status status = PH_OK;
    if (all->execs.count > 0)
        status = ph__upload_mark_create(&mark, stream->device, call);
    if (mark)
        status = submit_free(&submitted, all, stream, mark, call);
    for (size_t i = 0; submitted && i < all->graphs.count; i++)
        ph__upload_note(all->graphs.at[i], mark, stream);
    ph__upload_mark_release(mark);
    return status;
}

ph_status ph_graph_upload(ph_graph *graph, ph_stream *stream)
{
    static const char call[] = "ph_graph_upload";
    uploads all = {0};
    PH_TRY(check_upload(graph, stream, call));
    ph_status status = need_exec(graph, stream, call);
    for (size_t i = 0; status == PH_OK && graph->segments && i < graph->segments->list.count; i++)
        status = add_uploads(&all, graph->segments->list.at[i].graph, stream, call);
    if (status == PH_OK && !graph->segments)
        status = add_upload(&all, graph, call);
    if (status == PH_OK)
        status = upload_found(&all, stream, call);
    free_uploads(&all);
    ph__graph_leave(graph);
    return status;
}

/* ---- several ---- */
static ph_status say_which(ph_status status, size_t i, const char *call)
{
    if (status != PH_OK)
        ph__error_prefix("%s: graph %zu", call, i);
    return status;
}

/* With the hooks of new executables: all run before the first upload. */
static ph_status need_execs(ph_graph *const *graphs, size_t count, ph_stream *stream,
                            const char *call)
{
    ph_status status = PH_OK;
    for (size_t i = 0; i < count && status == PH_OK; i++) {
        status = check_upload(graphs[i], stream, "ph_graph_upload");
        if (status == PH_OK) {
            status = need_exec(graphs[i], stream, "ph_graph_upload");
            ph__graph_leave(graphs[i]);
        }
        say_which(status, i, call);
    }
    return status;
}

ph_status ph_graph_upload_all(ph_graph *const *graphs, size_t count, ph_stream *stream)
{
    static const char call[] = "ph_graph_upload_all";
    uploads all = {0};
    if (count > 0 && graphs == NULL)
        return ph__fail_null(call, "graphs");
    PH_TRY(ph__stream_check(stream, call));
    ph_status status = need_execs(graphs, count, stream, call);
    for (size_t i = 0; i < count && status == PH_OK; i++)
        status = say_which(add_uploads(&all, graphs[i], stream, "ph_graph_upload"), i, call);
    if (status == PH_OK)
        status = upload_found(&all, stream, call);
    free_uploads(&all);
    return status;
}
