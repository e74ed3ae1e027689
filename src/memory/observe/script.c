/* SPDX-License-Identifier: MIT */
/* memory/observe/script.c: the order in which a capture was given its blocks, and giving the
 * same ones again to another run of the same work. */
#include "base/alloc.h"
#include "base/rng.h"
#include "memory/state.h"
#include <string.h>

/* What one block of the layout is in the run. owed: the block that is there was freed by the
 * run, as one that came before: it is given again, or goes at the end. */
typedef struct part {
    const ph__placing *placing;
    struct part *next; /* of its line */
    bool used, held, owed;
    uint64_t generation;
} part;

struct ph__script {
    ph__script *next; /* in the memory's list, under its lock, as is all of it */
    ph__memory *memory;
    ph_pool *pool, *home; /* whose requests are answered; whose blocks the layout is of */
    const ph__layout *layout;
    uint64_t from, to; /* streams: the layout's `from` is the run's `to` */
    uint64_t thread;
    part *parts;
    /* Of what is alike to requests, so that they need not look at all else: key -> one of heads,
     * from which the parts come in the order of the layout, until they are used. */
    ph__map lines;
    part **heads;
    ph__ranges live; /* what the run was given and has not freed -> part; room for all */
    ph__map at;      /* address -> one of the parts that begin there */
    bool skip_held;
    size_t missed, missed_bytes, looked;
};

/* ---- what captures are given ---- lock held. A request may outlive the capture that it was
 * made in: that one's list is gone then. */
void ph__layout_note(ph_pool *pool, uint64_t capture_id, const ph__placing *placing)
{
    if (pool->capture_id != capture_id)
        return;
    pool->noted += !placing->pinned;
    pool->layout.lost = pool->layout.lost || !ph__vec_push(&pool->layout.list, *placing);
}

void ph__pool_take_layout(ph__layout *out, ph_pool *pool, uint64_t capture_id)
{
    *out = (ph__layout){0};
    ph__spin_lock(&pool->memory->lock);
    if (pool->capture_id == capture_id) {
        *out = pool->layout;
        pool->layout = (ph__layout){0};
    }
    ph__spin_unlock(&pool->memory->lock);
}

void ph__layout_free(ph__layout *layout)
{
    ph__vec_free(&layout->list);
    layout->lost = false;
}

size_t ph__layout_bytes(const ph__layout *layout)
{
    return layout->list.capacity * sizeof *layout->list.at;
}

bool ph__layout_copy(ph__layout *out, const ph__layout *from)
{
    *out = (ph__layout){.lost = from->lost};
    if (!ph__vec_reserve(&out->list, from->list.count))
        return false;
    if (from->list.count > 0)
        memcpy(out->list.at, from->list.at, from->list.count * sizeof *from->list.at);
    out->list.count = from->list.count;
    return true;
}

/* Pinned blocks are not the pool's own for good: it must be the one that the capture had, and be
 * in nobody else's hands. */
static bool is_there(const ph__memory *memory, const ph__placing *placing)
{
    const ph__range *range =
        ph__range_map_find(placing->pinned ? &memory->pinned : &memory->segments, placing->address);
    if (range == NULL || !placing->pinned)
        return range != NULL;
    const ph__pinned *block = range->value;
    return !block->free && block->generation == placing->generation;
}

bool ph__placing_is_there(const ph_device *device, const ph__placing *placing)
{
    ph__memory *memory = ph__memory_of(device);
    if (memory == NULL)
        return false;
    ph__spin_lock(&memory->lock);
    bool there = is_there(memory, placing);
    ph__spin_unlock(&memory->lock);
    return there;
}

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

static uint64_t key_of(size_t requested, uint64_t stream, bool pinned)
{
    ph__rng rng = {2 * requested + pinned};
    uint64_t key = ph__rng_next(&rng) ^ stream;
    return key ? key : 1;
}

static part **head_of(const ph__script *script, const ph__placing *placing)
{
    return ph__map_get(&script->lines,
                       key_of(placing->requested, placing->stream, placing->pinned));
}

/* All parts that a run may be given are in their lines again. */
static void line_up(ph__script *script)
{
    size_t count = script->layout->list.count;
    memset(script->heads, 0, count * sizeof(part *));
    for (size_t i = count; i-- > 0;) {
        part **head = head_of(script, script->parts[i].placing);
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
    script->heads = ph__calloc(count + 1, sizeof(part *));
    if (script->parts == NULL || script->heads == NULL || !ph__vec_reserve(&script->live, count))
        return false;
    for (size_t i = 0; i < count; i++) {
        const ph__placing *placing = &layout->list.at[i];
        script->parts[i].placing = placing;
        if (!ph__map_put(&script->at, placing->address, &script->parts[i]) ||
            !ph__map_put(&script->lines,
                         key_of(placing->requested, placing->stream, placing->pinned),
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
        part *one = &script->parts[i];
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

/* ---- requests ---- lock held */
/* A run that frees later than the capture did must not be given one block twice. There is room:
 * false says that they overlap. */
static bool make_live(ph__script *script, part *one)
{
    return ph__ranges_add(&script->live, one->placing->address, one->placing->size, one);
}

static bool fits(const ph__script *script, const part *one, const ph__placing *asked)
{
    const ph__placing *placing = one->placing;
    return placing->requested == asked->requested && placing->stream == asked->stream &&
           placing->pinned == asked->pinned &&
           (asked->address == 0 || asked->address == placing->address) &&
           is_there(script->memory, placing);
}

/* It is live from then on. In a capture, memory that has no stream of its own is its stream's, else
 * the default one's (ph_memory_stream). */
static part *take_part(ph__script *script, const ph__request *request, uintptr_t address,
                       bool pinned)
{
    bool there = request->stream->id == script->to || request->stream->is_default;
    uint64_t stream = there ? script->from : request->stream->id;
    const ph__placing asked = {
        .stream = stream, .address = address, .requested = request->bytes, .pinned = pinned};
    for (part **link = head_of(script, &asked); link && *link; link = &(*link)->next) {
        part *one = *link;
        script->looked++;
        if (fits(script, one, &asked) && make_live(script, one)) {
            *link = one->next;
            return one;
        }
    }
    return NULL;
}

bool ph__script_take(void **out, ph__memory *memory, const ph__request *request, uintptr_t address,
                     bool pinned)
{
    bool found = false;
    ph__spin_lock(&memory->lock);
    ph_pool *pool = request->pool;
    ph__script *script = pool->script;
    bool given = request->capture_id && !pinned;
    bool room = script && (!given || ph__given_reserve(pool));
    part *one = room ? take_part(script, request, address, pinned) : NULL;
    if (one) {
        one->used = true;
        one->generation = ph__next_generation(memory);
        if (given)
            pool->given.at[pool->given.count++] =
                (ph__span){one->placing->address, one->placing->size};
        *out = (void *)one->placing->address;
        found = true;
    } else if (script && script->missed++ == 0) {
        script->missed_bytes = request->bytes;
    }
    ph__spin_unlock(&memory->lock);
    return found;
}

/* The live part around the address; *script has it. */
static const part *find_live(ph__script **script, const ph__memory *memory, uintptr_t address)
{
    for (*script = memory->scripts; *script; *script = (*script)->next) {
        const ph__range *range = ph__ranges_find(&(*script)->live, address);
        if (range)
            return range->value;
    }
    return NULL;
}

bool ph__script_find(ph_allocation *out, const ph__memory *memory, uintptr_t address)
{
    ph__script *script;
    const part *one = find_live(&script, memory, address);
    if (one == NULL)
        return false;
    *out = (ph_allocation){.base = (void *)one->placing->address,
                           .requested = one->placing->requested,
                           .size = one->placing->size,
                           .generation = one->generation,
                           .pool = script->home,
                           .pinned = one->placing->pinned};
    return true;
}

/* ---- frees ---- */
/* A run frees what an earlier one left where it is about to be given a block itself. */
static bool owe(const ph__memory *memory, uintptr_t address)
{
    for (ph__script *script = memory->scripts; script; script = script->next) {
        part *one = script->thread == ph__thread_id() ? ph__map_get(&script->at, address) : NULL;
        if (one) {
            one->owed = true;
            return true;
        }
    }
    return false;
}

bool ph__script_free(ph__memory *memory, const void *pointer)
{
    ph__script *script;
    uintptr_t address = (uintptr_t)pointer;
    ph__spin_lock(&memory->lock);
    const part *one = find_live(&script, memory, address);
    bool known = one && ph__ranges_remove(&script->live, address);
    if (!known)
        known = address && owe(memory, address);
    ph__spin_unlock(&memory->lock);
    return known;
}

bool ph__script_knows(ph__memory *memory, const void *pointer)
{
    ph_allocation found;
    if (!ph__sees(memory, PH__SEE_SCRIPT))
        return false;
    ph__spin_lock(&memory->lock);
    bool known = ph__script_find(&found, memory, (uintptr_t)pointer) && found.base == pointer;
    ph__spin_unlock(&memory->lock);
    return known;
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
        settled = settle(script, ((const part *)script->live.at[i].value)->placing) && settled;
    ph__spin_unlock(&memory->lock);
    pay(script);
    ph_pool_release(script->pool);
    ph_pool_release(script->home);
    script_free(script);
    return settled;
}
