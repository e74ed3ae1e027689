/* SPDX-License-Identifier: MIT */
/* device/annotate/stack.h: the stack of a thread's scopes. */
#ifndef PH_DEVICE_ANNOTATE_STACK_H
#define PH_DEVICE_ANNOTATE_STACK_H
#include "device/annotate/ambient.h"

/* Ranges of the program's that are open and have no scope: the innermost ones. */
extern _Thread_local size_t ph__scopes_unheard __attribute__((visibility("hidden")));
/* Room for the next scope; NULL: no host memory. */
ph__scope *ph__scope_new(void);
/* Opens it on the calling thread. given: what it has that the outer ones need not give. */
void ph__scope_push(ph__scope *scope, const ph__pairs *given, size_t count);
/* The innermost scope. */
void ph__scope_pop(void);
/* The innermost scope, and those around it that have ended already. */
void ph__scope_pop_ended(void);
#endif
