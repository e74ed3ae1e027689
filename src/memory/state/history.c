/* SPDX-License-Identifier: MIT */
/* memory/state/history.c: the newest events of the allocator, in a ring. */
#include "memory/state/history.h"
#include "base/clock.h"
#include "memory/state/memory_state.h"

void ph__history_note(ph__memory *memory, ph__happening what, uintptr_t address, size_t size,
                      const ph_pool *pool, const ph_stream *stream, uint64_t generation)
{
    ph__history *history = memory->history;
    if (!history)
        return;
    history->at[history->written++ % history->capacity] = (ph__event){.time_ns = ph__now_ns(),
                                                                      .what = what,
                                                                      .address = address,
                                                                      .size = size,
                                                                      .pool = pool->id,
                                                                      .stream = stream->id,
                                                                      .generation = generation};
}
