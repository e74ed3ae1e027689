/* SPDX-License-Identifier: MIT */
/* driver/driver.h: the one interface below which devices differ: a table of functions that
 * behave as CUDA's driver API does, with its numbers (driver.def). Nothing above knows which
 * driver it talks to. A driver is a folder with one `const ph__driver`.
 *
 * Contract of every entry:
 * - Returns CUDA's number (0 is success); outputs are written on success only. Leaves the
 *   calling thread's CUDA context as it was. Which entry is legal in which capture is the driver
 *   column of rules.def; an illegal one returns its number and invalidates the captures that it
 *   offends, as CUDA does.
 * - Thread-safe. Holds no lock of the layers above. `destroy` entries take NULL, are legal in
 *   every capture, and never fail.
 * - Does not touch the error record. For a failure whose number says too little,
 *   ph__driver_reason() has words, per thread.
 * - Allocates host memory only through base/alloc.h and answers 2 when there is none. */
#ifndef PH_DRIVER_DRIVER_H
#define PH_DRIVER_DRIVER_H
#include "driver/fail.h"
#include "driver/names.h"
#include "driver/node.h"
#include "driver/reason.h"
#include "driver/result.h"
#include "driver/types.h"

typedef struct ph__driver {
    const char *name;
#define PH__ENTRY(type, name, parameters) type(*name) parameters;
#include "driver/driver.def"
} ph__driver;

/* The implementations, each in its folder's table. The list of them is device/handles/drivers.h. */
extern const ph__driver ph__driver_cuda, ph__driver_host;

#endif
