/* SPDX-License-Identifier: MIT */
/* device/handles/drivers.h: the list of drivers, and the tables that their devices get. */
#ifndef PH_DEVICE_HANDLES_DRIVERS_H
#define PH_DEVICE_HANDLES_DRIVERS_H
#include "driver/driver.h"
#include <stdatomic.h>

/* All drivers of this build, in the order in which "auto" tries them; NULL-terminated. */
extern const ph__driver *const ph__drivers[];

/* For each of them the table that its devices get: the driver's own. Tests exchange it for one that
 * counts calls or lets one fail (tests/support/fault.h), at any time: a device keeps the table that
 * it was opened with, and no table ever goes. */
extern _Atomic(const ph__driver *) ph__driver_tables[];

/* The table for a device of the driver that is opened now. */
const ph__driver *ph__driver_table(const ph__driver *driver);
#endif
