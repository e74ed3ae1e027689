/* SPDX-License-Identifier: MIT */
/* device/stream.h: what the files of this layer share about streams, events and kernels. */
#ifndef PH_DEVICE_STREAM_H
#define PH_DEVICE_STREAM_H
#include "device/annotate/annotate.h"

/* Makes the device's default stream out of the driver's. */
void ph__stream_init_default(ph_device *device);
uint64_t ph__stream_next_id(void);
/* A wrapped stream that others still hold is being destroyed: from now on a stream of the
 * library's own stands for it, behind all of its work. Gives the driver's wrapper of the user's
 * stream: to be destroyed once nobody can be using it. */
ph__drv_stream *ph__stream_replace(ph_stream *stream);
/* The call's checks on an event: not NULL, and of this device when device is not NULL
 * (WRONG_DEVICE). */
ph_status ph__event_check(const ph_event *event, const ph_device *device, const char *call);
/* Around the submission of work, given the row for the legacy default stream beside blocking
 * captures: PH_OK when the stream is another one, or no open capture contains a blocking stream;
 * none can begin then before leave, so that the work cannot kill it. The call in between may
 * block: captures without such streams go on beside it. After a failure there is no leave. */
ph_status ph__legacy_enter(ph_stream *stream, ph__rule rule);
void ph__legacy_leave(ph_stream *stream);
/* After a capture was marked has_blocking, and before a blocking stream is in it at the driver:
 * waits for the calls that had entered before. capture_lock not held. */
void ph__legacy_wait(ph_device *device);
/* Around the submission of one piece of work: that, and the marks of captures, which the default
 * stream is never in. After a failure there is no leave. */
static inline ph_status ph__submit_enter(bool *held, ph_stream *stream, ph__rule rule,
                                         const char *call)
{
    *held = false;
    return stream->is_default ? ph__legacy_enter(stream, rule)
                              : ph__marks_enter(held, stream, call);
}
static inline void ph__submit_leave(bool held, ph_stream *stream)
{
    ph__marks_leave(held);
    if (stream->is_default)
        ph__legacy_leave(stream);
}
/* ---- asks ---- A call whose doing depends on whether the stream is capturing asks and submits
 * while it shares stream->asks: no capture of this library begins on the stream meanwhile, and
 * it joins none. Neither may run code of the user's. A begin and a join hold it alone, and wait
 * for the calls that are inside; one that copies from or to pageable memory may take as long as
 * the stream's work. */
/* ---- forks.c ---- a stream waits in a capture for what was recorded on another one, and joins
 * it thereby. describe: of a capture that ended with work which is not joined, which stream's
 * that probably is. */
void ph__forks_wait(const ph_stream *stream, const ph_stream *on, uint64_t capture_id, bool joins);
void ph__forks_describe(char *out, size_t size, ph__capture *capture);
/* The check alone, for work that may block or run user code as it is submitted. */
ph_status ph__legacy_check(ph_stream *stream, ph__rule rule);
/* The object around a driver's kernel, which is destroyed on failure. Of the source name,
 * args_size and parameters are looked at. */
ph_status ph__kernel_make(ph_kernel **out, ph_device *device, ph__drv_kernel *handle,
                          const ph_kernel_source *source, const char *call);
ph_status ph__kernel_check_params(const ph_kernel_source *source, const char *call);
#endif
