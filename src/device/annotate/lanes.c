/* SPDX-License-Identifier: MIT */
/* device/annotate/lanes.c: lanes of streams. */
#include "base/fork.h"
#include "device/handles/device.h"
#include <phonograph/annotation.h>

static pthread_mutex_t lanes_lock = PTHREAD_MUTEX_INITIALIZER;
PH__FORK_LOCK(PH__FORK_LANES, lanes_lock)

ph_status ph_stream_lane(uint32_t *out, ph_stream *stream)
{
    static unsigned next = 60;
    static const char call[] = "ph_stream_lane";
    if (out == NULL)
        return ph__fail_null(call, "out");
    *out = 0;
    PH_TRY(ph__stream_check(stream, call));
    unsigned lane = atomic_load_explicit(&stream->lane, memory_order_relaxed);
    if (lane == 0) {
        pthread_mutex_lock(&lanes_lock);
        lane = atomic_load_explicit(&stream->lane, memory_order_relaxed);
        if (lane == 0) {
            lane = next++;
            atomic_store_explicit(&stream->lane, lane, memory_order_relaxed);
        }
        pthread_mutex_unlock(&lanes_lock);
    }
    *out = lane;
    return PH_OK;
}
