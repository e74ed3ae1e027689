/* SPDX-License-Identifier: MIT */
/* tensor/products/products_workspace.h: memory that product algorithms clear and count in: never a
 * captured graph's own. */
#ifndef PH_TENSOR_PRODUCTS_PRODUCTS_WORKSPACE_H
#define PH_TENSOR_PRODUCTS_PRODUCTS_WORKSPACE_H
#include "base/vec.h"
#include <phonograph/graph.h>
#include <pthread.h>

/* One block for each stream that captures products which need one, in a pool of the device's.
 * Threads that allocate at the same moment make a second pool.
 * - A graph with such products keeps the pool of its block, so that replays of two of them are
 *   ordered: they may share a block.
 * - Many blocks are allocated at once, from memory that a pool has had since before the capture. A
 *   capture always has room for PH__WORKSPACES new streams, and usually for hundreds.
 * - Inside a capture the driver is asked for memory only where it brings more new streams than
 *   that, where another thread is allocating at that moment, or where the device's first tape is
 *   made there. Nothing counts as allocated until then. */
typedef struct ph__made_workspaces {
    void *blocks;  /* PH__WORKSPACES of them */
    ph_pool *pool; /* retained */
} ph__made_workspaces;

typedef struct ph__workspaces ph__workspaces;
struct ph__workspaces {
    pthread_mutex_t lock; /* held over no call out of the file but to vec.h and ph_pool_retain */
    ph_device *device;    /* borrowed: the owner's */
    /* A pool has one scope at a time, and what allocates runs code of the program's, for which
     * nobody may wait: the free functions of its pools. So who allocates takes a pool from here,
     * or makes one, and puts it here afterwards. */
    PH__VEC(ph_pool *) idle;
    size_t allocating; /* who has taken one */
    PH__VEC(ph__made_workspaces) made;
    /* by the number of their block: identities, never followed */
    PH__VEC(const ph_stream *) streams;
};

enum {
    PH__WORKSPACE_BYTES = 4096, /* of each block */
    PH__WORKSPACES = 16
};
/* NULL: no host memory. */
ph__workspaces *ph__workspaces_create(ph_device *device);
void ph__workspaces_destroy(ph__workspaces *workspaces); /* takes NULL */
/* Memory for PH__WORKSPACES streams to come, where no pool has any and no thread is making some:
 * with the first tape, and before each capture. */
ph_status ph__workspaces_prepare(ph__workspaces *workspaces);
/* Of a stream that is capturing its block, which the graph of the capture keeps. *out NULL: it
 * is in no capture of this library's. */
ph_status ph__workspace_of(void **out, ph__workspaces *workspaces, ph_stream *stream,
                           const char *call);
#endif
