/* SPDX-License-Identifier: MIT */
/* comm/nccl/control.h: bytes of the host between ranks over NCCL, where there is no MPI. */
#ifndef PH_COMM_NCCL_CONTROL_H
#define PH_COMM_NCCL_CONTROL_H
#include "comm/nccl/nccl.h"

/* Has all_gather, test, close and reason alone. A failure is of one communicator. */
extern const ph__engine ph__nccl_control;

/* A channel over a communicator of its own, which stays the caller's and outlives it. NULL, with
 * the record set. */
ph__channel *ph__nccl_open_channel(ph__nccl *nccl, ph_device *device, uint32_t rank, uint32_t size,
                                   const char *call);
#endif
