/* SPDX-License-Identifier: MIT */
/* comm/pool/source.h: where the segments of a communicator's pool come from. The pool and the
 * communicator share it, and either may end first. Thread-safe. */
#ifndef PH_COMM_POOL_SOURCE_H
#define PH_COMM_POOL_SOURCE_H
#include "comm/object/comm.h"

/* Registers the reserve. The caller has the pool's reference. */
ph_status ph__source_create(ph__comm_source **out, ph_comm *comm, size_t reserve, const char *call);
/* The functions of the pool: as ph_pool_options says; user is the source. */
ph_status ph__source_alloc(void **out, size_t bytes, ph_stream *stream, void *user);
void ph__source_free(void *memory, size_t bytes, void *user);
/* The pool has ended: gives all memory back, and lets go of its reference. */
void ph__source_end(void *source);
/* Whether the address lies in a segment of a pool of the communicator. */
bool ph__sources_have(ph_comm *comm, const void *address);
#endif
