/* SPDX-License-Identifier: MIT */
/* memory/streams/poison.h: freed blocks that are filled in stream order, where that is safe. No
 * lock held. */
#ifndef PH_MEMORY_STREAMS_POISON_H
#define PH_MEMORY_STREAMS_POISON_H
#include "memory/state/memory_state.h"

void ph__poison(ph__memory *memory, const ph__block *block);
/* Says it to the log when one failed. No lock held. */
void ph__poison_report(ph__memory *memory);
#endif
