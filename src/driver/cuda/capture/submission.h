/* SPDX-License-Identifier: MIT */
/* driver/cuda/capture/submission.h: the submission of single nodes by this library. */
#ifndef PH_DRIVER_CUDA_CAPTURE_SUBMISSION_H
#define PH_DRIVER_CUDA_CAPTURE_SUBMISSION_H
#include "driver/cuda/load/device.h"
#include "driver/driver.h"

/* Around the submission of one node's work, so that its node need not be read back later:
 * - begin asks whether the stream is capturing. Cheap while no capture is open. One of keep,
 *   keep_launch and leave must follow.
 * - keep keeps `node`'s info (dependencies apart) and the bytes of its arguments. A submission that
 *   cannot be kept for want of memory is read back later.
 * - query is begin's slow path, while captures are open. */
typedef struct ph__cuda_submission {
    bool capturing; /* the stream is in an active capture; the order is held until the end */
    uint64_t id;
    int result; /* CUDA's answer to the question whether the stream is capturing */
} ph__cuda_submission;
void ph__cuda_submission_query(ph__cuda_submission *submission, ph__drv_stream *stream);
void ph__cuda_submission_keep(ph__cuda_submission *submission, ph__drv_stream *stream,
                              const ph__drv_node *node, int result);
/* The same for a launch. */
void ph__cuda_submission_keep_launch(ph__cuda_submission *submission, ph__drv_stream *stream,
                                     ph__drv_kernel *kernel, const ph__drv_launch *launch,
                                     int result);
/* The keeping alone, under the order: of a node that stays to be read back, where kind is all that
 * is given. */
void ph__cuda_submission_add(ph__drv_device *device, uint64_t id, const ph__drv_node *node);
static inline void ph__cuda_submission_begin(ph__cuda_submission *submission,
                                             ph__drv_stream *stream)
{
    submission->capturing = false;
    submission->id = 0;
    submission->result = PH__R_OK;
    if (!stream->handle)
        return;
    ph__shared_lock(&stream->calls);
    if (atomic_load_explicit(&stream->device->open_captures, memory_order_relaxed) != 0)
        ph__cuda_submission_query(submission, stream);
}
/* Nothing to keep. */
static inline void ph__cuda_submission_leave(const ph__cuda_submission *submission,
                                             ph__drv_stream *stream)
{
    if (!stream->handle)
        return;
    if (submission->capturing)
        ph__spin_unlock(&stream->device->order);
    ph__shared_unlock(&stream->calls);
}
#endif
