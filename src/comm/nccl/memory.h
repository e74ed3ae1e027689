/* SPDX-License-Identifier: MIT */
/* comm/nccl/memory.h: memory that NCCL allocates, and registers with one communicator. */
#ifndef PH_COMM_NCCL_MEMORY_H
#define PH_COMM_NCCL_MEMORY_H
#include "comm/nccl/nccl.h"

/* Whether the NCCL that was loaded is 2.19 or newer, and has the calls. */
bool ph__nccl_has_memory(void);
/* Allocates and registers. NCCL may still be busy with it: ph__nccl_test says when not. The caller
 * keeps others from submitting to the communicator meanwhile. */
ph_status ph__nccl_memory_create(void **out, void **registration, ph__nccl *nccl, size_t bytes);
/* Ends the registration. False: NCCL has not let go of the memory, as when it is being aborted. No
 * other thread submits meanwhile. */
bool ph__nccl_deregister(ph__nccl *nccl, void *registration);
/* Gives memory back that is registered no more. */
void ph__nccl_memory_destroy(ph_device *device, void *memory);
#endif
