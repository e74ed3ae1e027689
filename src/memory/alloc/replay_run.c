/* SPDX-License-Identifier: MIT */
/* memory/alloc/replay_run.c: a replay allocator, from its begin to its end. */
#include "memory/alloc/replay_run.h"
#include "base/alloc.h"
#include "base/map.h"
#include "base/range_map.h"
#include "base/vec.h"
#include "memory/block/block.h"
#include "memory/capture/replay_allocator.h"
#include "memory/state/allocation.h"
#include "memory/state/find.h"
#include "memory/state/handout.h"
#include "memory/state/memory_state.h"
#include "memory/state/pinned_block.h"
#include "memory/state/stream_uses.h"
#include <string.h>

/* ---- a run ---- */
static void script_free(ph__script *script)
{
    if (script == NULL)
        return;
    ph__ranges_free(&script->live);
    ph__map_free(&script->at);
    ph__map_free(&script->lines);
    ph__free(script->heads);
    ph__free(script->parts);
    ph__free(script);
}

/* All parts that a run may be given are in their lines again. */
static void line_up(ph__script *script)
{
    size_t count = script->layout->list.count;
    memset(script->heads, 0, count * sizeof(ph__part *));
    for (size_t i = count; i-- > 0;) {
        ph__part **head = ph__script_head(script, script->parts[i].placing);
        if (script->skip_held && script->parts[i].held)
            continue;
        script->parts[i].next = *head;
        *head = &script->parts[i];
    }
}

/* All that requests and frees need, which have the lock. */
static bool make_parts(ph__script *script, const ph__layout *layout)
{
    size_t count = layout->list.count;
    script->layout = layout;
    script->parts = ph__calloc(count + 1, sizeof *script->parts);
    script->heads = ph__calloc(count + 1, sizeof(ph__part *));
    if (script->parts == NULL || script->heads == NULL || !ph__vec_reserve(&script->live, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        const ph__placing *placing = &layout->list.at[i];
        script->parts[i].placing = placing;
        if (!ph__map_put(&script->at, placing->address, &script->parts[i]) ||
            !ph__map_put(&script->lines,
                         ph__script_key(placing->requested, placing->stream, placing->pinned),
                         &script->heads[i]))
            return false;
    }
    line_up(script);
    return true;
}

ph_status ph__script_begin(ph__script **out, ph_pool *pool, ph_pool *home, const ph__layout *layout,
                           uint64_t from, uint64_t to, const char *call)
{
    ph__memory *memory = pool->memory;
    *out = NULL;
    ph__script *script = ph__calloc(1, sizeof *script);
    if (script == NULL || !make_parts(script, layout)) {
        script_free(script);
        return ph__fail_host_memory(call, "the layout of the capture");
    }
    script->memory = memory;
    script->pool = ph_pool_retain(pool);
    script->home = ph_pool_retain(home);
    script->from = from;
    script->to = to;
    script->thread = ph__thread_id();
    ph__spin_lock(&memory->lock);
    script->next = memory->scripts;
    memory->scripts = script;
    pool->script = script;
    ph__see(memory, PH__SEE_SCRIPT, true);
    ph__spin_unlock(&memory->lock);
    *out = script;
    return PH_OK;
}

/* Whoever the capture gave it to has it. */
static bool is_held(const ph__memory *memory, const ph__placing *placing)
{
    if (placing->pinned) {
        const ph__pinned *pinned = ph__pinned_find(memory, placing->address);
        return pinned && pinned->generation == placing->generation;
    }
    const ph__block *block = ph__memory_block(memory, placing->address);
    return block && block->generation == placing->generation && ph__block_is_live(block);
}

void ph__script_rewind(ph__script *script, bool skip_held)
{
    ph__spin_lock(&script->memory->lock);
    script->skip_held = skip_held;
    for (size_t i = 0; i < script->layout->list.count; i++) {
        ph__part *one = &script->parts[i];
        one->used = false;
        one->held = is_held(script->memory, &script->layout->list.at[i]);
    }
    line_up(script);
    script->live.count = 0;
    script->missed = script->missed_bytes = script->looked = 0;
    ph__spin_unlock(&script->memory->lock);
}

size_t ph__script_missed(size_t *bytes, const ph__script *script)
{
    *bytes = script->missed_bytes;
    return script->missed;
}

size_t ph__script_looked(const ph__script *script)
{
    return script->looked;
}

size_t ph__script_unused(const ph__script *script)
{
    size_t count = 0;
    for (size_t i = 0; i < script->layout->list.count; i++)
        count += !script->parts[i].used && !script->parts[i].held;
    return count;
}

/* ---- the end ---- */
/* What the run has left becomes an allocation, where the capture's own is gone. false: no host
 * memory for that. Lock held. */
static bool settle(const ph__script *script, const ph__placing *placing)
{
    const ph__block *there = ph__memory_block(script->memory, placing->address);
    bool no_memory;
    if (placing->pinned ||
        (there && there->address == placing->address && ph__block_is_live(there)))
        return true;
    ph__block *block = ph__heap_take_at(script->home->heap, placing->address, placing->size,
                                        placing->requested, placing->stream, &no_memory);
    if (block)
        ph__memory_hand_out(script->memory, script->home, block);
    return block || !no_memory;
}

/* Every block that the run freed and was not given again. */
static void pay(const ph__script *script)
{
    for (size_t i = 0; i < script->layout->list.count; i++) {
        const ph__placing *placing = script->parts[i].placing;
        const ph__range *live = ph__ranges_find(&script->live, placing->address);
        if (!script->parts[i].owed || (live && live->base == placing->address))
            continue;
        if (placing->pinned)
            ph_free_pinned((void *)placing->address, NULL);
        else
            ph_free((void *)placing->address, NULL);
    }
}

bool ph__script_end(ph__script *script)
{
    bool settled = true;
    if (script == NULL)
        return true;
    ph__memory *memory = script->memory;
    ph__spin_lock(&memory->lock);
    ph__script **link = &memory->scripts;
    while (*link != script)
        link = &(*link)->next;
    *link = script->next;
    script->pool->script = NULL;
    ph__see(memory, PH__SEE_SCRIPT, memory->scripts != NULL);
    for (size_t i = 0; i < script->live.count; i++)
        settled = settle(script, ((const ph__part *)script->live.at[i].value)->placing) && settled;
    ph__spin_unlock(&memory->lock);
    pay(script);
    ph_pool_release(script->pool);
    ph_pool_release(script->home);
    script_free(script);
    return settled;
}
