/* SPDX-License-Identifier: MIT */
/* memory/streams/deferred.c: freed blocks that wait for other streams: how long, and what comes
 * then. */
#include "memory/streams/deferred.h"
#include "memory/block/block.h"
#include "memory/capture/born.h"
#include "memory/state/handout.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/pinned_lists.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"
#include "memory/streams/dependency_walk.h"
#include "memory/streams/poison.h"
#include "memory/streams/uses.h"
#include "memory/streams/waits.h"

/* The uses that were waited for are over. */
static void drop_waited(ph__memory *memory, ph__stream_uses *uses)
{
    bool waited = uses->state == PH__BLOCK_PENDING || uses->state == PH__BLOCK_DEFERRED;
    while (waited && uses->list.count > 0)
        ph__stream_uses_drop(memory, uses, uses->list.count - 1);
}

/* Uses that came while the record waited are to be waited for now. */
static bool acquire_later(ph__memory *memory, ph__stream_uses *uses)
{
    ph__memory_lock(memory);
    if (uses->later.count > 0) {
        const ph__stream_use_list before = uses->list;
        uses->list = uses->later;
        uses->later = before;
    }
    bool more = uses->list.count > 0;
    if (more)
        uses->state = PH__BLOCK_FREEING;
    ph__spin_unlock(&memory->lock);
    return more;
}

static void give_back(ph__memory *memory, ph__stream_uses *uses)
{
    ph__block *block = uses->block;
    ph__pinned *pinned = uses->pinned;
    if (block)
        ph__poison(memory, block);
    ph__memory_lock(memory);
    ph__waiting_count(memory, uses->pool, false);
    if (block) {
        block->user = NULL;
        ph__memory_give(memory, block);
    } else {
        pinned->uses = NULL;
        ph__pinned_give(pinned);
    }
    ph__spin_unlock(&memory->lock);
    ph__stream_uses_destroy(memory, uses);
}

void ph__stream_uses_finish(ph__memory *memory, ph__stream_uses *uses)
{
    drop_waited(memory, uses);
    if (ph__born_withhold(memory, uses))
        return;
    if (acquire_later(memory, uses))
        ph__stream_uses_wait(memory, uses);
    else
        give_back(memory, uses);
}

static void push_deferred(ph__memory *memory, ph__stream_uses *uses)
{
    uses->state = PH__BLOCK_DEFERRED;
    uses->previous = NULL;
    uses->next = memory->deferred;
    memory->deferred = uses;
    ph__set_slow_path(memory, PH__SLOW_DEFERRED, true);
}

void ph__stream_uses_defer(ph__memory *memory, ph__stream_uses *uses, ph_stream *freed_on)
{
    bool used = uses->list.count > 0;
    bool capturing = ph__capturing(memory);
    bool marked = used && capturing && ph__dependency_walk_mark(memory, uses, freed_on);
    ph__memory_lock(memory);
    ph__waiting_count(memory, uses->pool, true);
    if (used && marked)
        uses->state = PH__BLOCK_DEFERRED;
    if (used && (!marked || !ph__dependency_walk_wait(memory, uses)))
        push_deferred(memory, uses);
    ph__spin_unlock(&memory->lock);
    if (!used)
        ph__stream_uses_finish(memory, uses);
    else if (!capturing)
        ph__deferred_process(memory, 0);
}

void ph__stream_uses_wait(ph__memory *memory, ph__stream_uses *uses)
{
    if (uses->list.count == 0 && !acquire_later(memory, uses)) {
        ph__stream_uses_finish(memory, uses);
        return;
    }
    ph__memory_lock(memory);
    push_deferred(memory, uses);
    ph__spin_unlock(&memory->lock);
    if (!ph__capturing(memory))
        ph__deferred_process(memory, 0);
}

static bool is_used_beside(const ph__stream_uses *uses, const ph_stream *stream)
{
    for (size_t i = 0; i < uses->list.count; i++)
        if (uses->list.at[i].stream == stream && uses->list.at[i].capture_id == 0)
            return true;
    return false;
}

/* Captured work is not running: such uses end with their capture. But of a block that was there
 * before it the stream may have earlier work, and replays in flight: behind the capture the use is
 * an ordinary one. all: none of this library's is open; one that somebody else began may still
 * be. */
static void end_captured(ph__memory *memory, ph__stream_uses *uses, uint64_t capture_id, bool all)
{
    for (size_t i = uses->list.count; i-- > 0;) {
        ph__use *use = &uses->list.at[i];
        if (use->capture_id == 0 ||
            (use->capture_id != capture_id &&
             !(all && ph__stream_capture_id(use->stream) != use->capture_id)))
            continue;
        if (!use->older || is_used_beside(uses, use->stream))
            ph__stream_uses_drop(memory, uses, i);
        else
            use->capture_id = 0;
    }
}

static void finish_waiter(ph__memory *memory, ph__waiter *waiter, ph__leaving_batch **done)
{
    (void)done;
    ph__stream_uses_finish(memory, (ph__stream_uses *)waiter);
}

static void push_pending(ph__memory *memory, ph__stream_uses *uses)
{
    int later = PH__R_OK; /* a use without an event gets one when its turn has come */
    uses->state = PH__BLOCK_PENDING;
    uses->waiter.finish = finish_waiter;
    ph__waits_begin(memory, &uses->waiter, uses->list.at, uses->list.count, &later);
}

void ph__deferred_process(ph__memory *memory, uint64_t capture_id)
{
    ph__memory_lock(memory);
    ph__stream_uses *uses = memory->deferred;
    memory->deferred = NULL;
    ph__set_slow_path(memory, PH__SLOW_DEFERRED, false);
    ph__spin_unlock(&memory->lock);
    /* After the list was taken: a capture that begins from here on has no uses in it. */
    bool open = ph__capturing(memory);
    while (uses) {
        ph__stream_uses *next = uses->next;
        end_captured(memory, uses, capture_id, !open);
        if (uses->list.count == 0) {
            ph__stream_uses_finish(memory, uses);
        } else if (!open) {
            push_pending(memory, uses);
        } else {
            ph__memory_lock(memory);
            push_deferred(memory, uses);
            ph__spin_unlock(&memory->lock);
        }
        uses = next;
    }
}
