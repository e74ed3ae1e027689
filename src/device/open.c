/* SPDX-License-Identifier: MIT */
/* device/open.c: opening devices by their names, what they are, and waiting for them. */
#include "base/alloc.h"
#include "base/debug.h"
#include "base/fork.h"
#include "base/option.h"
#include "device/annotate/nvtx.h"
#include "device/capture/refuse.h"
#include "device/handles/device.h"
#include "device/handles/drivers.h"
#include "device/handles/failed.h"
#include "device/name.h"
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof((ph_device *)0)->name == PH__DEVICE_NAME_BYTES, "room for every setting");
_Static_assert(sizeof((ph_device_info *)0)->name == PH__DEVICE_NAME_BYTES,
               "room for every setting");

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
    PH_TRY(ph__debug_check(call));
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
    device->driver = ph__driver_table(driver);
    device->options = settings;
    ph_status status = open_handle(device, &parsed, call);
    if (status != PH_OK) {
        ph__free(device);
        return status;
    }
    pthread_mutex_init(&device->attach_lock, NULL);
    pthread_mutex_init(&device->capture_lock, NULL);
    ph__stream_init_default(device);
    ph__device_enter_list(device);
    *out = device;
    return PH_OK;
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
    if (result != PH__R_OK)
        return ph__driver_fail(result, PH__NAME_CTX_SYNCHRONIZE, "%s", call);
    return status == PH_OK ? ph__failed_check(device, call) : status;
}
