/* SPDX-License-Identifier: MIT */
/* driver/cuda/capture/capture.h: captures, and the order of the calls that read or change one. */
#ifndef PH_DRIVER_CUDA_CAPTURE_CAPTURE_H
#define PH_DRIVER_CUDA_CAPTURE_CAPTURE_H
#include "base/sync.h"
#include "base/vec.h"
#include "driver/cuda/load/device.h"

struct ph__cuda_capture {
    uint64_t id;
    ph__drv_stream *origin;
    ph__drv_graph *graph;       /* the nodes known so far */
    PH__VEC(ph__cu_node) roots; /* nodes that write cells; under the order */
};
/* CUDA 13 crashes when a capture begins on a stream, ends, or is joined by the stream, while
 * another thread is inside any call on that stream, a question included (docs/guide/cuda.md). So
 * every call on an explicit stream shares stream->calls; begin and join hold it alone. While
 * captures are open, calls that read or change one hold device->order too: a stream's place that
 * GetCaptureInfo lends stays valid, and no capture ends meanwhile. Nothing that blocks may stand
 * inside. */
static inline bool ph__cuda_order_enter(ph__drv_stream *stream)
{
    ph__shared_lock(&stream->calls);
    bool open = atomic_load_explicit(&stream->device->open_captures, memory_order_relaxed) != 0;
    if (open)
        ph__spin_lock(&stream->device->order);
    return open;
}
static inline void ph__cuda_order_leave(ph__drv_stream *stream, bool entered)
{
    if (entered)
        ph__spin_unlock(&stream->device->order);
    ph__shared_unlock(&stream->calls);
}
/* The capture of that id, of those that began here, or NULL. */
ph__cuda_capture *ph__cuda_capture_find_locked(const ph__drv_device *device, uint64_t id);
#endif
