/* SPDX-License-Identifier: MIT */
/* device/handles/device.c: the devices that are open, their references, and what is attached to
 * them. */
#include "device/handles/device.h"
#include "base/alloc.h"
#include "base/fork.h"
#include "base/log.h"
#include "device/handles/later.h"
#include "device/handles/own_kernels.h"
#include "driver/callback.h"
#include "driver/forked.h"
#include "driver/result.h"
#include <stddef.h>

/* Every open device of the process, for who comes with a handle of the driver's instead of a
 * device. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static ph_device *open_devices;
atomic_uint ph__captures_open;

void ph__device_enter_list(ph_device *device)
{
    pthread_mutex_lock(&open_lock);
    ph_device **at = &open_devices;
    while (*at)
        at = &(*at)->next_open;
    *at = device;
    pthread_mutex_unlock(&open_lock);
}

static void remove_from_list(ph_device *device)
{
    pthread_mutex_lock(&open_lock);
    ph_device **at = &open_devices;
    while (*at != device)
        at = &(*at)->next_open;
    *at = device->next_open;
    pthread_mutex_unlock(&open_lock);
}

/* The child has none of the threads that hold locks of these devices, run their streams or capture
 * on them. */
static void abandon_device(ph_device *device)
{
    device->forked = true;
    atomic_fetch_add(&ph__driver_reasons, 1);
    device->driver = &ph__driver_forked;
    atomic_store(&device->open_captures, 0);
    atomic_store(&device->open_checks, 0);
    atomic_store(&device->foreign, false);
    for (int slot = 0; slot < PH__ATTACH_COUNT; slot++)
        atomic_store(&device->attached[slot], NULL);
    pthread_mutex_init(&device->attach_lock, NULL);
    pthread_mutex_init(&device->capture_lock, NULL);
    device->cells_lock = (ph__mutex){0};
    device->captures.count = 0;
    device->deferred_first = device->deferred_last = NULL;
    atomic_store(&device->legacy_calls, 0);
    atomic_store(&device->legacy_waiters, 0);
}

/* Devices of a process before the last one count as well: a child's child has them too. */
static void abandon_all(void)
{
    static bool has_forked;
    atomic_store(&ph__captures_open, 0);
    if (has_forked)
        atomic_fetch_add(&ph__driver_reasons, 1);
    has_forked = has_forked || open_devices != NULL;
    for (ph_device *device = open_devices; device; device = device->next_open)
        abandon_device(device);
    open_devices = NULL;
}
PH__FORK_PART(.order = PH__FORK_DEVICES, .lock = &open_lock, .child = abandon_all)

ph_status ph__fail_forked(const ph_device *device, const char *call)
{
    return ph_fail(PH_ERROR_STATE, "%s: %s (%s)", call, ph__driver_forked_words, device->name);
}

ph_status ph__device_refuse(const ph_device *device, const char *call)
{
    if (device->forked)
        return ph__fail_forked(device, call);
    return ph__driver_in_callback() ? ph__fail_native(PH_ERROR_STATE, PH__R_NOT_PERMITTED, NULL,
                                                      "%s: %s", call, ph__driver_callback_words)
                                    : PH_OK;
}

/* One that is on its way out is none. */
static bool try_retain(ph_device *device)
{
    int count = atomic_load(&device->references);
    while (count > 0)
        if (atomic_compare_exchange_weak(&device->references, &count, count + 1))
            return true;
    return false;
}

ph_device *ph__device_find_open(const ph__driver *driver, uint32_t ordinal)
{
    pthread_mutex_lock(&open_lock);
    ph_device *device = open_devices;
    while (device &&
           !(device->driver == driver && device->ordinal == ordinal && try_retain(device)))
        device = device->next_open;
    pthread_mutex_unlock(&open_lock);
    return device;
}

ph_device *ph__device_next_open(const ph_device *after)
{
    pthread_mutex_lock(&open_lock);
    ph_device *device = after ? after->next_open : open_devices;
    while (device && !try_retain(device))
        device = device->next_open;
    pthread_mutex_unlock(&open_lock);
    return device;
}

bool ph__device_others_have(const ph_device *device, const void *address)
{
    bool found = false;
    pthread_mutex_lock(&open_lock);
    for (ph_device *other = open_devices; other && !found; other = other->next_open)
        for (int slot = 0; other != device && slot < PH__ATTACH_COUNT && !found; slot++) {
            ph_allocation allocation;
            ph__attachment *attachment = ph__device_attached(other, slot);
            found = attachment && attachment->find &&
                    attachment->find(attachment, &allocation, address);
        }
    pthread_mutex_unlock(&open_lock);
    return found;
}

ph_device *ph_device_retain(ph_device *device)
{
    if (device)
        atomic_fetch_add_explicit(&device->references, 1, memory_order_relaxed);
    return device;
}

static void close_device(ph_device *device)
{
    remove_from_list(device);
    /* The attachments may still submit work and make calls that set the record; a release never
     * does. */
    ph_error saved;
    ph__error_save(&saved);
    for (int slot = 0; slot < PH__ATTACH_COUNT; slot++) {
        ph__attachment *attachment = ph__device_attached(device, slot);
        if (attachment)
            attachment->destroy(attachment);
    }
    ph__device_drop_own_kernels(device);
    device->driver->device_close(device->handle);
    ph__error_restore(&saved);
    pthread_mutex_destroy(&device->attach_lock);
    pthread_mutex_destroy(&device->capture_lock);
    ph__vec_free(&device->captures);
    ph__free(device);
}

static void close_later(ph__deferred *item)
{
    close_device((ph_device *)(void *)((char *)item - offsetof(ph_device, closing)));
}

/* The close waits for all work of the device, and so for the caller. An inline kernel's call goes
 * on with the device behind it: no other thread may close it meanwhile. */
static void close_from_inside(ph_device *device)
{
    device->closing.fn = close_later;
    if (!ph__driver_refuses_destroy() && ph__later_run(&device->closing))
        return;
    ph__log(PH_LOG_WARNING, "ph_device_release, of the last reference to %s: %s; it stays open",
            device->name, ph__driver_callback_words);
}

void ph_device_release(ph_device *device)
{
    if (!device || atomic_fetch_sub_explicit(&device->references, 1, memory_order_acq_rel) != 1)
        return;
    if (device->forked)
        return;
    if (ph__driver_refuses())
        close_from_inside(device);
    else
        close_device(device);
}

ph__attachment *ph__device_attach(ph_device *device, int slot,
                                  ph__attachment *(*create)(ph_device *device))
{
    ph__attachment *attachment = ph__device_attached(device, slot);
    if (attachment)
        return attachment;
    pthread_mutex_lock(&device->attach_lock);
    attachment = ph__device_attached(device, slot);
    if (!attachment) {
        attachment = create(device);
        if (attachment)
            atomic_store_explicit(&device->attached[slot], attachment, memory_order_release);
    }
    pthread_mutex_unlock(&device->attach_lock);
    return attachment;
}

ph_status ph__fail_devices(const char *call, const char *what, const ph_device *device,
                           const char *other_what, const ph_device *other)
{
    PH_TRY(ph__device_check(device, call));
    PH_TRY(ph__device_check(other, call));
    return ph__fail_native(PH_ERROR_WRONG_DEVICE, 0, NULL,
                           "%s: %s is of one device (%s), %s of another (%s); every ph_device_open "
                           "makes a device of its own: "
                           "use handles of one and the same",
                           call, what, device->name, other_what, other->name);
}
