/* SPDX-License-Identifier: MIT */
/* memory/streams/uses.c: blocks that other streams use: what is remembered, and how long a freed
 * one waits. */
#include "memory/state.h"

ph__uses *ph__uses_create(void)
{
    ph__uses *uses = ph__calloc(1, sizeof *uses);
    if (!uses)
        return NULL;
    if (!ph__vec_reserve(&uses->list, 2)) {
        ph__free(uses);
        return NULL;
    }
    return uses;
}

static void free_list(ph__memory *memory, ph__use_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        ph__mark_recycle(memory, list->at[i].event);
        ph__stream_release(list->at[i].stream);
    }
    ph__vec_free(list);
}

void ph__uses_destroy(ph__memory *memory, ph__uses *uses)
{
    if (!uses)
        return;
    free_list(memory, &uses->list);
    free_list(memory, &uses->later);
    ph__vec_free(&uses->markers);
    ph__free(uses);
}

/* While the record waits its list is in use: what comes then is kept apart. */
bool ph__uses_add(ph__uses *uses, ph_stream *stream, uint64_t capture_id)
{
    bool waits = uses->life == PH__PENDING || uses->life == PH__DEFERRED;
    ph__use_list *list = waits ? &uses->later : &uses->list;
    for (size_t i = 0; i < list->count; i++)
        if (list->at[i].stream == stream && list->at[i].capture_id == capture_id)
            return true;
    if (!ph__vec_reserve(list, 1))
        return false;
    list->at[list->count++] =
        (ph__use){.stream = ph__stream_retain(stream), .capture_id = capture_id};
    return true;
}

static void drop_use(ph__memory *memory, ph__uses *uses, size_t i)
{
    ph__use use = uses->list.at[i];
    uses->list.at[i] = uses->list.at[--uses->list.count];
    ph__mark_recycle(memory, use.event);
    ph__stream_release(use.stream);
}

void ph__waiting_count(ph__memory *memory, ph_pool *pool, bool waits)
{
    size_t one = waits ? 1 : SIZE_MAX;
    memory->account.waiting += one;
    pool->account.waiting += one;
    pool->waiting += one;
}

/* What was waited for is over. */
static void drop_waited(ph__memory *memory, ph__uses *uses)
{
    bool waited = uses->life == PH__PENDING || uses->life == PH__DEFERRED;
    while (waited && uses->list.count > 0)
        drop_use(memory, uses, uses->list.count - 1);
}

/* Uses that came while the record waited are to be waited for now. */
static bool take_later(ph__memory *memory, ph__uses *uses)
{
    ph__spin_lock(&memory->lock);
    if (uses->later.count > 0) {
        const ph__use_list before = uses->list;
        uses->list = uses->later;
        uses->later = before;
    }
    bool more = uses->list.count > 0;
    if (more)
        uses->life = PH__FREEING;
    ph__spin_unlock(&memory->lock);
    return more;
}

static void give(ph__memory *memory, ph__uses *uses)
{
    ph__block *block = uses->block;
    ph__pinned *pinned = uses->pinned;
    if (block)
        ph__poison(memory, block);
    ph__spin_lock(&memory->lock);
    ph__waiting_count(memory, uses->pool, false);
    if (block) {
        block->user = NULL;
        ph__memory_give(memory, block);
    } else {
        pinned->uses = NULL;
        ph__pinned_give(pinned);
    }
    ph__spin_unlock(&memory->lock);
    ph__uses_destroy(memory, uses);
}

void ph__uses_finish(ph__memory *memory, ph__uses *uses)
{
    drop_waited(memory, uses);
    if (ph__born_withhold(memory, uses))
        return;
    if (take_later(memory, uses))
        ph__uses_wait(memory, uses);
    else
        give(memory, uses);
}

static void push_deferred(ph__memory *memory, ph__uses *uses)
{
    uses->life = PH__DEFERRED;
    uses->previous = NULL;
    uses->next = memory->deferred;
    memory->deferred = uses;
    ph__see(memory, PH__SEE_DEFERRED, true);
}

void ph__uses_defer(ph__memory *memory, ph__uses *uses, ph_stream *freed_on)
{
    bool used = uses->list.count > 0;
    bool capturing = ph__capturing(memory);
    bool marked = used && capturing && ph__reach_mark(memory, uses, freed_on);
    ph__spin_lock(&memory->lock);
    ph__waiting_count(memory, uses->pool, true);
    if (used && marked)
        uses->life = PH__DEFERRED;
    if (used && (!marked || !ph__reach_wait(memory, uses)))
        push_deferred(memory, uses);
    ph__spin_unlock(&memory->lock);
    if (!used)
        ph__uses_finish(memory, uses);
    else if (!capturing)
        ph__deferred_process(memory, 0);
}

void ph__uses_wait(ph__memory *memory, ph__uses *uses)
{
    if (uses->list.count == 0 && !take_later(memory, uses)) {
        ph__uses_finish(memory, uses);
        return;
    }
    ph__spin_lock(&memory->lock);
    push_deferred(memory, uses);
    ph__spin_unlock(&memory->lock);
    if (!ph__capturing(memory))
        ph__deferred_process(memory, 0);
}

/* Captured work is not running: such uses end with their capture. all: none of this library's is
 * open; one that somebody else began may still be. */
static void drop_captured(ph__memory *memory, ph__uses *uses, uint64_t capture_id, bool all)
{
    for (size_t i = uses->list.count; i-- > 0;) {
        const ph__use *use = &uses->list.at[i];
        if (use->capture_id != 0 &&
            (use->capture_id == capture_id ||
             (all && ph__stream_capture_id(use->stream) != use->capture_id)))
            drop_use(memory, uses, i);
    }
}

static void push_pending(ph__memory *memory, ph__uses *uses)
{
    int later = PH__R_OK; /* what has no event gets one when its turn has come */
    uses->life = PH__PENDING;
    ph__waits_begin(memory, &uses->waiter, uses->list.at, uses->list.count, &later);
}

void ph__deferred_process(ph__memory *memory, uint64_t capture_id)
{
    ph__spin_lock(&memory->lock);
    ph__uses *uses = memory->deferred;
    memory->deferred = NULL;
    ph__see(memory, PH__SEE_DEFERRED, false);
    ph__spin_unlock(&memory->lock);
    /* After the list was taken: a capture that begins from here on has no uses in it. */
    bool open = ph__capturing(memory);
    while (uses) {
        ph__uses *next = uses->next;
        drop_captured(memory, uses, capture_id, !open);
        if (uses->list.count == 0) {
            ph__uses_finish(memory, uses);
        } else if (!open) {
            push_pending(memory, uses);
        } else {
            ph__spin_lock(&memory->lock);
            push_deferred(memory, uses);
            ph__spin_unlock(&memory->lock);
        }
        uses = next;
    }
}

/* ---- waiting for them ---- */
typedef PH__VEC(ph_stream *) stream_list;

static const ph__uses *find_uses(ph__memory *memory, uintptr_t address, bool *found)
{
    const ph__block *block = ph__memory_block(memory, address);
    const ph__pinned *pinned = block ? NULL : ph__pinned_find(memory, address);
    *found = (block && ph__block_is_live(block)) || pinned;
    return block ? ph__block_uses(block) : pinned ? pinned->uses : NULL;
}

/* Those of the block, retained. There is room made without the lock, as often as they have
 * become more meanwhile. */
static ph_status take_users(stream_list *out, ph_device *device, const void *pointer,
                            const char *call)
{
    ph__memory *memory = ph__memory_of(device);
    size_t count = 0;
    bool found = false, taken = false;
    while (memory && !taken) {
        if (!ph__vec_reserve(out, count))
            return ph__fail_host_memory(call, "the streams that use the block");
        ph__spin_lock(&memory->lock);
        const ph__uses *uses = find_uses(memory, (uintptr_t)pointer, &found);
        count = found && uses ? uses->list.count : 0;
        taken = count <= out->capacity;
        for (size_t i = 0; taken && i < count; i++)
            out->at[out->count++] = ph__stream_retain(uses->list.at[i].stream);
        ph__spin_unlock(&memory->lock);
    }
    return found ? PH_OK : ph__fail_not_live(call, pointer, device);
}

/* One that its user has destroyed may have work left. */
static ph_status wait_for_user(ph_stream *stream, ph_stream *user, const char *call)
{
    ph__memory *memory = ph__memory_of(stream->device);
    int result = PH__R_OK;
    if (user == stream || ph__stream_capture_id(user) != 0)
        return PH_OK;
    if (!atomic_load(&user->destroyed))
        return ph_stream_wait_stream(stream, user);
    ph__drv_event *event = ph__mark_take(memory, &result);
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

ph_status ph_stream_wait_users(ph_stream *stream, const void *pointer)
{
    static const char call[] = "ph_stream_wait_users";
    stream_list users = {0};
    PH_TRY(ph__stream_check(stream, call));
    if (ph__stream_capture_id(stream) != 0)
        return ph_fail(
            PH_ERROR_STATE,
            "%s: the stream is capturing; what others have in flight is no part of a graph", call);
    ph__memory *memory = ph__memory_of(stream->device);
    if (memory && ph__script_knows(memory, pointer))
        return PH_OK;
    ph_status status = take_users(&users, stream->device, pointer, call);
    for (size_t i = 0; i < users.count; i++) {
        if (status == PH_OK)
            status = wait_for_user(stream, users.at[i], call);
        ph__stream_release(users.at[i]);
    }
    ph__vec_free(&users);
    return status;
}
