/* SPDX-License-Identifier: MIT */
/* driver/callback.c: threads on which host functions and bodies of kernels run. They count as
 * threads with a reason (reason.h), the word that every call reads already. */
#include "driver/callback.h"
#include "base/fork.h"
#include "driver/result.h"

const char ph__driver_callback_words[] =
    "called by a host function or by the body of a kernel, on the thread that runs it: no call is "
    "permitted there, since it could wait for that function itself; let the function signal "
    "another "
    "thread, which makes the call, or call behind ph_stream_synchronize";

/* A host function may fork: its child is a program of its own, in which no stream runs. */
static void leave_in_child(void)
{
    ph__driver_leave_callbacks();
    atomic_store(&ph__driver_reasons, ph__driver_thread_has_reason() ? 1 : 0);
}
PH__FORK_PART(.order = PH__FORK_CALLBACKS, .child = leave_in_child)

void ph__driver_callbacks_begin(void)
{
    if (ph__driver_enter_callback() == 0)
        atomic_fetch_add_explicit(&ph__driver_reasons, 1, memory_order_relaxed);
}

void ph__driver_callbacks_end(void)
{
    if (!ph__driver_leave_callback())
        return;
    ph__driver_clear_reason();
    atomic_fetch_sub_explicit(&ph__driver_reasons, 1, memory_order_relaxed);
}

int ph__driver_refuse_callback(void)
{
    ph__driver_set_reason("%s", ph__driver_callback_words);
    return PH__R_NOT_PERMITTED;
}
