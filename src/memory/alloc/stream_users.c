/* SPDX-License-Identifier: MIT */
/* memory/alloc/stream_users.c: streams that use a block beside its own: ph_record_stream and
 * ph_stream_wait_users. */
#include "memory/alloc/stream_users.h"
#include "base/vec.h"
#include "device/handles/hold.h"
#include "memory/block/block.h"
#include "memory/capture/born.h"
#include "memory/capture/replay_allocator.h"
#include "memory/capture/workers.h"
#include "memory/observe/lookup.h"
#include "memory/plan/notes.h"
#include "memory/reclaim/pinned_holders.h"
#include "memory/state/find.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/segment.h"
#include "memory/state/short_cycle.h"
#include "memory/state/stream_uses.h"
#include "memory/streams/events.h"
#include "memory/streams/uses.h"
#include <string.h>

/* Adds a use. One by the same stream in a capture that is over, which is not running, gives its
 * place: a block that lives through any number of captures remembers no more uses than it has
 * streams. Lock held. */
bool ph__stream_user_add(ph__memory *memory, ph__stream_uses *uses, ph_stream *stream,
                         uint64_t capture_id)
{
    const bool older = capture_id != 0 && !ph__born_in(uses, capture_id);
    for (size_t i = 0; i < uses->list.count; i++) {
        ph__use *use = &uses->list.at[i];
        const ph_pool *pool = memory->routes;
        while (pool && pool->capture_id != use->capture_id)
            pool = pool->next_route;
        if (use->stream == stream && use->capture_id != 0 && !pool) {
            use->capture_id = capture_id;
            use->older = older;
            return true;
        }
    }
    return ph__stream_uses_add(uses, stream, capture_id, older);
}

/* The record of uses of what is at address, for the device kind or the pinned kind; makes *fresh
 * part of it where there is none yet. Lock held. found: such an allocation is live. */
static ph__stream_uses *uses_at(ph__memory *memory, uintptr_t address, ph__stream_uses **fresh,
                                ph_stream **own, bool *found)
{
    ph__block *block = ph__memory_live_block(memory, (const void *)address);
    ph__pinned *pinned = block ? NULL : ph__pinned_find(memory, address);
    *found = block || (pinned && pinned->address == address && !pinned->freed_by_user);
    if (!*found)
        return NULL;
    *own = block ? ph__mseg_of(block)->stream : pinned->stream;
    ph__stream_uses *uses = block ? ph__block_stream_uses(block) : pinned->uses;
    if (uses || !*fresh)
        return uses;
    uses = *fresh;
    *fresh = NULL;
    uses->block = block;
    uses->pinned = pinned;
    uses->pool = block ? ph__mseg_of(block)->pool : pinned->pool;
    if (block)
        ph__block_set_stream_uses(block, uses);
    else
        pinned->uses = uses;
    return uses;
}

/* Of the live block around the address, where there is one. */
static void *begin_of(const ph_device *device, void *pointer)
{
    ph_allocation around;
    return ph__memory_find(&around, device, pointer) && !around.foreign ? around.base : pointer;
}

ph_status ph__record_use(ph__memory *memory, void *pointer, ph_stream *stream, uint64_t capture_id,
                         const char *call)
{
    ph__stream_uses *fresh = NULL;
    ph_stream *own = NULL;
    bool found, noted = true;
    ph__memory_lock(memory);
    ph__stream_uses *uses = uses_at(memory, (uintptr_t)pointer, &fresh, &own, &found);
    if (found && own != stream && !uses) {
        ph__spin_unlock(&memory->lock);
        fresh = ph__stream_uses_create();
        noted = fresh != NULL;
        ph__memory_lock(memory);
        uses = uses_at(memory, (uintptr_t)pointer, &fresh, &own, &found);
    }
    if (found && own != stream)
        noted = uses && ph__stream_user_add(memory, uses, stream, capture_id);
    if (capture_id)
        ph__born_work_on(memory, capture_id);
    ph__spin_unlock(&memory->lock);
    ph__stream_uses_destroy(memory, fresh);
    if (!found)
        return ph__fail_not_live(call, pointer, stream->device);
    return noted ? PH_OK : ph__fail_host_memory(call, "the use of the block");
}

ph_status ph_record_stream(void *pointer, ph_stream *stream)
{
    static const char call[] = "ph_record_stream";
    if (!pointer)
        return ph__fail_null(call, "pointer");
    PH_TRY(ph__stream_check(stream, call));
    ph__memory *memory = ph__memory_of(stream->device);
    if (!memory)
        return ph__fail_not_live(call, pointer, stream->device);
    pointer = begin_of(stream->device, pointer);
    if (ph__slow_path_has(memory, PH__SLOW_PLAN))
        ph__plan_note_use(memory, pointer, stream);
    uint64_t capture_id;
    PH_TRY(ph__stream_find_capture(&capture_id, stream, call));
    if (ph__replay_allocator_knows(memory, pointer)) {
        void *arena = capture_id ? NULL : ph__replay_allocator_arena_at(memory, pointer);
        return arena ? ph__record_use(memory, arena, stream, 0, call) : PH_OK;
    }
    ph_status status = ph__record_use(memory, pointer, stream, capture_id, call);
    if (capture_id && (status == PH_OK || status == PH_ERROR_HOST_MEMORY))
        ph__copy_captured(&memory->attachment, capture_id, pointer, pointer);
    return status;
}

/* ---- waiting for them ---- */
typedef PH__VEC(ph_stream *) stream_list;

static const ph__stream_uses *find_uses(ph__memory *memory, uintptr_t address, bool *found)
{
    const ph__block *block = ph__memory_block(memory, address);
    const ph__pinned *pinned = block ? NULL : ph__pinned_find(memory, address);
    *found = (block && ph__block_is_live(block)) || pinned;
    return block ? ph__block_stream_uses(block) : pinned ? pinned->uses : NULL;
}

/* The streams that use the block, retained. Room is made without the lock, as often as they have
 * become more meanwhile. */
static ph_status acquire_users(stream_list *out, ph_device *device, const void *pointer,
                               const char *call)
{
    ph__memory *memory = ph__memory_of(device);
    size_t count = 0;
    bool found = false, acquired = false;
    while (memory && !acquired) {
        if (!ph__vec_reserve(out, count))
            return ph__fail_host_memory(call, "the streams that use the block");
        ph__memory_lock(memory);
        const ph__stream_uses *uses = find_uses(memory, (uintptr_t)pointer, &found);
        count = found && uses ? uses->list.count : 0;
        acquired = count <= out->capacity;
        for (size_t i = 0; acquired && i < count; i++)
            out->at[out->count++] = ph__stream_retain(uses->list.at[i].stream);
        ph__spin_unlock(&memory->lock);
    }
    return found ? PH_OK : ph__fail_not_live(call, pointer, device);
}

/* A stream that its user has destroyed may have work left. */
static ph_status wait_for_user(ph_stream *stream, ph_stream *user, const char *call)
{
    ph__memory *memory = ph__memory_of(stream->device);
    int result = PH__R_OK;
    if (user == stream || ph__stream_capture_id(user) != 0)
        return PH_OK;
    if (!atomic_load(&user->destroyed))
        return ph_stream_wait_stream(stream, user);
    ph__drv_event *event = ph__mark_acquire(memory, &result);
    if (!event)
        return ph__driver_fail(result, PH__NAME_EVENT_CREATE,
                               "%s: behind a stream that uses the block", call);
    ph__stream_hold(user);
    result = memory->driver->event_record(event, user->handle, PH__EVENT_RECORD_DEFAULT);
    ph__stream_unhold(user);
    if (result == PH__R_OK)
        result = memory->driver->stream_wait_event(stream->handle, event, PH__EVENT_RECORD_DEFAULT);
    ph__mark_recycle(memory, event);
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_STREAM_WAIT_EVENT,
                                                "%s: behind a stream that uses the block", call);
}

ph_status ph__stream_wait_users(ph_stream *stream, const void *pointer, const char *call)
{
    stream_list users = {0};
    ph_status status = acquire_users(&users, stream->device, pointer, call);
    for (size_t i = 0; i < users.count; i++) {
        if (status == PH_OK)
            status = wait_for_user(stream, users.at[i], call);
        ph__stream_release(users.at[i]);
    }
    ph__vec_free(&users);
    return status;
}

ph_status ph_stream_wait_users(ph_stream *stream, const void *pointer)
{
    static const char call[] = "ph_stream_wait_users";
    PH_TRY(ph__stream_check(stream, call));
    if (ph__stream_capture_id(stream) != 0)
        return ph_fail(
            PH_ERROR_STATE,
            "%s: the stream is capturing; what others have in flight is no part of a graph", call);
    ph__memory *memory = ph__memory_of(stream->device);
    if (memory && ph__replay_allocator_knows(memory, pointer) &&
        !ph__replay_allocator_arena_at(memory, pointer))
        return PH_OK;
    return ph__stream_wait_users(stream, pointer, call);
}
