/* SPDX-License-Identifier: MIT */
/* tensor/products_workspace.h: memory that product algorithms clear and count in: never a captured graph's own. */
#ifndef PH_TENSOR_PRODUCTS_WORKSPACE_H
#define PH_TENSOR_PRODUCTS_WORKSPACE_H
#include "base/vec.h"
#include <phonograph/graph.h>
#include <pthread.h>

/* One block for each stream that captures products which need one, in a pool of the device's. A graph that has such products keeps that pool, so that
 * replays of two of them are ordered: they may have a block in common. Blocks are made many at once: before a capture, so that inside one none is
 * made but for the streams beyond that number, and in captures that this library did not see begin. */
typedef struct ph__workspaces {
    pthread_mutex_t lock;               /* held over no call out of the file but to vec.h */
    ph_device *device;                  /* borrowed: the owner's */
    ph_pool *pool;                      /* NULL: nobody asked yet */
    PH__VEC(void *) made;               /* PH__WORKSPACES blocks in each */
    PH__VEC(const ph_stream *) streams; /* by the number of their block: identities, never followed */
} ph__workspaces;

enum {
    PH__WORKSPACE_BYTES = 4096, /* of each block */
    PH__WORKSPACES = 16
};
void ph__workspaces_init(ph__workspaces *workspaces, ph_device *device);
void ph__workspaces_free(ph__workspaces *workspaces);
/* Blocks for streams to come, where there are none: before a capture, or where what a capture begins with is made. */
ph_status ph__workspaces_prepare(ph__workspaces *workspaces);
/* For a stream that is capturing: its block, which the graph of the capture keeps. *out NULL: the capture is none of this library's. */
ph_status ph__workspace_of(void **out, ph__workspaces *workspaces, ph_stream *stream, const char *call);
#endif
