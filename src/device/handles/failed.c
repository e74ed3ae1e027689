/* SPDX-License-Identifier: MIT */
/* device/handles/failed.c: failures of work that has run on a device. */
#include "device/handles/failed.h"

void ph__failed_add(ph_device *device, ph__failed_work *work)
{
    ph__mutex_lock(&device->failed_lock);
    ph__failed_work **at = &device->failed;
    while (*at)
        at = &(*at)->next;
    work->next = NULL;
    *at = work;
    atomic_fetch_add(&device->failed_count, 1);
    ph__mutex_unlock(&device->failed_lock);
}

void ph__failed_remove(ph_device *device, ph__failed_work *work)
{
    ph__mutex_lock(&device->failed_lock);
    ph__failed_work **at = &device->failed;
    while (*at && *at != work)
        at = &(*at)->next;
    if (*at) {
        *at = work->next;
        atomic_fetch_sub(&device->failed_count, 1);
    }
    ph__mutex_unlock(&device->failed_lock);
}

ph_status ph__failed_report(ph_device *device, const char *call)
{
    ph_error error = {.status = PH_OK};
    ph__mutex_lock(&device->failed_lock);
    if (device->failed)
        error = device->failed->error;
    ph__mutex_unlock(&device->failed_lock);
    if (error.status == PH_OK)
        return PH_OK;
    ph_ignore(ph_error_set(&error));
    ph__error_prefix("%s: a collective before has failed", call);
    return error.status;
}
