/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/upload.c: uploading an executable that was made without that. */
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

static ph_status submit_upload(const ph_graph *graph, const ph_stream *stream,
                               ph__drv_event *behind, const char *call)
{
    const ph__driver *driver = graph->device->driver;
    int result = driver->exec_upload(graph->exec, stream->handle);
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the upload of the executable");
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_GRAPH_UPLOAD, "%s: the executable was not uploaded",
                               call);
    result = driver->event_record(behind, stream->handle, PH__EVENT_RECORD_DEFAULT);
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_EVENT_RECORD,
                                                "%s: behind the upload of the executable", call);
}

/* The next replay looks for what it has to come after, though its stream be that of the last
 * one. */
static ph_status upload_exec(ph_graph *graph, ph_stream *stream, const char *call)
{
    const ph__driver *driver = graph->device->driver;
    ph__drv_event *behind;
    int result = driver->event_create(&behind, graph->device->handle, PH__EVENT_DISABLE_TIMING);
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the event behind the upload");
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_EVENT_CREATE,
                               "%s: to order replays behind the upload", call);
    ph__shared_lock(&stream->asks);
    ph_status status = refuse_capturing_stream(stream, call);
    if (status == PH_OK)
        status = ph__legacy_enter(stream, PH__RULE_EXEC_UPLOAD_LEGACY_BLOCKING);
    if (status == PH_OK) {
        status = submit_upload(graph, stream, behind, call);
        ph__legacy_leave(stream);
    }
    ph__shared_unlock(&stream->asks);
    if (status != PH_OK) {
        driver->event_destroy(behind);
        return status;
    }
    ph__upload_drop(graph);
    graph->uploaded = behind;
    graph->uploaded_stream = stream->id;
    graph->uploaded_epoch = graph->epoch;
    graph->last_stream = NULL;
    return PH_OK;
}

ph_status ph_graph_upload(ph_graph *graph, ph_stream *stream)
{
    static const char call[] = "ph_graph_upload";
    PH_TRY(check_upload(graph, stream, call));
    ph_status status = need_exec(graph, stream, call);
    for (size_t i = 0; status == PH_OK && graph->segments && i < graph->segments->list.count; i++)
        status = ph_graph_upload(graph->segments->list.at[i].graph, stream);
    if (status == PH_OK && !graph->segments &&
        graph->device->driver->exec_uploads(graph->exec) == 0)
        status = upload_exec(graph, stream, call);
    ph__graph_leave(graph);
    return status;
}
