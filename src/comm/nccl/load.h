/* SPDX-License-Identifier: MIT */
/* comm/nccl/load.h: NCCL, found when it is first needed. */
#ifndef PH_COMM_NCCL_LOAD_H
#define PH_COMM_NCCL_LOAD_H
#include "base/status.h"
#include "comm/nccl/abi.h"

/* Valid once ph__nccl_load has succeeded, and then for good. */
extern ph__nccl_functions ph__nccl_api;
extern ph__nccl_memory_functions ph__nccl_memory_api; /* NULL: what an older one does not have */
int ph__nccl_version(void);                           /* 22809 for 2.28.9 */

/* UNSUPPORTED: none is found, or one older than 2.18. STATE: it was found in a process that this
 * one was forked from. */
ph_status ph__nccl_load(const char *call);
#endif
