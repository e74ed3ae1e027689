/* SPDX-License-Identifier: MIT */
/* tensor/products_workspace.h: memory that product algorithms clear and count in: never a captured graph's own. */
#ifndef PH_TENSOR_PRODUCTS_WORKSPACE_H
#define PH_TENSOR_PRODUCTS_WORKSPACE_H
#include "base/vec.h"
#include <phonograph/graph.h>
#include <pthread.h>

/* One block for each stream that captures products which need one, in a pool of the device's. A graph that has such products keeps that pool, so that
 * replays of two of them are ordered: they may have a block in common. Blocks are taken many at once, from memory that the pool has had since before
 * the capture: inside one the driver is asked for some only where it brings more streams that had none than the pool has room for (of PH__WORKSPACES
 * there always is, and ordinarily of hundreds), or where the device's first tape is made there. Nothing counts as allocated until then. */
typedef struct ph__workspaces {
    /* Of allocating: a pool has one scope at a time. Recursive: code of the program's that an allocation runs when memory is short may come back
     * here, and finds the pool busy. Taken before lock. */
    pthread_mutex_t turn;
    pthread_mutex_t lock; /* of made and streams; held over no call out of the file but to vec.h */
    ph_device *device;    /* borrowed: the owner's */
    ph_pool *pool;        /* NULL: nobody asked yet; stays. Under turn; whoever has a block may read it */
    PH__VEC(void *) made; /* PH__WORKSPACES blocks in each */
    PH__VEC(const ph_stream *) streams; /* by the number of their block: identities, never followed */
} ph__workspaces;

enum {
    PH__WORKSPACE_BYTES = 4096, /* of each block */
    PH__WORKSPACES = 16
};
void ph__workspaces_init(ph__workspaces *workspaces, ph_device *device);
void ph__workspaces_free(ph__workspaces *workspaces);
/* Memory for PH__WORKSPACES streams to come, where the pool has none: with the first tape, and before each capture. */
ph_status ph__workspaces_prepare(ph__workspaces *workspaces);
/* Of a stream that is capturing its block, which the graph of the capture keeps. *out NULL: it is in no capture of this library's. */
ph_status ph__workspace_of(void **out, ph__workspaces *workspaces, ph_stream *stream, const char *call);
#endif
