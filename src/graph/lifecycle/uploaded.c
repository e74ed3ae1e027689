/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/uploaded.c: the event behind an upload. CUDA orders an upload behind the work of
 * its stream and behind launches of the executable, and promises nothing of launches that follow on
 * other streams: an event orders the first of those. */
#include "graph/lifecycle/uploaded.h"
#include "base/alloc.h"
#include "device/capture/legacy.h"
#include "device/handles/device.h"
#include "device/handles/hold.h"
#include "device/handles/stream.h"
#include "graph/object/graph.h"

ph_status ph__upload_mark_create(ph__upload_mark **out, const ph_device *device, const char *call)
{
    ph__upload_mark *mark = ph__calloc(1, sizeof *mark);
    if (mark == NULL)
        return ph__fail_host_memory(call, "the event behind the upload");
    int result =
        device->driver->event_create(&mark->event, device->handle, PH__EVENT_DISABLE_TIMING);
    if (result == PH__R_OK) {
        atomic_init(&mark->holders, 1);
        mark->device = device;
        *out = mark;
        return PH_OK;
    }
    ph__free(mark);
    return ph__result_is_host_memory(result)
               ? ph__fail_host_memory(call, "the event behind the upload")
               : ph__driver_fail(result, PH__NAME_EVENT_CREATE,
                                 "%s: to order replays behind the upload", call);
}

void ph__upload_mark_release(ph__upload_mark *mark)
{
    if (!mark || atomic_fetch_sub_explicit(&mark->holders, 1, memory_order_acq_rel) != 1)
        return;
    mark->device->driver->event_destroy(mark->event);
    if (atomic_load(&mark->unrecorded))
        ph__stream_release(atomic_load(&mark->unrecorded));
    ph__free(mark);
}

void ph__upload_mark_defer(ph__upload_mark *mark, ph_stream *stream)
{
    atomic_store(&mark->unrecorded, ph__stream_retain(stream));
}

/* While stream->asks is shared. The handle is held: the wrapper of a program's stream may be
 * destroyed meanwhile, and another stream take its place. */
static ph_status record_on(ph_stream *stream, ph__drv_event *event, const char *call)
{
    int result = PH__R_OK;
    ph_status status = ph__legacy_enter(stream, PH__RULE_EVENT_RECORD_LEGACY_BLOCKING);
    if (status != PH_OK) {
        ph__error_prefix("%s: the event behind the upload of the executable", call);
        return status;
    }
    ph__stream_hold(stream);
    bool free = ph__stream_is_free(stream);
    if (free)
        result =
            stream->device->driver->event_record(event, stream->handle, PH__EVENT_RECORD_DEFAULT);
    ph__stream_unhold(stream);
    ph__legacy_leave(stream);
    if (!free)
        return ph_fail(PH_ERROR_CAPTURE,
                       "%s: the stream on which the executable was uploaded is capturing, and the "
                       "event behind the upload was not recorded before; end that capture",
                       call);
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_EVENT_RECORD,
                                                "%s: behind the upload of the executable", call);
}

/* Later work of that stream is waited for, too. */
static ph_status record_late(ph__upload_mark *mark, const char *call)
{
    ph__mutex_lock(&mark->lock);
    ph_stream *stream = atomic_load(&mark->unrecorded);
    ph_status status = PH_OK;
    if (stream) {
        ph__shared_lock(&stream->asks);
        status = record_on(stream, mark->event, call);
        ph__shared_unlock(&stream->asks);
    }
    if (status == PH_OK)
        atomic_store(&mark->unrecorded, NULL);
    ph__mutex_unlock(&mark->lock);
    if (status == PH_OK && stream)
        ph__stream_release(stream);
    return status;
}

/* The next replay looks for what it has to come after, though its stream be that of the last
 * one. */
void ph__upload_note(ph_graph *graph, ph__upload_mark *mark, const ph_stream *stream)
{
    ph__upload_drop(graph);
    atomic_fetch_add_explicit(&mark->holders, 1, memory_order_relaxed);
    graph->uploaded = mark;
    graph->uploaded_stream = stream->id;
    graph->uploaded_epoch = graph->epoch;
    graph->last_stream = NULL;
}

void ph__upload_drop(ph_graph *graph)
{
    ph__upload_mark_release(graph->uploaded);
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
    if (atomic_load(&graph->uploaded->unrecorded))
        PH_TRY(record_late(graph->uploaded, call));
    int result = graph->device->driver->stream_wait_event(stream->handle, graph->uploaded->event,
                                                          PH__EVENT_RECORD_DEFAULT);
    return result == PH__R_OK
               ? PH_OK
               : ph__driver_fail(result, PH__NAME_STREAM_WAIT_EVENT,
                                 "%s: ordering it behind the upload of the executable", call);
}
