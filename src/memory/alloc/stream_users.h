/* SPDX-License-Identifier: MIT */
/* memory/alloc/stream_users.h: streams that use a block beside its own. */
#ifndef PH_MEMORY_ALLOC_STREAM_USERS_H
#define PH_MEMORY_ALLOC_STREAM_USERS_H
#include "memory/state/memory_state.h"

/* Notes the use in the record. A use by a capture that is over gives its place to it. false: no
 * host memory. Lock held. */
bool ph__stream_user_add(ph__memory *memory, ph__stream_uses *uses, ph_stream *stream,
                         uint64_t capture_id);
#endif
