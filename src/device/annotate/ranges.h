/* SPDX-License-Identifier: MIT */
/* device/annotate/ranges.h: ranges that other code of the program tells NVTX of, as scopes. */
#ifndef PH_DEVICE_ANNOTATE_RANGES_H
#define PH_DEVICE_ANNOTATE_RANGES_H
#include <phonograph/annotation.h>

/* A scope of the calling thread that no call of the program's began: it has a name, and no stream.
 * domain: whose ranges end it. */
void ph__scope_push_range(const void *domain, const char *name);
/* Ends the innermost range of that domain. Scopes that were begun inside it and are still open keep
 * it until they end. */
void ph__scope_pop_range(const void *domain);
#endif
