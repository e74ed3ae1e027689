/* SPDX-License-Identifier: MIT */
/* device/handles/failed.h: failures of work that has run on a device, which its waits report. */
#ifndef PH_DEVICE_HANDLES_FAILED_H
#define PH_DEVICE_HANDLES_FAILED_H
#include "device/handles/device.h"

/* The caller's, in the list of a device from add until remove. */
struct ph__failed_work {
    ph__failed_work *next;
    ph_error error; /* PH_OK: it has not failed yet */
    /* Waits call it before they report: it may find a failure, and set it. NULL: nothing to look
     * for. No lock is held. */
    void (*examine)(ph__failed_work *work);
    unsigned looking; /* threads that are in it */
};
/* Waits report the oldest that has failed. */
void ph__failed_add(ph_device *device, ph__failed_work *work);
/* Sets its failure, and adds it where it is not in the list. */
void ph__failed_set(ph_device *device, ph__failed_work *work, const ph_error *error);
/* Nothing where it is not in the list. Waits for threads that look. */
void ph__failed_remove(ph_device *device, ph__failed_work *work);

/* Behind a wait that has succeeded. */
ph_status ph__failed_report(ph_device *device, const char *call);
static inline ph_status ph__failed_check(ph_device *device, const char *call)
{
    return __builtin_expect(atomic_load_explicit(&device->failed_count, memory_order_acquire) != 0,
                            0)
               ? ph__failed_report(device, call)
               : PH_OK;
}
#endif
