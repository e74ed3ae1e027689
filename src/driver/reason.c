/* SPDX-License-Identifier: MIT */
/* driver/reason.c: a failed call's words, of each thread. */
#include "driver/reason.h"
#include "base/line.h"

static _Thread_local char reason[256];
static _Thread_local bool has_reason;
atomic_uint ph__driver_reasons;

const char *ph__driver_reason(void)
{
    return reason;
}

void ph__driver_set_reason(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ph__line_vformat(reason, sizeof reason, format, args);
    va_end(args);
    if (!has_reason)
        atomic_fetch_add_explicit(&ph__driver_reasons, 1, memory_order_relaxed);
    has_reason = true;
}

void ph__driver_clear_reason(void)
{
    reason[0] = '\0';
    if (has_reason)
        atomic_fetch_sub_explicit(&ph__driver_reasons, 1, memory_order_relaxed);
    has_reason = false;
}

bool ph__driver_thread_has_reason(void)
{
    return has_reason;
}
