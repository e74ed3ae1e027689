/* SPDX-License-Identifier: MIT */
/* memory/alloc/shortage.h: the words of a refusal. No lock held. */
#ifndef PH_MEMORY_ALLOC_SHORTAGE_H
#define PH_MEMORY_ALLOC_SHORTAGE_H
#include "memory/reclaim/segments.h"

ph_status ph__fail_growth(ph__memory *memory, const ph__request *request, const ph__growth *growth);
/* The function of the pool itself failed. */
ph_status ph__fail_source(ph__memory *memory, const ph__request *request, const ph__growth *growth);
#endif
