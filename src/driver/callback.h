/* SPDX-License-Identifier: MIT */
/* driver/callback.h: threads of the host device, on which host functions and bodies of kernels
 * run. No call of the library is permitted there, as none of CUDA's is: it could wait for the very
 * function that makes it. */
#ifndef PH_DRIVER_CALLBACK_H
#define PH_DRIVER_CALLBACK_H
#include "driver/reason.h"

/* Around all work that a thread of a stream runs, and around all that a thread does which helps
 * those; may be nested. */
void ph__driver_callbacks_begin(void);
void ph__driver_callbacks_end(void);

/* Whether the calling thread is one of them, and runs something. */
static inline bool ph__driver_refuses(void)
{
    return ph__driver_may_have_reason() && ph__driver_in_callback();
}
/* The same of a kernel that runs within the call which submitted it: that call goes on with its
 * stream and its graph. */
static inline bool ph__driver_refuses_destroy(void)
{
    return ph__driver_may_have_reason() && ph__driver_in_inline();
}
extern const char ph__driver_callback_words[];
/* Sets the reason, and gives 800. */
int ph__driver_refuse_callback(void);
#endif
