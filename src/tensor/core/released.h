/* SPDX-License-Identifier: MIT */
/* tensor/core/released.h: handles behind their last release. Their memory is kept for a while and
 * is nothing else meanwhile, so that a call which gets such a handle may look at it, and refuses
 * it. */
#ifndef PH_TENSOR_CORE_RELEASED_H
#define PH_TENSOR_CORE_RELEASED_H
#include "base/ended.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/storage.h"

enum {
    /* In the process. Memory that is kept comes back cold: with 256 blocks and as many batches a
     * graphed forward took 1.2 times as long on the host, forward and backward 2.5 times. */
    PH__RELEASED_KEPT = 32,
    PH__RELEASED_BATCHES = 4
};
/* Released tensors are of these: no device, and no memory. */
extern ph__backend ph__backend_gone;
extern ph__storage ph__storage_gone;
extern ph__overwrite_tag ph__released_tag; /* with sequence 0: by which all readers know them */

/* Frees the block of a handle that is gone (x->gone), once so many others have come. Takes NULL.
 * Thread-safe. */
void ph__released_put(void *block);
void ph__released_put_batch(void *batch); /* of several handles */
/* The same for a block that was set aside (alloc.h). */
void ph__released_keep(void *block);
#endif
