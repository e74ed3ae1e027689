/* SPDX-License-Identifier: MIT */
/* tensor/products_workspace.h: memory that product algorithms clear and count in: never a captured graph's own. */
#ifndef PH_TENSOR_PRODUCTS_WORKSPACE_H
#define PH_TENSOR_PRODUCTS_WORKSPACE_H
#include "base/vec.h"
#include <phonograph/graph.h>
#include <pthread.h>

/* One block for each stream that captures products which need one, in a pool of the device's. A graph that has such products keeps that pool, so that
 * replays of two of them are ordered: they may have a block in common. */
typedef struct ph__workspaces {
    pthread_mutex_t lock;
    ph_pool *pool; /* NULL: nobody asked yet */
    PH__VEC(struct ph__workspace {
        const ph_stream *stream; /* an identity, never followed */
        void *block;
    })
    blocks;
} ph__workspaces;

enum {
    PH__WORKSPACE_BYTES = 4096 /* of each block */
};
void ph__workspaces_init(ph__workspaces *workspaces);
void ph__workspaces_free(ph__workspaces *workspaces);
/* For a stream that is capturing: its block, which the graph of the capture keeps. *out NULL: the capture is none of this library's. */
ph_status ph__workspace_of(void **out, ph__workspaces *workspaces, ph_stream *stream, const char *call);
#endif
