/* SPDX-License-Identifier: MIT */
/* memory/report/stats.c: the public statistics, of a device and of a pool. */
#include "memory/pool/pool.h"
#include "memory/reclaim/reclaim.h"
#include "memory/state/account.h"
#include "memory/state/memory_state.h"
#include "memory/state/short_cycle.h"
#include <string.h>

static void show_counter(ph_counter out[3], const ph__tally *tally)
{
    memset(out, 0, 3 * sizeof out[0]);
    for (unsigned half = 0; half < 2; half++) {
        ph_counter *one = &out[1 + half];
        uint64_t removed = tally->added[half] - tally->current[half];
        one->current = tally->current[half];
        one->added = tally->added[half] - tally->base_added[half];
        one->removed = removed - tally->base_removed[half];
        one->peak = tally->peak[1 + half];
        out[0].current += one->current;
        out[0].added += one->added;
        out[0].removed += one->removed;
    }
    out[0].peak = tally->peak[0];
}

/* From what is in the caller's hands and what waits; a block is removed from the active ones
 * when it is free. */
static void show_active(ph_counter out[3], const ph__tally *tally, const uint64_t waiting[2],
                        const uint64_t peak[3], const uint64_t base_removed[2])
{
    show_counter(out, tally);
    out[0].removed = 0;
    for (unsigned half = 0; half < 2; half++) {
        ph_counter *one = &out[1 + half];
        one->current += waiting[half];
        one->removed = tally->added[half] - one->current - base_removed[half];
        out[0].current += waiting[half];
        out[0].removed += one->removed;
    }
    for (int i = 0; i < 3; i++)
        if (peak[i] > out[i].peak)
            out[i].peak = peak[i];
}

static void report_account(ph_memory_stats *out, const ph__account *account)
{
    const ph__tally *tally = account->tally;
    show_counter(out->allocation, &tally[PH__COUNT_BLOCKS]);
    show_counter(out->segment, &tally[PH__COUNT_SEGMENTS]);
    show_active(out->active, &tally[PH__COUNT_BLOCKS], account->waiting_blocks,
                account->active_peak, account->base_active_removed);
    show_counter(out->inactive_split, &tally[PH__COUNT_SPLIT]);
    show_counter(out->allocated_bytes, &tally[PH__COUNT_BYTES]);
    show_counter(out->reserved_bytes, &tally[PH__COUNT_RESERVED]);
    show_active(out->active_bytes, &tally[PH__COUNT_BYTES], account->waiting_bytes,
                account->active_bytes_peak, account->base_active_bytes_removed);
    show_counter(out->inactive_split_bytes, &tally[PH__COUNT_SPLIT_BYTES]);
    show_counter(out->requested_bytes, &tally[PH__COUNT_REQUESTED]);
    out->allocated = (size_t)out->allocated_bytes[0].current;
    out->allocated_peak = (size_t)out->allocated_bytes[0].peak;
    out->reserved = (size_t)out->reserved_bytes[0].current;
    out->reserved_peak = (size_t)out->reserved_bytes[0].peak;
    out->segments = (size_t)out->segment[0].current;
    out->ooms = account->ooms;
    out->retries = account->retries;
    out->pinned = account->pinned;
    out->pinned_reserved = account->pinned_reserved;
    out->deferred = account->waiting;
}

ph_status ph_memory_get_stats(ph_memory_stats *out, const ph_device *device)
{
    static const char call[] = "ph_memory_get_stats";
    if (!out)
        return ph__fail_null(call, "out");
    memset(out, 0, sizeof *out);
    if (!device)
        return ph__fail_null(call, "device");
    PH_TRY(ph__device_check(device, call));
    ph__memory *memory = ph__memory_of(device);
    if (!memory)
        return PH_OK;
    ph__memory_reclaim(memory);
    ph__memory_lock(memory);
    ph__account account = memory->account;
    ph__spin_unlock(&memory->lock);
    report_account(out, &account);
    return PH_OK;
}

ph_status ph_pool_stats(ph_memory_stats *out, const ph_pool *pool)
{
    static const char call[] = "ph_pool_stats";
    if (!out)
        return ph__fail_null(call, "out");
    memset(out, 0, sizeof *out);
    PH_TRY(ph__pool_check(pool, call));
    ph__memory *memory = pool->memory;
    ph__memory_reclaim(memory);
    ph__memory_lock(memory);
    ph__account account = pool->account;
    ph__spin_unlock(&memory->lock);
    report_account(out, &account);
    return PH_OK;
}

static void reset_peaks(ph__account *account)
{
    const ph__tally *blocks = &account->tally[PH__COUNT_BLOCKS],
                    *bytes = &account->tally[PH__COUNT_BYTES];
    account->active_peak[0] = account->active_bytes_peak[0] = 0;
    for (unsigned half = 0; half < 2; half++) {
        account->active_peak[1 + half] = blocks->current[half] + account->waiting_blocks[half];
        account->active_bytes_peak[1 + half] = bytes->current[half] + account->waiting_bytes[half];
        account->active_peak[0] += account->active_peak[1 + half];
        account->active_bytes_peak[0] += account->active_bytes_peak[1 + half];
    }
    for (int i = 0; i < PH__COUNT_KINDS; i++) {
        ph__tally *tally = &account->tally[i];
        tally->peak[1] = tally->current[0];
        tally->peak[2] = tally->current[1];
        tally->peak[0] = tally->current[0] + tally->current[1];
    }
}

static void reset_accumulated(ph__account *account)
{
    const ph__tally *blocks = &account->tally[PH__COUNT_BLOCKS],
                    *bytes = &account->tally[PH__COUNT_BYTES];
    for (unsigned half = 0; half < 2; half++) {
        account->base_active_removed[half] =
            blocks->added[half] - blocks->current[half] - account->waiting_blocks[half];
        account->base_active_bytes_removed[half] =
            bytes->added[half] - bytes->current[half] - account->waiting_bytes[half];
    }
    for (int i = 0; i < PH__COUNT_KINDS; i++) {
        ph__tally *tally = &account->tally[i];
        for (unsigned half = 0; half < 2; half++) {
            tally->base_added[half] = tally->added[half];
            tally->base_removed[half] = tally->added[half] - tally->current[half];
        }
    }
    account->ooms = account->retries = 0;
}

static ph_status reset_accounts(ph_device *device, void (*one)(ph__account *account),
                                const char *call)
{
    if (!device)
        return ph__fail_null(call, "device");
    PH_TRY(ph__device_check(device, call));
    ph__memory *memory = ph__memory_of(device);
    if (!memory)
        return PH_OK;
    ph__memory_lock(memory);
    one(&memory->account);
    for (ph_pool *pool = &memory->default_pool; pool; pool = pool->next)
        one(&pool->account);
    ph__spin_unlock(&memory->lock);
    return PH_OK;
}

ph_status ph_memory_reset_peaks(ph_device *device)
{
    return reset_accounts(device, reset_peaks, "ph_memory_reset_peaks");
}

ph_status ph_memory_reset_accumulated(ph_device *device)
{
    return reset_accounts(device, reset_accumulated, "ph_memory_reset_accumulated");
}
