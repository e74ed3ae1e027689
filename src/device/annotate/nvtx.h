/* SPDX-License-Identifier: MIT */
/* device/annotate/nvtx.h: ranges for tools that listen to NVTX (Nsight Systems, say), in a domain
 * "phonograph". */
#ifndef PH_DEVICE_ANNOTATE_NVTX_H
#define PH_DEVICE_ANNOTATE_NVTX_H
#include "device/annotate/nvtx_abi.h"
#include <stdbool.h>

/* Whether a tool listens: found out once in the process, when the first device is opened. */
extern bool ph__nvtx_listens;
void ph__nvtx_start(void);

/* The start of the tool that NVTX_INJECTION64_PATH names; where that is this library
 * (nvtx_heard.c), of the one that PH_NVTX_NEXT names: never this library's own. NULL: there is
 * none. */
ph__nvtx_start_fn ph__nvtx_find_tool(void);

/* While one does: a range of the calling thread, and its end. Ranges of a thread end in reverse
 * order. */
void ph__nvtx_push(const char *name);
void ph__nvtx_pop(void);
static inline bool ph__nvtx_on(void)
{
    return __builtin_expect(ph__nvtx_listens, false);
}
#endif
