/* SPDX-License-Identifier: MIT */
/* base/clock.h: monotonic time. */
#ifndef PH_BASE_CLOCK_H
#define PH_BASE_CLOCK_H
#include <stdint.h>
uint64_t ph__now_ns(void);
void ph__sleep_ns(uint64_t ns);
#endif
