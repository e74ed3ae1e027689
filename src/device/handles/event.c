/* SPDX-License-Identifier: MIT */
/* device/handles/event.c: events: creating them, their references. */
#include "device/handles/event.h"
#include "base/alloc.h"
#include "base/ended.h"
#include "device/handles/device.h"

ph_status ph__event_check(const ph_event *event, const ph_device *device, const char *call)
{
    if (!event)
        return ph__fail_null(call, "event");
    if (!event->device || atomic_load_explicit(&event->destroyed, memory_order_relaxed))
        return ph__fail_ended(call, "the event");
    if (device && event->device != device)
        return ph__fail_devices(call, "the event", event->device, "the stream", device);
    return ph__device_check(event->device, call);
}

ph_status ph_event_create(ph_event **out, ph_device *device, const ph_event_options *options)
{
    static const char call[] = "ph_event_create";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!device)
        return ph__fail_null(call, "device");
    if (options && !PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_event_options");
    ph_event *event = ph__calloc(1, sizeof *event);
    if (!event)
        return ph__fail_host_memory(call, "the event");
    atomic_init(&event->references, 1);
    event->timing = options && options->timing;
    event->external = options && options->external;
    int result =
        device->driver->event_create(&event->handle, device->handle,
                                     event->timing ? PH__EVENT_TIMING : PH__EVENT_DISABLE_TIMING);
    if (result != PH__R_OK) {
        ph__free(event);
        return ph__driver_fail(result, PH__NAME_EVENT_CREATE, "%s", call);
    }
    event->device = ph_device_retain(device);
    *out = event;
    return PH_OK;
}

static void release_event(ph_event *event)
{
    ph_device *device = event->device;
    if (device->forked || atomic_fetch_sub(&event->references, 1) != 1)
        return;
    device->driver->event_destroy(event->handle);
    event->device = NULL;
    ph__ended_put(event);
    ph_device_release(device);
}

void ph_event_destroy(ph_event *event)
{
    if (!event)
        return;
    if (!event->device || atomic_exchange(&event->destroyed, true))
        ph__ended_report("ph_event_destroy", "the event");
    else
        release_event(event);
}

void ph__event_retain(ph_event *event)
{
    atomic_fetch_add(&event->references, 1);
}

void ph__events_release(ph__map *events)
{
    size_t cursor = 0;
    uint64_t key;
    void *event;
    while (ph__map_next(events, &cursor, &key, &event))
        release_event(event);
    ph__map_free(events);
}
