/* SPDX-License-Identifier: MIT */
/* driver/cuda/device/leaving.c: streams that were destroyed before their work was over.
 *
 * CUDA finishes the work of a destroyed stream, but then nobody can know when. A stream that is
 * destroyed with work in flight is kept until that is over, so that the device's close can wait for
 * it; of a user's stream, which may go at once, an event behind that work. */
#include "driver/cuda/device/leaving.h"
#include "base/alloc.h"
#include "driver/cuda/load/device.h"

static void destroy_handles(ph__drv_stream *stream)
{
    if (stream->owned)
        (void)ph__cu.StreamDestroy(stream->handle);
    if (stream->last)
        (void)ph__cu.EventDestroy(stream->last);
    ph__free(stream);
}

/* To ask a stream that is capturing would kill that capture. */
static bool has_work(const ph__drv_stream *stream)
{
    int status = PH__CU_CAPTURE_STATUS_NONE;
    if (ph__cu.StreamIsCapturing(stream->handle, &status) != PH__R_OK ||
        status != PH__CU_CAPTURE_STATUS_NONE)
        return false;
    return ph__cu.StreamQuery(stream->handle) == PH__R_NOT_READY;
}

void ph__cuda_stream_mark_work(ph__drv_stream *stream)
{
    ph__cu_event event = NULL;
    if (stream->owned || !has_work(stream))
        return;
    int result = ph__cu.EventCreate(&event, PH__EVENT_DISABLE_TIMING);
    if (result == PH__R_OK)
        result = ph__cu.EventRecordWithFlags(event, stream->handle, PH__EVENT_RECORD_DEFAULT);
    if (result != PH__R_OK)
        (void)ph__cu.StreamSynchronize(stream->handle);
    stream->last = event;
}

static bool is_work_over(const ph__drv_stream *stream)
{
    if (stream->owned)
        return !has_work(stream);
    return !stream->last || ph__cu.EventQuery(stream->last) != PH__R_NOT_READY;
}

ph__drv_stream *ph__cuda_streams_remove_idle(ph__drv_device *device)
{
    ph__drv_stream *idle = NULL, **at = &device->leaving;
    while (*at) {
        ph__drv_stream *stream = *at;
        if (!is_work_over(stream)) {
            at = &stream->next_leaving;
            continue;
        }
        *at = stream->next_leaving;
        stream->next_leaving = idle;
        idle = stream;
    }
    return idle;
}

void ph__cuda_streams_free(ph__drv_stream *first)
{
    while (first) {
        ph__drv_stream *next = first->next_leaving;
        destroy_handles(first);
        first = next;
    }
}

/* One of the user's may be destroyed: its work ends before the event, where there was any. */
static void wait_for_stream(const ph__drv_stream *stream)
{
    if (stream->owned)
        (void)ph__cu.StreamSynchronize(stream->handle);
    else if (stream->last)
        (void)ph__cu.EventSynchronize(stream->last);
}

void ph__cuda_streams_wait(ph__drv_device *device)
{
    for (ph__drv_stream *stream = device->leaving; stream; stream = stream->next_leaving)
        wait_for_stream(stream);
    for (ph__drv_stream *stream = device->streams; stream; stream = stream->next)
        wait_for_stream(stream);
}

void ph__cuda_streams_close(ph__drv_device *device)
{
    ph__cuda_streams_wait(device);
    ph__cuda_streams_free(device->leaving);
    device->leaving = NULL;
}
