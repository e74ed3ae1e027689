/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/uploaded.c: the event behind an upload. CUDA orders an upload behind the work of
 * its stream and behind launches of the executable, and promises nothing of launches that follow on
 * other streams: an event orders the first of those. */
#include "graph/lifecycle/uploaded.h"
#include "device/handles/device.h"
#include "device/handles/stream.h"
#include "graph/object/graph.h"

void ph__upload_drop(ph_graph *graph)
{
    if (graph->uploaded)
        graph->device->driver->event_destroy(graph->uploaded);
    graph->uploaded = NULL;
}

/* Work behind a replay that was launched since then comes after the upload, too. */
ph_status ph__upload_wait(ph_graph *graph, const ph_stream *stream, const char *call)
{
    if (graph->epoch != graph->uploaded_epoch) {
        ph__upload_drop(graph);
        return PH_OK;
    }
    if (stream->id == graph->uploaded_stream)
        return PH_OK;
    int result = graph->device->driver->stream_wait_event(stream->handle, graph->uploaded,
                                                          PH__EVENT_RECORD_DEFAULT);
    return result == PH__R_OK
               ? PH_OK
               : ph__driver_fail(result, PH__NAME_STREAM_WAIT_EVENT,
                                 "%s: ordering it behind the upload of the executable", call);
}
