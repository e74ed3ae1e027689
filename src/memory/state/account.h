/* SPDX-License-Identifier: MIT */
/* memory/state/account.h: the counters behind the statistics: plain additions, made under the
 * allocator's lock. */
#ifndef PH_MEMORY_STATE_ACCOUNT_H
#define PH_MEMORY_STATE_ACCOUNT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One thing counted, by half: [0] small, [1] large. The peaks have the sum first, as
 * PH_MEMORY_ALL. What was removed is added - current; the bases are what a reset of the
 * accumulated values hides. */
typedef struct ph__tally {
    uint64_t added[2], current[2], peak[3];
    uint64_t base_added[2], base_removed[2];
} ph__tally;

/* Free blocks that are only a part of their segment. */
typedef struct ph__parts {
    size_t blocks, bytes;
} ph__parts;

enum {
    PH__COUNT_BLOCKS, /* in the caller's hands */
    PH__COUNT_BYTES,
    PH__COUNT_REQUESTED,
    PH__COUNT_SPLIT, /* free blocks that are a part of their segment */
    PH__COUNT_SPLIT_BYTES,
    PH__COUNT_SEGMENTS,
    PH__COUNT_RESERVED,
    PH__COUNT_KINDS
};

/* Active blocks are those in the caller's hands and those that wait. Their peaks are kept only
 * while something waits: without that they are those of the former. */
typedef struct ph__account {
    ph__tally tally[PH__COUNT_KINDS];
    uint64_t waiting_blocks[2], waiting_bytes[2]; /* out of the caller's hands, not free yet */
    uint64_t active_peak[3], active_bytes_peak[3], base_active_removed[2],
        base_active_bytes_removed[2];
    uint64_t ooms, retries;
    size_t pinned, pinned_reserved, waiting;
} ph__account;

static inline void ph__tally_add(ph__tally *tally, unsigned half, uint64_t amount)
{
    tally->added[half] += amount;
    uint64_t now = tally->current[half] += amount;
    uint64_t all = now + tally->current[1 - half];
    if (now > tally->peak[1 + half])
        tally->peak[1 + half] = now;
    if (all > tally->peak[0])
        tally->peak[0] = all;
}

static inline void ph__tally_remove(ph__tally *tally, unsigned half, uint64_t amount)
{
    tally->current[half] -= amount;
}

/* Only while something waits. */
void ph__account_active_peaks(ph__account *account);
/* A block that is out of the caller's hands and not free yet. */
void ph__account_waiting(ph__account *account, unsigned half, size_t bytes, bool waits);
#endif
