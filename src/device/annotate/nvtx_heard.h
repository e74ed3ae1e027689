/* SPDX-License-Identifier: MIT */
/* device/annotate/nvtx_heard.h: ranges that other code of the program tells NVTX of, as scopes. */
#ifndef PH_DEVICE_ANNOTATE_NVTX_HEARD_H
#define PH_DEVICE_ANNOTATE_NVTX_HEARD_H
#include <phonograph/annotation.h>

/* scopes.c: a scope of the calling thread that no call of the program's began: it has a name, and
 * no stream. domain: whose ranges end it. */
void ph__scope_push_range(const void *domain, const char *name);
/* Ends the innermost range of that domain. Scopes that were begun inside it and are still open keep
 * it until they end. */
void ph__scope_pop_range(const void *domain);
#endif
