/* SPDX-License-Identifier: MIT */
/* device/handles/failed.c: failures of work that has run on a device. */
#include "device/handles/failed.h"

/* Under the lock. */
static void put_last(ph_device *device, ph__failed_work *work)
{
    ph__failed_work **at = &device->failed;
    while (*at && *at != work)
        at = &(*at)->next;
    if (*at)
        return;
    work->next = NULL;
    *at = work;
    atomic_fetch_add(&device->failed_count, 1);
}

void ph__failed_add(ph_device *device, ph__failed_work *work)
{
    ph__mutex_lock(&device->failed_lock);
    put_last(device, work);
    ph__mutex_unlock(&device->failed_lock);
}

void ph__failed_set(ph_device *device, ph__failed_work *work, const ph_error *error)
{
    ph__mutex_lock(&device->failed_lock);
    work->error = *error;
    put_last(device, work);
    ph__mutex_unlock(&device->failed_lock);
}

/* Under the lock. */
static void remove_work(ph_device *device, ph__failed_work *work)
{
    ph__failed_work **at = &device->failed;
    while (*at && *at != work)
        at = &(*at)->next;
    if (*at == NULL)
        return;
    *at = work->next;
    atomic_fetch_sub(&device->failed_count, 1);
}

void ph__failed_remove(ph_device *device, ph__failed_work *work)
{
    bool looking = true;
    for (unsigned round = 0; looking;) {
        ph__mutex_lock(&device->failed_lock);
        looking = work->looking > 0;
        if (!looking)
            remove_work(device, work);
        ph__mutex_unlock(&device->failed_lock);
        if (looking)
            ph__back_off(&round, 100);
    }
}

/* Under the lock, which it lets go while it looks. */
static void examine_work(ph_device *device, ph__failed_work *work)
{
    work->looking++;
    ph__mutex_unlock(&device->failed_lock);
    work->examine(work);
    ph__mutex_lock(&device->failed_lock);
    work->looking--;
}

ph_status ph__failed_report(ph_device *device, const char *call)
{
    ph_error error = {.status = PH_OK};
    ph__mutex_lock(&device->failed_lock);
    /* One that is looked at stays in the list. */
    for (ph__failed_work *work = device->failed; work && error.status == PH_OK; work = work->next) {
        if (work->error.status == PH_OK && work->examine)
            examine_work(device, work);
        error = work->error;
    }
    ph__mutex_unlock(&device->failed_lock);
    if (error.status == PH_OK)
        return PH_OK;
    ph_ignore(ph_error_set(&error));
    ph__error_prefix("%s: a collective before has failed", call);
    return error.status;
}
