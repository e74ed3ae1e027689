/* SPDX-License-Identifier: MIT */
/* memory/state/cycle_counting.h: what is counted when the block of a short cycle (short_cycle.h)
 * changes hands. Between two turns of a cycle nothing else is counted, so that no peak rises but
 * that of the bytes asked for. Inline, as in counting.h. Lock held. */
#ifndef PH_MEMORY_STATE_CYCLE_COUNTING_H
#define PH_MEMORY_STATE_CYCLE_COUNTING_H
#include "memory/state/counting.h"

PH__SHORT size_t ph__short_excess(size_t a, size_t b)
{
    return a > b ? a - b : 0;
}

PH__SHORT void ph__cycle_count_parts(ph__account *account, unsigned half, ph__parts more,
                                     ph__parts less)
{
    ph__tally *blocks = &account->tally[PH__COUNT_SPLIT];
    ph__tally *bytes = &account->tally[PH__COUNT_SPLIT_BYTES];
    blocks->added[half] += more.blocks;
    blocks->current[half] += more.blocks - less.blocks;
    bytes->added[half] += more.bytes;
    bytes->current[half] += more.bytes - less.bytes;
}

/* The first return of a cycle may raise the peaks of the free parts. */
PH__SHORT void ph__cycle_count_freed(ph__memory *memory, const ph__block *block)
{
    struct ph__short_cycle *cycle = &memory->cycle;
    unsigned half = ph__short_half_of(block);
    if (cycle->known) {
        ph__cycle_count_parts(&memory->account, half, cycle->more, cycle->less);
        return;
    }
    ph__parts before = ph__short_parts_around(block), after = ph__short_parts_merged(block, before);
    ph__short_count_parts(&memory->account, half, before, after);
    cycle->more = (ph__parts){ph__short_excess(after.blocks, before.blocks),
                              ph__short_excess(after.bytes, before.bytes)};
    cycle->less = (ph__parts){ph__short_excess(before.blocks, after.blocks),
                              ph__short_excess(before.bytes, after.bytes)};
    cycle->known = true;
}

/* ph__short_hand_out of the block that the cycle had back, for a request of so many bytes. */
PH__SHORT void ph__cycle_hand_out(ph__memory *memory, ph__block *block, size_t bytes_wanted)
{
    const struct ph__short_cycle *cycle = &memory->cycle;
    const size_t before = block->requested;
    unsigned half = ph__short_half_of(block);
    ph__account *account = &memory->account;
    ph__tally *blocks = &account->tally[PH__COUNT_BLOCKS];
    ph__tally *bytes = &account->tally[PH__COUNT_BYTES];
    ph__tally *requested = &account->tally[PH__COUNT_REQUESTED];
    if (bytes_wanted != before)
        ph__block_reuse(block, bytes_wanted);
    block->generation = ph__next_generation(memory);
    blocks->added[half]++;
    blocks->current[half]++;
    bytes->added[half] += block->size;
    bytes->current[half] += block->size;
    if (bytes_wanted > before) {
        ph__tally_add(requested, half, bytes_wanted);
    } else {
        requested->added[half] += bytes_wanted;
        requested->current[half] += bytes_wanted;
    }
    ph__cycle_count_parts(account, half, cycle->less, cycle->more);
}
#endif
