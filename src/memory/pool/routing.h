/* SPDX-License-Identifier: MIT */
/* memory/pool/routing.h: which pool a request goes to. No lock held. */
#ifndef PH_MEMORY_POOL_ROUTING_H
#define PH_MEMORY_POOL_ROUTING_H
#include "memory/state/memory_state.h"
#include "memory/state/request.h"

/* Fills in pool and capture_id. */
ph_status ph__route(ph__memory *memory, ph__request *request);
/* Always, when the request is over. */
void ph__unroute(ph__memory *memory, const ph__request *request);
#endif
