/* SPDX-License-Identifier: MIT */
/* memory/alloc/free.c: the slow path of ph_free: blocks that other streams use, poison, history. */
#include "memory/alloc/free.h"
#include "base/log.h"
#include "device/capture/refuse.h"
#include "device/wrap_cuda.h"
#include "memory/alloc/stream_users.h"
#include "memory/block/block.h"
#include "memory/capture/born.h"
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
