/* SPDX-License-Identifier: MIT */
/* memory/streams/events.c: events behind the work of streams, recycled, never recorded inside a
 * capture. */
#include "memory/streams/events.h"
#include "base/vec.h"
#include "device/capture/refuse.h"
#include "memory/state/memory_state.h"
#include "memory/state/short_cycle.h"

ph__drv_event *ph__mark_acquire(ph__memory *memory, int *failure)
{
    ph__drv_event *event = NULL;
    ph__memory_lock(memory);
    if (memory->events.count > 0)
        event = memory->events.at[--memory->events.count];
    /* Room for all that exist, so that giving one back never fails. */
    bool room = event || ph__vec_reserve(&memory->events, memory->event_count + 1);
    if (!event && room)
        memory->event_count++;
    ph__spin_unlock(&memory->lock);
    if (event)
        return event;
    if (!room) {
        *failure = PH__R_OUT_OF_MEMORY;
        return NULL;
    }
    int result =
        memory->driver->event_create(&event, memory->device->handle, PH__EVENT_DISABLE_TIMING);
    if (result == PH__R_OK)
        return event;
    *failure = result;
    ph__memory_lock(memory);
    memory->event_count--;
    ph__spin_unlock(&memory->lock);
    return NULL;
}

void ph__mark_recycle(ph__memory *memory, ph__drv_event *event)
{
    if (!event)
        return;
    ph__memory_lock(memory);
    ph__mark_recycle_locked(memory, event);
    ph__spin_unlock(&memory->lock);
}

ph__drv_event *ph__mark_stream(ph__memory *memory, ph_stream *stream, int *failure)
{
    ph_device *device = memory->device;
    ph__drv_event *event = ph__mark_acquire(memory, failure);
    if (!event)
        return NULL;
    /* A capture registers under this lock before it begins at the driver: none can begin in
     * between. Into one that somebody else began the event would be captured, and never
     * complete. */
    pthread_mutex_lock(&device->capture_lock);
    bool may =
        atomic_load(&device->open_captures) == 0 && ph__stream_capture_id_locked(stream) == 0;
    int result = may ? memory->driver->event_record(event, stream->handle, PH__EVENT_RECORD_DEFAULT)
                     : PH__R_OK;
    pthread_mutex_unlock(&device->capture_lock);
    if (may && result == PH__R_OK)
        return event;
    if (may)
        *failure = result;
    ph__mark_recycle(memory, event);
    return NULL;
}

bool ph__mark_done(ph__memory *memory, ph__drv_event *event, bool wait, int *failure)
{
    ph_capture_mode mode;
    /* Relaxed: another thread may begin a capture meanwhile, which a strict query would kill. */
    ph__relaxed_begin(memory->device, &mode);
    int result =
        wait ? memory->driver->event_synchronize(event) : memory->driver->event_query(event);
    ph__relaxed_end(memory->device, mode);
    if (result != PH__R_OK && result != PH__R_NOT_READY)
        *failure = result;
    return result == PH__R_OK;
}
