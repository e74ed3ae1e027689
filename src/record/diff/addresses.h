/* SPDX-License-Identifier: MIT */
/* record/diff/addresses.h: whether two records address the same memory. */
#ifndef PH_RECORD_DIFF_ADDRESSES_H
#define PH_RECORD_DIFF_ADDRESSES_H
#include "record/record.h"

/* True: node by node, both address the same memory of those that were allocated up to the
 * generation. False: they may do so even so. The driver is not asked about memory of other code's:
 * where a word may prove to be an address of such memory, it is false. */
bool ph__records_have_same_addresses(const ph_record *a, const ph_record *b,
                                     const ph_device *device, uint64_t generation);
#endif
