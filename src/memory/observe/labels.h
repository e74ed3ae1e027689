/* SPDX-License-Identifier: MIT */
/* memory/observe/labels.h: the texts of announced blocks, for messages. */
#ifndef PH_MEMORY_OBSERVE_LABELS_H
#define PH_MEMORY_OBSERVE_LABELS_H
#include <phonograph/device.h>

/* The label of the announced block, and what ended it ("": it lives, or nothing is known), cut to
 * `size` bytes each; either may be NULL. false, and both "": the block is not known. */
bool ph__labels_copy(char *label, char *ended, size_t size, const ph_device *device,
                     const void *base, uint64_t generation);
#endif
