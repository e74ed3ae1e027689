/* SPDX-License-Identifier: MIT */
/* driver/reason.c: a failed call's words, of each thread. */
#include "driver/reason.h"
#include "base/line.h"

/* depth: of callbacks that the thread runs (callback.h). */
static _Thread_local struct {
    char reason[256];
    bool has_reason, is_inline;
    unsigned depth;
} own;
atomic_uint ph__driver_reasons;

/* ---- callbacks ---- */
unsigned ph__driver_enter_callback(void)
{
    return own.depth++;
}

bool ph__driver_leave_callback(void)
{
    return own.depth > 0 && --own.depth == 0; /* 0: in a child, which has forked inside */
}

void ph__driver_leave_callbacks(void)
{
    own.depth = 0;
    own.is_inline = false;
}

bool ph__driver_in_callback(void)
{
    return own.depth > 0;
}

void ph__driver_enter_inline(void)
{
    own.is_inline = true;
    if (own.depth++ == 0)
        atomic_fetch_add_explicit(&ph__driver_reasons, 1, memory_order_relaxed);
}

/* Calls that were refused inside have left words. */
void ph__driver_leave_inline(void)
{
    own.is_inline = false;
    if (own.depth == 0 || --own.depth > 0) /* 0: in a child, which has forked inside */
        return;
    if (own.has_reason)
        ph__driver_clear_reason();
    atomic_fetch_sub_explicit(&ph__driver_reasons, 1, memory_order_relaxed);
}

bool ph__driver_in_inline(void)
{
    return own.is_inline;
}

bool ph__driver_thread_is_noted(void)
{
    return own.has_reason || own.depth > 0;
}

/* ---- words ---- */

const char *ph__driver_reason(void)
{
    return own.reason;
}

void ph__driver_set_reason(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    ph__line_vformat(own.reason, sizeof own.reason, format, args);
    va_end(args);
    if (!own.has_reason)
        atomic_fetch_add_explicit(&ph__driver_reasons, 1, memory_order_relaxed);
    own.has_reason = true;
}

void ph__driver_clear_reason(void)
{
    own.reason[0] = '\0';
    if (own.has_reason)
        atomic_fetch_sub_explicit(&ph__driver_reasons, 1, memory_order_relaxed);
    own.has_reason = false;
}

bool ph__driver_thread_has_reason(void)
{
    return own.has_reason;
}
