/* SPDX-License-Identifier: MIT */
/* driver/fault.h: faults for tests. */
#ifndef PH_DRIVER_FAULT_H
#define PH_DRIVER_FAULT_H
#include "driver/driver.h"

/* The n-th driver.h entry from now on answers `result` and does nothing;
 * -1: never. Wraps every fallible entry of a driver; ph__driver_faulty(d) is the table that the
 * device layer uses, so that sweeps reach every call. Per process. */
const ph__driver *ph__driver_faulty(const ph__driver *driver);
void ph__driver_fail_after(int64_t n, int result);
int64_t ph__driver_calls(void); /* since the first question, or the first fail_after */
/* The next call of the entry of that name ("copy") first runs fn, once, on the calling thread:
 * what another thread does between a question and a submission. */
void ph__driver_before(const char *entry, void (*fn)(void *user), void *user);
#endif
