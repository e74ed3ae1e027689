/* SPDX-License-Identifier: MIT */
/* driver/reason.h: a failed call's words: set by drivers, read by the layer above right after the
 * failure, on the same thread. */
#ifndef PH_DRIVER_REASON_H
#define PH_DRIVER_REASON_H
#include <phonograph/status.h>
#include <stdatomic.h>
#include <stdbool.h>

/* "" when there are none. */
const char *ph__driver_reason(void);
void ph__driver_set_reason(const char *format, ...) PH_PRINTF(1, 2);
void ph__driver_clear_reason(void);
/* Whether the calling thread has words. The number of threads that have some stands in front: a
 * word that is nearly always zero, and unlike a thread's own costs no call in a library that was
 * loaded by dlopen. Threads that end with words stay counted, which costs that call alone. */
extern atomic_uint ph__driver_reasons __attribute__((visibility("hidden")));
bool ph__driver_thread_has_reason(void);
/* Whether it has words, or runs a callback: threads that do are counted, too (callback.h). */
bool ph__driver_thread_is_noted(void);
bool ph__driver_in_callback(void);
/* enter: how many it ran already; leave: whether none is left. */
unsigned ph__driver_enter_callback(void);
bool ph__driver_leave_callback(void);
void ph__driver_leave_callbacks(void);
/* Around a kernel that runs within the call which submitted it, and whether one does. */
void ph__driver_enter_inline(void);
void ph__driver_leave_inline(void);
bool ph__driver_in_inline(void);
static inline bool ph__driver_may_have_reason(void)
{
    return atomic_load_explicit(&ph__driver_reasons, memory_order_relaxed) != 0;
}
static inline bool ph__driver_has_reason(void)
{
    return ph__driver_may_have_reason() && ph__driver_thread_has_reason();
}
#endif
