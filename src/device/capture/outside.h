/* SPDX-License-Identifier: MIT */
/* device/capture/outside.h: work that a thread submits while it captures, to streams that are not
 * in the capture. It runs at once, and the graph lacks it: mostly a mistake. */
#ifndef PH_DEVICE_CAPTURE_OUTSIDE_H
#define PH_DEVICE_CAPTURE_OUTSIDE_H
#include "device/handles/captures.h"

/* Of a submission by `call`, a static text, while captures are open, on whatever device: before it,
 * or behind it where the driver has said that no capture has it, which costs captures nothing. */
void ph__outside_add(ph_stream *stream, const char *call);
static inline void ph__outside_note(ph_stream *stream, const char *call)
{
    if (__builtin_expect(atomic_load_explicit(&ph__captures_open, memory_order_relaxed) != 0, 0))
        ph__outside_add(stream, call);
}
/* "first ph_memset on stream ..."; false: there was none. */
bool ph__outside_describe(char *out, size_t size, ph__capture *capture);
#endif
