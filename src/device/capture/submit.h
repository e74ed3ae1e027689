/* SPDX-License-Identifier: MIT */
/* device/capture/submit.h: around the submission of one piece of work.
 *
 * A call whose doing depends on whether the stream is capturing asks and submits while it shares
 * stream->asks: no capture of this library begins on the stream meanwhile, and it joins none.
 * Neither may run code of the user's. A begin and a join hold it alone, and wait for the calls that
 * are inside; one that copies from or to pageable memory may take as long as the stream's work. */
#ifndef PH_DEVICE_CAPTURE_SUBMIT_H
#define PH_DEVICE_CAPTURE_SUBMIT_H
#include "device/annotate/marks.h"
#include "device/capture/legacy.h"

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
#endif
