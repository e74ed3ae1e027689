/* SPDX-License-Identifier: MIT */
/* driver/host/resource/event.c: events: the last marker that was recorded into each. */
#include "driver/host/resource/event.h"
#include "driver/host/resource/rules.h"
#include "driver/host/stream/chaos.h"
#include "driver/host/stream/entries.h"
#include "driver/host/stream/wait.h"

static ph__host_event *event_of(ph__drv_event *handle)
{
    return (ph__host_event *)handle;
}

int ph__host_event_create(ph__drv_event **out, ph__drv_device *handle, int flags)
{
    ph__host_device *device = (ph__host_device *)handle;
    if (flags != PH__EVENT_TIMING && flags != PH__EVENT_DISABLE_TIMING)
        return PH__R_INVALID_VALUE;
    int result = ph__host_rule(device, PH__RULE_EVENT_CREATE);
    if (result)
        return result;
    ph__host_event *event = ph__calloc(1, sizeof *event);
    if (!event)
        return PH__R_OUT_OF_MEMORY;
    if (pthread_mutex_init(&event->lock, NULL) != 0) {
        ph__free(event);
        return PH__R_OUT_OF_MEMORY;
    }
    event->device = device;
    event->flags = flags;
    atomic_init(&event->references, 1);
    atomic_fetch_add(&device->live_handles, 1);
    *out = (ph__drv_event *)event;
    return 0;
}

void ph__host_event_retain(ph__host_event *event)
{
    atomic_fetch_add_explicit(&event->references, 1, memory_order_relaxed);
}

void ph__host_event_release(ph__host_event *event)
{
    if (atomic_fetch_sub_explicit(&event->references, 1, memory_order_acq_rel) != 1)
        return;
    ph__host_marker_release(event->marker);
    pthread_mutex_destroy(&event->lock);
    ph__free(event);
}

void ph__host_event_destroy(ph__drv_event *handle)
{
    ph__host_event *event = event_of(handle);
    if (!event)
        return;
    atomic_fetch_sub(&event->device->live_handles, 1);
    ph__host_event_release(event);
}

static void forget_capture(ph__host_event *event)
{
    if (atomic_load_explicit(&event->capture_id, memory_order_acquire) == 0)
        return;
    pthread_mutex_lock(&event->device->capture_lock);
    event->capture_id = 0;
    event->captured = (ph__host_node_set){0};
    pthread_mutex_unlock(&event->device->capture_lock);
}

void ph__host_event_set_marker(ph__host_event *event, ph__host_marker *marker)
{
    forget_capture(event);
    ph__host_marker_retain(marker);
    pthread_mutex_lock(&event->lock);
    ph__host_marker *before = event->marker;
    event->marker = marker;
    pthread_mutex_unlock(&event->lock);
    ph__host_marker_release(before);
}

ph__host_marker *ph__host_event_marker(ph__host_event *event)
{
    pthread_mutex_lock(&event->lock);
    ph__host_marker *marker = event->marker ? ph__host_marker_retain(event->marker) : NULL;
    pthread_mutex_unlock(&event->lock);
    return marker;
}

int ph__host_event_query(ph__drv_event *handle)
{
    ph__host_event *event = event_of(handle);
    int result =
        ph__host_rule_event(event, PH__RULE_EVENT_QUERY_CAPTURED, PH__RULE_EVENT_QUERY_OTHER);
    if (result)
        return result;
    ph__host_marker *marker = ph__host_event_marker(event);
    if (!marker)
        return 0;
    if (event->device->chaos && !ph__host_marker_done(marker))
        ph__host_chaos_query(event->device->chaos);
    result = ph__host_marker_done(marker) ? 0 : PH__R_NOT_READY;
    ph__host_marker_release(marker);
    return result;
}

int ph__host_event_synchronize(ph__drv_event *handle)
{
    ph__host_event *event = event_of(handle);
    int result =
        ph__host_rule_event(event, PH__RULE_EVENT_SYNC_CAPTURED, PH__RULE_EVENT_SYNC_OTHER);
    if (result)
        return result;
    ph__host_marker *marker = ph__host_event_marker(event);
    if (!marker)
        return 0;
    if (!ph__host_marker_done(marker))
        result = ph__host_wait_check();
    if (!result)
        ph__host_marker_wait(marker);
    ph__host_marker_release(marker);
    return result;
}

static int elapsed_between(float *milliseconds, ph__host_marker *start, ph__host_marker *end)
{
    if (!start || !end)
        return PH__R_INVALID_HANDLE;
    if (!ph__host_marker_done(start) || !ph__host_marker_done(end))
        return PH__R_NOT_READY;
    int64_t ns = (int64_t)(ph__host_marker_time(end) - ph__host_marker_time(start));
    *milliseconds = (float)((double)ns / 1e6);
    return 0;
}

int ph__host_event_elapsed(float *milliseconds, ph__drv_event *start_handle,
                           ph__drv_event *end_handle)
{
    ph__host_event *start = event_of(start_handle), *end = event_of(end_handle);
    if ((start->flags | end->flags) & PH__EVENT_DISABLE_TIMING)
        return PH__R_INVALID_HANDLE;
    int result =
        ph__host_rule_event(start, PH__RULE_EVENT_ELAPSED_CAPTURED, PH__RULE_EVENT_ELAPSED_OTHER);
    if (!result)
        result =
            ph__host_rule_event(end, PH__RULE_EVENT_ELAPSED_CAPTURED, PH__RULE_EVENT_ELAPSED_OTHER);
    if (result)
        return result;
    ph__host_marker *from = ph__host_event_marker(start), *to = ph__host_event_marker(end);
    result = elapsed_between(milliseconds, from, to);
    ph__host_marker_release(from);
    ph__host_marker_release(to);
    return result;
}
