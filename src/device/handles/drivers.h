/* SPDX-License-Identifier: MIT */
/* device/handles/drivers.h: the list of drivers. */
#ifndef PH_DEVICE_HANDLES_DRIVERS_H
#define PH_DEVICE_HANDLES_DRIVERS_H
#include "driver/driver.h"

/* All drivers of this build, in the order in which "auto" tries them; NULL-terminated. */
extern const ph__driver *const ph__drivers[];
#endif
