/* SPDX-License-Identifier: MIT */
/* memory/alloc/stream_users.h: streams that use a block beside its own. */
#ifndef PH_MEMORY_ALLOC_STREAM_USERS_H
#define PH_MEMORY_ALLOC_STREAM_USERS_H
#include "memory/state/memory_state.h"

/* Notes the use in the record. A use by a capture that is over gives its place to it. false: no
 * host memory. Lock held. */
bool ph__stream_user_add(ph__memory *memory, ph__stream_uses *uses, ph_stream *stream,
                         uint64_t capture_id);
/* ph_record_stream of the live allocation that begins at the pointer, for captured work or other
 * (capture_id 0). ph_stream_wait_users of the block around it. */
ph_status ph__record_use(ph__memory *memory, void *pointer, ph_stream *stream, uint64_t capture_id,
                         const char *call);
ph_status ph__stream_wait_users(ph_stream *stream, const void *pointer, const char *call);
#endif
