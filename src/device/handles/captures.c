/* SPDX-License-Identifier: MIT */
/* device/handles/captures.c: the list of the captures that are open on a device, and what they
 * keep. */
#include "device/handles/captures.h"
#include "base/sync.h"
#include "device/handles/device.h"
#include "device/handles/event.h"
#include "device/handles/kernel.h"

bool ph__capture_register(ph_device *device, ph__capture *capture)
{
    pthread_mutex_lock(&device->capture_lock);
    bool pushed = ph__vec_push(&device->captures, capture);
    if (pushed) {
        atomic_fetch_add(&device->open_captures, 1);
        atomic_fetch_add(&device->open_checks, capture->checks);
        atomic_fetch_add(&ph__captures_open, 1);
    }
    pthread_mutex_unlock(&device->capture_lock);
    return pushed;
}

/* The work that waited for the last capture to end, if this was it. Under capture_lock. */
static ph__deferred *leave_capture(ph_device *device)
{
    ph__deferred *due = NULL;
    if (atomic_fetch_sub(&device->open_captures, 1) == 1) {
        due = device->deferred_first;
        device->deferred_first = device->deferred_last = NULL;
    }
    return due;
}

static void run_deferred(ph__deferred *due)
{
    while (due) {
        ph__deferred *next = due->next;
        due->fn(due);
        due = next;
    }
}

/* Takes the capture off the list; runs what waited for the last one to end. Launches that it
 * recorded may still be about to have their kernels kept: it is found for them until its kernels
 * are released. */
void ph__capture_unregister(ph_device *device, ph__capture *capture)
{
    ph__deferred *due;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count; i++)
        if (device->captures.at[i] == capture)
            device->captures.at[i] = device->captures.at[--device->captures.count];
    capture->next_reading = device->reading;
    device->reading = capture;
    atomic_fetch_sub(&device->open_checks, capture->checks);
    atomic_fetch_sub(&ph__captures_open, 1);
    due = leave_capture(device);
    pthread_mutex_unlock(&device->capture_lock);
    run_deferred(due);
}

void ph__captures_enter(ph_device *device)
{
    pthread_mutex_lock(&device->capture_lock);
    atomic_fetch_add(&device->open_captures, 1);
    pthread_mutex_unlock(&device->capture_lock);
}

void ph__captures_leave(ph_device *device)
{
    pthread_mutex_lock(&device->capture_lock);
    ph__deferred *due = leave_capture(device);
    pthread_mutex_unlock(&device->capture_lock);
    run_deferred(due);
}

bool ph_device_is_capturing(const ph_device *device)
{
    if (!device || atomic_load_explicit(&device->open_captures, memory_order_acquire) == 0)
        return false;
    ph_device *known = (ph_device *)(uintptr_t)device; /* for its lock alone */
    uint64_t me = ph__thread_id();
    bool found = false;
    pthread_mutex_lock(&known->capture_lock);
    for (size_t i = 0; i < known->captures.count && !found; i++)
        found = known->captures.at[i]->owner_thread == me;
    pthread_mutex_unlock(&known->capture_lock);
    return found;
}

void ph__capture_close_kernels(ph__capture *capture)
{
    pthread_mutex_lock(&capture->device->capture_lock);
    for (ph__capture **at = &capture->device->reading; *at; at = &(*at)->next_reading)
        if (*at == capture) {
            *at = capture->next_reading;
            break;
        }
    pthread_mutex_unlock(&capture->device->capture_lock);
}

void ph__capture_release_kernels(ph__capture *capture)
{
    size_t cursor = 0;
    uint64_t key;
    void *kernel;
    ph__capture_close_kernels(capture);
    while (ph__map_next(&capture->kernels, &cursor, &key, &kernel))
        ph_kernel_release(kernel);
    ph__map_free(&capture->kernels);
}

/* Launches that it recorded find it by its id. */
void ph__capture_move(ph__capture *to, ph__capture *from)
{
    ph_device *device = from->device;
    pthread_mutex_lock(&device->capture_lock);
    to->id = from->id;
    to->mode = from->mode;
    to->owner_thread = from->owner_thread;
    to->device = device;
    to->annotated = from->annotated;
    to->kernels = from->kernels;
    to->events = from->events;
    to->marks = from->marks;
    to->next_reading = from->next_reading;
    for (ph__capture **at = &device->reading; *at; at = &(*at)->next_reading)
        if (*at == from) {
            *at = to;
            break;
        }
    from->kernels = from->events = (ph__map){0};
    from->marks = NULL;
    pthread_mutex_unlock(&device->capture_lock);
}

bool ph__capture_is_open(ph_device *device, uint64_t capture_id)
{
    bool open = false;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count; i++)
        open = open || device->captures.at[i]->id == capture_id;
    pthread_mutex_unlock(&device->capture_lock);
    return open;
}

/* One that is just beginning has no id here yet. Ours are over at the driver before they leave
 * the list: what is not on it and still seen on the stream is somebody else's. */
bool ph__capture_is_foreign(const ph_stream *stream, uint64_t capture_id)
{
    ph_device *device = stream->device;
    ph__drv_capture again;
    bool ours = false;
    if (capture_id == 0)
        return false;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count && !ours; i++)
        ours = device->captures.at[i]->id == capture_id || device->captures.at[i]->id == 0;
    bool foreign = !ours && device->driver->capture_get(&again, stream->handle) == PH__R_OK &&
                   again.status != PH_CAPTURE_NONE && again.id == capture_id;
    pthread_mutex_unlock(&device->capture_lock);
    if (foreign)
        atomic_store(&device->foreign, true);
    return foreign;
}

void *ph__capture_owner_locked(const ph_device *device, uint64_t capture_id)
{
    for (size_t i = 0; i < device->captures.count; i++)
        if (device->captures.at[i]->id == capture_id)
            return device->captures.at[i]->owner;
    return NULL;
}

/* Whoever reads the captured graph finds the kernel by its handle: until then it must not go,
 * though its user lets go of it. Under capture_lock. */
static bool retain_kernel(ph__capture *capture, ph_kernel *kernel)
{
    uint64_t key = (uintptr_t)kernel;
    if (ph__map_get(&capture->kernels, key))
        return true;
    if (!ph__map_put(&capture->kernels, key, kernel))
        return false;
    ph_kernel_retain(kernel);
    return true;
}

/* Open, or over and being read. */
static ph__capture *find_capture_locked(const ph_device *device, uint64_t capture_id)
{
    for (size_t i = 0; i < device->captures.count; i++)
        if (device->captures.at[i]->id == capture_id)
            return device->captures.at[i];
    ph__capture *capture = device->reading;
    while (capture && capture->id != capture_id)
        capture = capture->next_reading;
    return capture;
}

bool ph__capture_keep_kernel(ph_stream *stream, ph_kernel *kernel, uint64_t capture_id)
{
    ph_device *device = stream->device;
    bool ours = false, kept = true;
    if (atomic_load_explicit(&kernel->kept_in, memory_order_relaxed) == capture_id)
        return true;
    pthread_mutex_lock(&device->capture_lock);
    ph__capture *capture = find_capture_locked(device, capture_id);
    ours = capture != NULL;
    if (ours)
        kept = retain_kernel(capture, kernel);
    if (ours && kept)
        atomic_store_explicit(&kernel->kept_in, capture_id, memory_order_relaxed);
    pthread_mutex_unlock(&device->capture_lock);
    if (!ours) {                                          /* somebody else's, or over and read */
        (void)ph__capture_is_foreign(stream, capture_id); /* which is remembered */
        device->driver->kernel_keep(kernel->handle);
    }
    return kept;
}

bool ph__capture_keep_event(ph_device *device, ph_event *event, uint64_t capture_id)
{
    pthread_mutex_lock(&device->capture_lock);
    ph__capture *capture = find_capture_locked(device, capture_id);
    uint64_t key = (uintptr_t)event;
    bool kept = true;
    if (capture && !ph__map_get(&capture->events, key)) {
        kept = ph__map_put(&capture->events, key, event);
        if (kept)
            ph__event_retain(event);
    }
    pthread_mutex_unlock(&device->capture_lock);
    return kept;
}

ph__map ph__capture_acquire_events(ph__capture *capture)
{
    ph__map events = capture->events;
    capture->events = (ph__map){0};
    return events;
}

void ph__device_defer(ph_device *device, ph__deferred *item)
{
    pthread_mutex_lock(&device->capture_lock);
    bool wait = atomic_load(&device->open_captures) != 0;
    if (wait) {
        item->next = NULL;
        if (device->deferred_last)
            device->deferred_last->next = item;
        else
            device->deferred_first = item;
        device->deferred_last = item;
    }
    pthread_mutex_unlock(&device->capture_lock);
    if (!wait)
        item->fn(item);
}
