/* SPDX-License-Identifier: MIT */
/* memory/pool/scopes.h: the scopes of the calling thread. */
#ifndef PH_MEMORY_POOL_SCOPES_H
#define PH_MEMORY_POOL_SCOPES_H
#include <phonograph/memory.h>
#include <stdbool.h>

typedef struct ph__memory ph__memory;

/* POOL_BUSY: a scope, or else a capture, records into the pool. */
ph_status ph__fail_busy(const char *call, const ph_pool *pool, bool scope);
/* Ends the pool's scope of the calling thread, also where it is not the innermost. */
void ph__pool_leave(ph_pool *pool);
/* The innermost scope of that memory, or NULL. */
ph_pool *ph__scope_innermost(const ph__memory *memory);
#endif
