/* SPDX-License-Identifier: MIT */
/* inspect/verify/blocks.h: the block that an address is in. */
#ifndef PH_INSPECT_VERIFY_BLOCKS_H
#define PH_INSPECT_VERIFY_BLOCKS_H
#include "inspect/verify/verify.h"
#include "memory/state/allocation.h"

/* The last block there that the capture was given, or what is allocated there. */
bool ph__verify_find_block(ph_allocation *out, const ph__verify *verify, uintptr_t address);
#endif
