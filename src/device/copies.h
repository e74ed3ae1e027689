/* SPDX-License-Identifier: MIT */
/* device/copies.h: checks of copies and fills. */
#ifndef PH_DEVICE_COPIES_H
#define PH_DEVICE_COPIES_H
#include "base/status.h"
#include "driver/driver.h"

/* Checks a copy or fill against allocations and overlap, as ph_memcpy and ph_memset do.
 * pageable: whether a side is pageable memory; NULL where that is refused. */
ph_status ph__copy_check(bool *pageable, ph_device *device, const ph__drv_memcpy *copy,
                         const char *call);
ph_status ph__fill_check(ph_device *device, const ph__drv_memset *fill, const char *call);
/* Whether so many bytes of the device's own or pinned memory are there: ARGUMENT, SIZE. side: the
 * name of the argument. */
ph_status ph__memory_check(ph_device *device, const void *address, size_t bytes, const char *side,
                           const char *call);
#endif
