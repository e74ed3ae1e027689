/* SPDX-License-Identifier: MIT */
/* memory/alloc/free.c: the long way of ph_free: blocks that other streams use, poison, history; and
 * ph_record_stream. */
#include "base/log.h"
#include "memory/state.h"

/* Stands in a block while a thread frees it without the lock: a second free sees that it is not
 * live. */
static _Alignas(16) ph__uses freeing = {.life = PH__FREEING};

static ph__block *live_block(const ph__memory *memory, const void *pointer)
{
    ph__block *block = ph__memory_block(memory, (uintptr_t)pointer);
    return block && block->address == (uintptr_t)pointer && ph__block_is_live(block) ? block : NULL;
}

static void wait_for(ph__memory *memory, ph_stream *stream)
{
    ph_capture_mode mode;
    ph__relaxed_begin(memory->device, &mode);
    (void)memory->driver->stream_synchronize(stream->handle);
    ph__relaxed_end(memory->device, mode);
}

/* Waiting for a stream in a capture would kill that. */
static bool may_wait(const ph__memory *memory, const ph_stream *stream)
{
    return !ph__capturing(memory) && ph__stream_capture_id(stream) == 0;
}

/* Without host memory a foreign stream cannot be remembered: its work is waited for instead
 * (*waited), or, in a capture, the one spare record is used. */
static ph__uses *uses_for_free(ph__memory *memory, ph_stream *stream, bool *waited)
{
    ph__uses *uses = ph__uses_create();
    if (uses)
        return uses;
    if (may_wait(memory, stream)) {
        wait_for(memory, stream);
        *waited = true;
        return NULL;
    }
    ph__spin_lock(&memory->lock);
    uses = memory->spare;
    memory->spare = NULL;
    ph__spin_unlock(&memory->lock);
    return uses;
}

ph_status ph__fail_not_live(const char *call, const void *address, const ph_device *device)
{
    return ph__fail_native(
        PH_ERROR_NOT_FOUND, 0, NULL,
        "%s: %p is no live allocation of device %s; pass the address that ph_malloc gave, "
        "before it is freed",
        call, address, device->name);
}

/* Gives a block back that waits for nothing. Lock held on entry, not on return. */
static void finish(ph__memory *memory, ph__block *block)
{
    bool poison = ph__sees(memory, PH__SEE_POISON);
    if (poison) {
        ph__block_set_uses(block, &freeing);
        ph__spin_unlock(&memory->lock);
        ph__poison(memory, block);
        ph__spin_lock(&memory->lock);
    }
    ph__memory_give(memory, block);
    ph__spin_unlock(&memory->lock);
    if (poison)
        ph__poison_report(memory);
}

/* Adds a use. One by the same stream in a capture that is over, which is not running, gives its
 * place: a block that lives through any number of captures remembers no more uses than it has
 * streams. Lock held. */
static bool add_use(ph__memory *memory, ph__uses *uses, ph_stream *stream, uint64_t capture_id)
{
    for (size_t i = 0; i < uses->list.count; i++) {
        ph__use *use = &uses->list.at[i];
        const ph_pool *pool = memory->routes;
        while (pool && pool->capture_id != use->capture_id)
            pool = pool->next_route;
        if (use->stream == stream && use->capture_id != 0 && !pool) {
            use->capture_id = capture_id;
            return true;
        }
    }
    return ph__uses_add(uses, stream, capture_id);
}

bool ph__free_slow(ph__memory *memory, void *pointer, ph_stream *stream)
{
    uint64_t capture_id = stream ? ph__stream_capture_id(stream) : 0;
    bool waited = false;
    ph__uses *fresh = NULL, *uses;
    ph__spin_lock(&memory->lock);
    ph__block *block = live_block(memory, pointer);
    bool foreign = block && stream && stream->id != block->segment->stream;
    if (foreign && !ph__block_uses(block)) {
        ph__spin_unlock(&memory->lock);
        fresh = uses_for_free(memory, stream, &waited);
        ph__spin_lock(&memory->lock);
        block = live_block(memory, pointer);
    }
    if (!block || (foreign && !waited && !fresh && !ph__block_uses(block))) {
        ph__spin_unlock(&memory->lock);
        ph__uses_destroy(memory, fresh);
        return false;
    }
    ph__memory_retire(memory, block, stream ? stream : ph__mseg_of(block)->stream);
    if (fresh && !ph__block_uses(block)) {
        fresh->block = block;
        fresh->pool = ph__mseg_of(block)->pool;
        ph__block_set_uses(block, fresh);
        fresh = NULL;
    }
    uses = ph__block_uses(block);
    if (!uses) {
        if (ph__born_keeps(memory, block)) {
            ph__born_wait(memory, block);
            ph__spin_unlock(&memory->lock);
        } else {
            finish(memory, block);
        }
        ph__uses_destroy(memory, fresh);
        return true;
    }
    uses->life = PH__FREEING;
    bool noted = !foreign || waited || add_use(memory, uses, stream, capture_id);
    ph__spin_unlock(&memory->lock);
    if (!noted && may_wait(memory, stream)) {
        wait_for(memory, stream);
        noted = true;
    }
    if (noted)
        ph__uses_defer(memory, uses, stream);
    else
        PH__LOG_ONCE(
            PH_LOG_WARNING,
            "ph_free: no host memory to remember another stream's use of %p; the block stays taken "
            "until the device is closed; said once",
            pointer);
    ph__uses_destroy(memory, fresh);
    return true;
}

/* The record of uses of what is at address, for the device kind or the pinned kind; makes *fresh
 * part of it where there is none yet. Lock held. found: such an allocation is live. */
static ph__uses *uses_at(ph__memory *memory, uintptr_t address, ph__uses **fresh, ph_stream **own,
                         bool *found)
{
    ph__block *block = live_block(memory, (const void *)address);
    ph__pinned *pinned = block ? NULL : ph__pinned_find(memory, address);
    *found = block || (pinned && pinned->address == address && !pinned->freed_by_user);
    if (!*found)
        return NULL;
    *own = block ? ph__mseg_of(block)->stream : pinned->stream;
    ph__uses *uses = block ? ph__block_uses(block) : pinned->uses;
    if (uses || !*fresh)
        return uses;
    uses = *fresh;
    *fresh = NULL;
    uses->block = block;
    uses->pinned = pinned;
    uses->pool = block ? ph__mseg_of(block)->pool : pinned->pool;
    if (block)
        ph__block_set_uses(block, uses);
    else
        pinned->uses = uses;
    return uses;
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
    if (ph__script_knows(memory, pointer))
        return PH_OK;
    uint64_t capture_id;
    PH_TRY(ph__stream_find_capture(&capture_id, stream, call));
    ph__uses *fresh = NULL;
    ph_stream *own = NULL;
    bool found, noted = true;
    ph__spin_lock(&memory->lock);
    ph__uses *uses = uses_at(memory, (uintptr_t)pointer, &fresh, &own, &found);
    if (found && own != stream && !uses) {
        ph__spin_unlock(&memory->lock);
        fresh = ph__uses_create();
        noted = fresh != NULL;
        ph__spin_lock(&memory->lock);
        uses = uses_at(memory, (uintptr_t)pointer, &fresh, &own, &found);
    }
    if (found && own != stream)
        noted = uses && add_use(memory, uses, stream, capture_id);
    if (capture_id)
        ph__born_work_on(memory, capture_id);
    ph__spin_unlock(&memory->lock);
    ph__uses_destroy(memory, fresh);
    if (!found)
        return ph__fail_not_live(call, pointer, stream->device);
    if (capture_id)
        ph__copy_captured(&memory->attachment, capture_id, pointer, pointer);
    return noted ? PH_OK : ph__fail_host_memory(call, "the use of the block");
}
