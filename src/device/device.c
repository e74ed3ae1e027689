/* SPDX-License-Identifier: MIT */
/* device/device.c: opening and closing devices, what is attached to them, what they are. */
#include "device/device.h"
#include "base/alloc.h"
#include "base/fork.h"
#include "base/option.h"
#include "device/annotate/nvtx.h"
#include "device/drivers.h"
#include "device/name.h"
#include "device/stream.h"
#include "driver/fault.h"
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof((ph_device *)0)->name == PH__DEVICE_NAME_BYTES, "room for every setting");
_Static_assert(sizeof((ph_device_info *)0)->name == PH__DEVICE_NAME_BYTES,
               "room for every setting");

/* Every open device of the process, for who comes with a handle of the driver's instead of a
 * device. */
static pthread_mutex_t open_lock = PTHREAD_MUTEX_INITIALIZER;
static ph_device *open_devices;

static void enter_list(ph_device *device)
{
    pthread_mutex_lock(&open_lock);
    ph_device **at = &open_devices;
    while (*at)
        at = &(*at)->next_open;
    *at = device;
    pthread_mutex_unlock(&open_lock);
}

static void leave_list(ph_device *device)
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
static void abandon(ph_device *device)
{
    device->forked = true;
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

static void abandon_all(void)
{
    for (ph_device *device = open_devices; device; device = device->next_open)
        abandon(device);
    open_devices = NULL;
}
PH__FORK_PART(.order = PH__FORK_DEVICES, .lock = &open_lock, .child = abandon_all)

ph_status ph__fail_forked(const ph_device *device, const char *call)
{
    return ph_fail(PH_ERROR_STATE, "%s: %s (%s)", call, ph__driver_forked_words, device->name);
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

/* NULL: this build has none. */
static const ph__driver *driver_named(const char *name)
{
    for (size_t i = 0; ph__drivers[i]; i++)
        if (strcmp(ph__drivers[i]->name, name) == 0)
            return ph__drivers[i];
    return NULL;
}

static ph_status fail_ordinal(const ph__device_name *name, uint32_t count, const char *call)
{
    const char *driver = name->driver;
    unsigned ordinal = (unsigned)name->ordinal;
    if (count == 1)
        return ph__fail_native(PH_ERROR_NOT_FOUND, PH__R_INVALID_DEVICE, PH__NAME_DEVICE_GET,
                               "%s: there is no device %s:%u: the only one is \"%s\"", call, driver,
                               ordinal, driver);
    return ph__fail_native(PH_ERROR_NOT_FOUND, PH__R_INVALID_DEVICE, PH__NAME_DEVICE_GET,
                           "%s: there is no device %s:%u: there are \"%s:0\" to \"%s:%u\"", call,
                           driver, ordinal, driver, driver, (unsigned)count - 1);
}

/* The driver that a parsed name means: for "auto" the first that has a device. */
static ph_status choose_driver(const ph__driver **out, const ph__device_name *name,
                               const char *call)
{
    char version[48], reason[256] = "";
    uint32_t count = 0;
    if (strcmp(name->driver, "auto") == 0) {
        for (size_t i = 0; ph__drivers[i]; i++) {
            ph__drivers[i]->describe(version, &count, reason);
            if (reason[0] == '\0' && count > name->ordinal) {
                *out = ph__drivers[i];
                return PH_OK;
            }
        }
        return ph__fail_native(PH_ERROR_NOT_FOUND, PH__R_INVALID_DEVICE, PH__NAME_DEVICE_GET,
                               "%s: no driver has a device %u; \"auto\" is the first that there is",
                               call, (unsigned)name->ordinal);
    }
    const ph__driver *driver = driver_named(name->driver);
    if (!driver)
        return ph__fail_native(PH_ERROR_NOT_FOUND, PH__R_NO_DEVICE, PH__NAME_INIT,
                               "%s: this build has no %s driver; \"host\" works everywhere", call,
                               name->driver);
    driver->describe(version, &count, reason);
    if (reason[0] != '\0')
        return ph__fail_native(PH_ERROR_NOT_FOUND, PH__R_NO_DEVICE, PH__NAME_INIT,
                               "%s: the %s driver cannot be used: %s", call, name->driver, reason);
    if (name->ordinal >= count)
        return fail_ordinal(name, count, call);
    *out = driver;
    return PH_OK;
}

static ph_status open_handle(ph_device *device, const ph__device_name *name, const char *call)
{
    ph__drv_device_options options = {device->options.host_threads, device->options.host_chaos_seed,
                                      device->options.host_memory_bytes};
    int result = device->driver->device_open(&device->handle, name->ordinal, &options);
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the device");
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_CTX_CREATE, "%s: opening %s:%u", call, name->driver,
                               (unsigned)name->ordinal);
    ph__drv_device_info info;
    result = device->driver->device_info(&info, device->handle);
    if (result != PH__R_OK) {
        ph_status status = ph__driver_fail(result, PH__NAME_DEVICE_GET_ATTRIBUTE,
                                           "%s: reading the device's properties", call);
        device->driver->device_close(device->handle);
        return status;
    }
    device->ordinal = name->ordinal;
    device->segment_granularity = info.segment_granularity;
    device->priority_lowest = info.priority_lowest;
    device->priority_highest = info.priority_highest;
    ph__device_name_format(device->name, device->driver->name, name->ordinal, &device->options);
    return PH_OK;
}

ph_status ph_device_open(ph_device **out, const char *name, const ph_device_options *options)
{
    static const char call[] = "ph_device_open";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!name)
        return ph__fail_null(call, "name");
    if (options && !PH__RESERVED_OK(options))
        return ph__fail_reserved(call, "ph_device_options");
    if (options)
        PH_TRY(ph__option_no_zero(options->host_threads, "host_threads", call));
    if (options && options->host_threads > 1024)
        return ph__fail_native(PH_ERROR_ARGUMENT, 0, NULL, "%s: host_threads is %u; at most 1024",
                               call, (unsigned)options->host_threads);
    ph_device_options settings = {0};
    if (options)
        settings = *options;
    PH_TRY(ph__option_no_zero(settings.host_chaos_seed, "host_chaos_seed", call));
    PH_TRY(ph__option_no_zero(settings.host_memory_bytes, "host_memory_bytes", call));
    if (!ph__fork_handled())
        return ph__fail_host_memory(call, "the handler of fork()");
    ph__device_name parsed;
    const ph__driver *driver = NULL;
    PH_TRY(ph__device_name_parse(&parsed, &settings, name, call));
    PH_TRY(choose_driver(&driver, &parsed, call));
    ph_device *device = ph__calloc(1, sizeof *device);
    if (!device)
        return ph__fail_host_memory(call, "the device");
    ph__nvtx_start();
    atomic_init(&device->references, 1);
    device->driver = ph__driver_faulty(driver);
    device->options = settings;
    ph_status status = open_handle(device, &parsed, call);
    if (status != PH_OK) {
        ph__free(device);
        return status;
    }
    pthread_mutex_init(&device->attach_lock, NULL);
    pthread_mutex_init(&device->capture_lock, NULL);
    ph__stream_init_default(device);
    enter_list(device);
    *out = device;
    return PH_OK;
}

ph_device *ph_device_retain(ph_device *device)
{
    if (device)
        atomic_fetch_add_explicit(&device->references, 1, memory_order_relaxed);
    return device;
}

void ph_device_release(ph_device *device)
{
    if (!device || atomic_fetch_sub_explicit(&device->references, 1, memory_order_acq_rel) != 1)
        return;
    if (device->forked)
        return;
    leave_list(device);
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

ph_status ph_device_get_info(ph_device_info *out, const ph_device *device)
{
    static const char call[] = "ph_device_get_info";
    if (!out)
        return ph__fail_null(call, "out");
    memset(out, 0, sizeof *out);
    if (!device)
        return ph__fail_null(call, "device");
    PH_TRY(ph__device_check(device, call));
    ph__drv_device_info info;
    int result = device->driver->device_info(&info, device->handle);
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_MEM_GET_INFO, "%s", call);
    (void)snprintf(out->name, sizeof out->name, "%s", device->name);
    (void)snprintf(out->driver, sizeof out->driver, "%s", device->driver->name);
    (void)snprintf(out->description, sizeof out->description, "%s", info.description);
    out->memory_total = info.memory_total;
    out->memory_free = info.memory_free;
    out->threads = info.threads;
    out->stream_priority_lowest = info.priority_lowest;
    out->stream_priority_highest = info.priority_highest;
    out->multiprocessors = info.multiprocessors;
    out->compute_capability = info.compute_capability;
    out->shared_bytes_per_block_max = info.shared_bytes_per_block_max;
    out->kind = info.kind;
    out->ordinal = device->ordinal;
    return PH_OK;
}

ph_status ph_driver_get_info(ph_driver_info *out, size_t index)
{
    static const char call[] = "ph_driver_get_info";
    if (!out)
        return ph__fail_null(call, "out");
    memset(out, 0, sizeof *out);
    size_t count = 0;
    while (ph__drivers[count])
        count++;
    if (index >= count)
        return ph__fail_native(PH_ERROR_NOT_FOUND, 0, NULL,
                               "%s: index %zu, and there %s %zu driver%s", call, index,
                               count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    (void)snprintf(out->name, sizeof out->name, "%s", ph__drivers[index]->name);
    ph__drivers[index]->describe(out->version, &out->device_count, out->reason);
    return PH_OK;
}

ph_stream *ph_device_default_stream(ph_device *device)
{
    return device ? &device->default_stream : NULL;
}

ph_status ph_device_synchronize(ph_device *device)
{
    static const char call[] = "ph_device_synchronize";
    if (!device)
        return ph__fail_null(call, "device");
    PH_TRY(ph__device_check(device, call));
    ph__shared_lock(&device->syncs);
    ph_status status = ph__rule_check(device, PH__RULE_DEVICE_SYNC);
    int result = status == PH_OK ? device->driver->device_synchronize(device->handle) : PH__R_OK;
    ph__shared_unlock(&device->syncs);
    return result == PH__R_OK ? status
                              : ph__driver_fail(result, PH__NAME_CTX_SYNCHRONIZE, "%s", call);
}
