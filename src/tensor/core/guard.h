/* SPDX-License-Identifier: MIT */
/* tensor/core/guard.h: memory with guard zones, for ph__storage_debug (tensor.h). */
#ifndef PH_TENSOR_CORE_GUARD_H
#define PH_TENSOR_CORE_GUARD_H
#include "tensor/core/tensor.h"

typedef struct ph__guarded ph__guarded;

bool ph__guards_on(void);
/* bytes of memory between two zones, poisoned in order of the stream. */
ph_status ph__guarded_create(ph__guarded **out, ph__backend *backend, size_t bytes,
                             ph_stream *stream);
char *ph__guarded_data(const ph__guarded *guarded);
char *ph__guarded_base(const ph__guarded *guarded); /* as the allocator knows it */
/* nobody uses it any more: kept until the next check */
void ph__guarded_release(ph__guarded *guarded);
#endif
