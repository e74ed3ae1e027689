/* SPDX-License-Identifier: MIT */
/* memory/state/request.h: a request for a block, and what was decided about it. */
#ifndef PH_MEMORY_STATE_REQUEST_H
#define PH_MEMORY_STATE_REQUEST_H
#include <phonograph/memory.h>

typedef struct ph__request {
    size_t bytes, rounded;
    ph_stream *stream;
    ph_pool *pool;
    uint64_t capture_id; /* of the pool's capture; 0: not for one */
    const char *call;
    bool own_segment; /* a new one is no larger than the request needs */
} ph__request;
#endif
