/* SPDX-License-Identifier: MIT */
/* memory/state/account.c: the counters of what waits. */
#include "memory/state/account.h"

static void raise_peak(uint64_t *peak, uint64_t now)
{
    if (now > *peak)
        *peak = now;
}

void ph__account_active_peaks(ph__account *account)
{
    const ph__tally *blocks = &account->tally[PH__COUNT_BLOCKS],
                    *bytes = &account->tally[PH__COUNT_BYTES];
    uint64_t all_blocks = 0, all_bytes = 0;
    for (unsigned half = 0; half < 2; half++) {
        uint64_t active = blocks->current[half] + account->waiting_blocks[half];
        uint64_t active_bytes = bytes->current[half] + account->waiting_bytes[half];
        raise_peak(&account->active_peak[1 + half], active);
        raise_peak(&account->active_bytes_peak[1 + half], active_bytes);
        all_blocks += active;
        all_bytes += active_bytes;
    }
    raise_peak(&account->active_peak[0], all_blocks);
    raise_peak(&account->active_bytes_peak[0], all_bytes);
}

void ph__account_waiting(ph__account *account, unsigned half, size_t bytes, bool waits)
{
    account->waiting_blocks[half] += waits ? 1 : (uint64_t)-1;
    account->waiting_bytes[half] += waits ? bytes : 0 - (uint64_t)bytes;
}
