/* SPDX-License-Identifier: MIT */
/* driver/fail.h: the error record of a driver call that has failed. */
#ifndef PH_DRIVER_FAIL_H
#define PH_DRIVER_FAIL_H
#include "driver/reason.h"
#include "driver/result.h"

/* 2 without words is the host's memory; with words the driver has said whose. */
static inline bool ph__result_is_host_memory(int result)
{
    return result == PH__R_OUT_OF_MEMORY && !ph__driver_has_reason();
}

/* Turns a driver's number into a status with the record set. call: the driver.h entry by the
 * name of its CUDA function. */
ph_status ph__driver_fail(int result, const char *driver_call, const char *format, ...)
    PH_PRINTF(3, 4);
#endif
