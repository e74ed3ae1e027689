/* SPDX-License-Identifier: MIT */
/* device/capture/legacy.c: calls on the legacy default stream beside captures with blocking
 * streams. */
#include "device/capture/legacy.h"
#include "base/sync.h"
#include "device/capture/refuse.h"
#include "device/handles/captures.h"
#include "device/handles/device.h"
#include <limits.h>

/* Under capture_lock: an open capture with a blocking stream in it. It may be just beginning,
 * without an id yet. */
static bool find_blocking_capture(ph_device *device, uint64_t *id)
{
    for (size_t i = 0; i < device->captures.count; i++) {
        if (!atomic_load(&device->captures.at[i]->has_blocking))
            continue;
        *id = device->captures.at[i]->id;
        return true;
    }
    return false;
}

ph_status ph__legacy_enter(ph_stream *stream, ph__rule rule)
{
    ph_device *device = stream->device;
    uint64_t id = 0;
    if (!stream->is_default)
        return PH_OK;
    pthread_mutex_lock(&device->capture_lock);
    bool refused = find_blocking_capture(device, &id);
    if (!refused)
        atomic_fetch_add(&device->legacy_calls, 1);
    pthread_mutex_unlock(&device->capture_lock);
    return refused ? ph__rule_refuse(device, rule, id) : PH_OK;
}

void ph__legacy_leave(ph_stream *stream)
{
    ph_device *device = stream->device;
    if (stream->is_default && atomic_fetch_sub(&device->legacy_calls, 1) == 1 &&
        atomic_load(&device->legacy_waiters) > 0)
        ph__futex_wake(&device->legacy_calls, INT_MAX);
}

void ph__legacy_wait(ph_device *device)
{
    unsigned calls;
    atomic_fetch_add(&device->legacy_waiters, 1);
    while ((calls = atomic_load(&device->legacy_calls)) > 0)
        ph__futex_wait(&device->legacy_calls, calls, -1);
    atomic_fetch_sub(&device->legacy_waiters, 1);
}

ph_status ph__legacy_check(ph_stream *stream, ph__rule rule)
{
    if (atomic_load_explicit(&stream->device->open_captures, memory_order_acquire) == 0)
        return PH_OK;
    PH_TRY(ph__legacy_enter(stream, rule));
    ph__legacy_leave(stream);
    return PH_OK;
}
