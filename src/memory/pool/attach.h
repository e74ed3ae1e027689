/* SPDX-License-Identifier: MIT */
/* memory/pool/attach.h: the memory state of a device, made at first use. */
#ifndef PH_MEMORY_POOL_ATTACH_H
#define PH_MEMORY_POOL_ATTACH_H
#include "memory/state/memory_state.h"

ph__memory *ph__memory_attach(ph_device *device, const char *call); /* NULL with the record set */
#endif
