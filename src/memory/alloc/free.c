/* SPDX-License-Identifier: MIT */
/* memory/alloc/free.c: the slow path of ph_free: blocks that other streams use, poison, history. */
#include "memory/alloc/free.h"
#include "base/log.h"
#include "device/capture/refuse.h"
#include "device/wrap_cuda.h"
#include "memory/alloc/stream_users.h"
#include "memory/block/block.h"
#include "memory/capture/born.h"
#include "memory/pool/replay.h"
#include "memory/reclaim/pool_lifetime.h"
#include "memory/state/find.h"
#include "memory/state/handout.h"
#include "memory/state/memory_state.h"
#include "memory/state/segment.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"
#include "memory/streams/deferred.h"
#include "memory/streams/poison.h"
#include "memory/streams/uses.h"
#include <string.h>

void ph__free_warn_destroyed(const void *pointer, const char *call)
{
    PH__LOG_ONCE(PH_LOG_WARNING,
                 "%s: %p: the stream was destroyed before this call; nothing was done, and the "
                 "memory stays allocated; free it before the stream, or with stream NULL once the "
                 "stream's work is over; said once",
                 call, pointer);
}

/* Stands in a block while a thread frees it without the lock: a second free sees that it is not
 * live. */
static _Alignas(16) ph__stream_uses freeing = {.state = PH__BLOCK_FREEING};

/* Waiting for a stream in a capture would kill that. */
static bool may_wait(const ph__memory *memory, const ph_stream *stream)
{
    return !ph__capturing(memory) && ph__stream_capture_id(stream) == 0;
}

/* Without host memory a foreign stream cannot be remembered: its work is waited for instead
 * (*waited), or, in a capture, the one spare record is used. */
static ph__stream_uses *uses_for_free(ph__memory *memory, ph_stream *stream, bool *waited)
{
    ph__stream_uses *uses = ph__stream_uses_create();
    if (uses)
        return uses;
    if (may_wait(memory, stream) && ph__stream_wait(stream)) {
        *waited = true;
        return NULL;
    }
    ph__memory_lock(memory);
    uses = memory->spare;
    memory->spare = NULL;
    ph__spin_unlock(&memory->lock);
    return uses;
}

/* The stream of the block's use number i; NULL: it is captured work, or there is none. */
static ph_stream *acquire_user(ph__memory *memory, void *pointer, size_t i, bool *more)
{
    ph_stream *user = NULL;
    ph__memory_lock(memory);
    const ph__block *block = ph__memory_live_block(memory, pointer);
    const ph__stream_uses *uses = block ? ph__block_stream_uses(block) : NULL;
    *more = uses && i < uses->list.count;
    if (*more && uses->list.at[i].capture_id == 0)
        user = ph__stream_retain(uses->list.at[i].stream);
    ph__spin_unlock(&memory->lock);
    return user;
}

/* Without an event the work is waited for. */
static void order_replays_behind(const ph__memory *memory, ph_pool *pool, ph_stream *stream)
{
    if (!ph__replays_behind_use(pool, stream) && may_wait(memory, stream))
        (void)ph__stream_wait(stream);
}

/* Replays write the block from now on as they did before it was handed out: they come behind the
 * work of the streams that used it. */
static void order_behind_users(ph__memory *memory, void *pointer, ph_pool *pool, ph_stream *own,
                               ph_stream *freed_on)
{
    bool more = true;
    order_replays_behind(memory, pool, own);
    if (freed_on && freed_on != own)
        order_replays_behind(memory, pool, freed_on);
    for (size_t i = 0; more; i++) {
        ph_stream *user = acquire_user(memory, pointer, i, &more);
        if (!user)
            continue;
        if (user != own && user != freed_on)
            order_replays_behind(memory, pool, user);
        ph__stream_release(user);
    }
}

/* Of the live block at the pointer, once. */
static void leave_shared(ph__memory *memory, void *pointer, ph_stream *stream)
{
    ph_pool *dead = NULL;
    ph__memory_lock(memory);
    ph__block *block = ph__memory_live_block(memory, pointer);
    ph_pool *pool = block && block->shared ? ph__mseg_of(block)->pool : NULL;
    if (pool)
        block->shared = false;
    if (pool && pool->graphs == 0 && pool->recording != PH__IN_CAPTURE)
        pool = NULL; /* nobody replays */
    ph_stream *own = pool ? ph__stream_retain(ph__mseg_of(block)->stream) : NULL;
    if (pool)
        pool->keeps++;
    ph__spin_unlock(&memory->lock);
    if (!pool)
        return;
    order_behind_users(memory, pointer, pool, own, stream);
    ph__stream_release(own);
    ph__memory_lock(memory);
    ph__pool_unkeep(pool, &dead);
    ph__spin_unlock(&memory->lock);
    ph__pool_bury(dead);
}

/* Gives a block back that waits for nothing. Lock held on entry, not on return. */
static void give_back_block(ph__memory *memory, ph__block *block)
{
    bool poison = ph__slow_path_has(memory, PH__SLOW_POISON);
    if (poison) {
        ph__block_set_stream_uses(block, &freeing);
        ph__spin_unlock(&memory->lock);
        ph__poison(memory, block);
        ph__memory_lock(memory);
    }
    ph__memory_give(memory, block);
    ph__spin_unlock(&memory->lock);
    if (poison)
        ph__poison_report(memory);
}

bool ph__free_slow(ph__memory *memory, void *pointer, ph_stream *stream)
{
    uint64_t capture_id = stream ? ph__stream_capture_id(stream) : 0;
    bool waited = false;
    ph__stream_uses *fresh = NULL, *uses;
    leave_shared(memory, pointer, stream);
    ph__memory_lock(memory);
    ph__block *block = ph__memory_live_block(memory, pointer);
    bool foreign = block && stream && stream->id != block->segment->stream;
    if (foreign && !ph__block_stream_uses(block)) {
        ph__spin_unlock(&memory->lock);
        fresh = uses_for_free(memory, stream, &waited);
        ph__memory_lock(memory);
        block = ph__memory_live_block(memory, pointer);
    }
    if (!block || (foreign && !waited && !fresh && !ph__block_stream_uses(block))) {
        ph__spin_unlock(&memory->lock);
        ph__stream_uses_destroy(memory, fresh);
        return false;
    }
    ph__memory_retire(memory, block, stream ? stream : ph__mseg_of(block)->stream);
    if (fresh && !ph__block_stream_uses(block)) {
        fresh->block = block;
        fresh->pool = ph__mseg_of(block)->pool;
        ph__block_set_stream_uses(block, fresh);
        fresh = NULL;
    }
    uses = ph__block_stream_uses(block);
    if (!uses) {
        if (ph__born_keeps(memory, block)) {
            ph__born_wait(memory, block);
            ph__spin_unlock(&memory->lock);
        } else {
            give_back_block(memory, block);
        }
        ph__stream_uses_destroy(memory, fresh);
        return true;
    }
    uses->state = PH__BLOCK_FREEING;
    bool noted = !foreign || waited || ph__stream_user_add(memory, uses, stream, capture_id);
    ph__spin_unlock(&memory->lock);
    if (!noted && may_wait(memory, stream))
        noted = ph__stream_wait(stream);
    if (noted)
        ph__stream_uses_defer(memory, uses, stream);
    else
        PH__LOG_ONCE(
            PH_LOG_WARNING,
            "ph_free: no host memory to remember another stream's use of %p; the block stays taken "
            "until the device is closed; said once",
            pointer);
    ph__stream_uses_destroy(memory, fresh);
    return true;
}
