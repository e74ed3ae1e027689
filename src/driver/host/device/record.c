/* SPDX-License-Identifier: MIT */
/* driver/host/device/record.c: records of events: on a stream, or in its capture. */
#include "driver/host/capture/capture.h"
#include "driver/host/capture/fork.h"
#include "driver/host/stream/entries.h"
#include "driver/host/stream/legacy.h"
#include "driver/host/stream/queue.h"

int ph__host_event_record(ph__drv_event *handle, ph__drv_stream *stream_handle, int flags)
{
    ph__host_event *event = (ph__host_event *)handle;
    ph__host_stream *stream = (ph__host_stream *)stream_handle;
    if ((flags != PH__EVENT_RECORD_DEFAULT && flags != PH__EVENT_RECORD_EXTERNAL) ||
        event->device != stream->device)
        return PH__R_INVALID_VALUE;
    int result = PH__R_OK;
    if (atomic_load_explicit(&stream->capturing, memory_order_acquire)) {
        result = flags == PH__EVENT_RECORD_EXTERNAL
                     ? ph__host_record_event_node(stream, event, false)
                     : ph__host_capture_event_record(event, stream);
        if (result != PH__R_ILLEGAL_STATE) /* another thread has ended the capture meanwhile */
            return result;
    }
    result = stream->is_legacy
                 ? ph__host_rule_legacy(stream->device, PH__RULE_EVENT_RECORD_LEGACY_BLOCKING)
                 : ph__host_rule(stream->device, PH__RULE_EVENT_RECORD_OTHER);
    if (!result)
        result = ph__host_stream_order(stream);
    if (result)
        return result;
    ph__host_marker *marker = ph__host_marker_create(stream->device);
    if (!marker)
        return PH__R_OUT_OF_MEMORY;
    result = ph__host_stream_signal_marker(stream, marker);
    if (!result)
        ph__host_event_set_marker(event, marker);
    ph__host_marker_release(marker);
    return result;
}
