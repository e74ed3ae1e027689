/* SPDX-License-Identifier: MIT */
/* base/clock.c: monotonic time and sleeping. */
#include "base/clock.h"
#include <errno.h>
#include <time.h>

#define NS_PER_SECOND UINT64_C(1000000000)

uint64_t ph__now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

/* Sleeps to a point in time, so that signals do not lengthen it. */
void ph__sleep_ns(uint64_t ns)
{
    uint64_t until;
    if (__builtin_add_overflow(ph__now_ns(), ns, &until))
        until = UINT64_MAX;
    struct timespec at = {.tv_sec = (time_t)(until / NS_PER_SECOND),
                          .tv_nsec = (long)(until % NS_PER_SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) == EINTR)
        continue;
}
