/* SPDX-License-Identifier: MIT */
/* tests/support/fault.h: failures of driver calls. A program that uses this runs with a table in
 * front of each driver's: its entries count the calls, and let one fail. The library has nothing
 * of it; the programs' start exchanges the pointers to its tables. */
#ifndef PH_TESTS_FAULT_H
#define PH_TESTS_FAULT_H
#include "driver/driver.h"

/* The n-th driver.h entry from now on answers `result` and does nothing;
 * -1: never. Per process, in any thread. */
void ph__driver_fail_after(int64_t n, int result);
int64_t ph__driver_calls(void); /* of all fallible entries, since the start */
/* The next call of the entry of that name ("copy") first runs fn, once, on the calling thread:
 * what another thread does between a question and a submission. */
void ph__driver_before(const char *entry, void (*fn)(void *user), void *user);

/* The table in front of a driver's: every fallible entry is wrapped. At most four drivers. */
const ph__driver *ph__driver_faulty(const ph__driver *driver);
/* Whether devices that are opened from now on have those tables, or the drivers' own. At the start
 * they have them. Other threads may be anywhere in a call: open devices keep what they have. */
void ph__driver_tables_exchange(bool faulty);
#endif
