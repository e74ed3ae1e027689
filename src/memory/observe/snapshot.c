/* SPDX-License-Identifier: MIT */
/* memory/observe/snapshot.c: the whole state as JSON: copied under the lock, written out without
 * it. */
#include "base/text.h"
#include "memory/observe/history.h"

typedef struct block_copy {
    uintptr_t address;
    size_t size, requested;
    uint64_t generation;
    bool free, live;
} block_copy;

typedef struct segment_copy {
    uintptr_t address;
    size_t size, blocks; /* blocks: how many of the block list follow for it */
    uint64_t stream;
    ph_pool_id pool;
    bool small, captured;
} segment_copy;

typedef struct pool_copy {
    ph_pool_id id;
    ph_pool_options options;
    size_t use_count, reserved, waiting;
    bool is_default;
} pool_copy;

typedef struct pinned_copy {
    uintptr_t address;
    size_t size, requested;
    uint64_t generation;
    ph_pool_id pool;
    bool free, live;
} pinned_copy;

typedef struct copies {
    PH__VEC(pool_copy) pools;
    PH__VEC(segment_copy) segments;
    PH__VEC(block_copy) blocks;
    PH__VEC(pinned_copy) pinned;
    PH__VEC(ph__event) events;
    size_t allocated, reserved, limit;
    bool history;
} copies;

typedef struct counts {
    size_t pools, segments, blocks, pinned, events;
} counts;

static void copies_free(copies *all)
{
    ph__vec_free(&all->pools);
    ph__vec_free(&all->segments);
    ph__vec_free(&all->blocks);
    ph__vec_free(&all->pinned);
    ph__vec_free(&all->events);
}

static counts count(const ph__memory *memory, const ph_pool *only)
{
    counts n = {0, 0, 0, memory->pinned.count, 0};
    for (const ph_pool *pool = &memory->default_pool; pool; pool = pool->next) {
        if (only && pool != only)
            continue;
        ph__heap_stats stats;
        ph__heap_get_stats(pool->heap, &stats);
        n.pools++;
        n.segments += stats.segments[0] + stats.segments[1];
        n.blocks += stats.used_blocks[0] + stats.used_blocks[1] + stats.free_blocks[0] +
                    stats.free_blocks[1];
    }
    if (memory->history)
        n.events = memory->history->written < memory->history->capacity
                       ? (size_t)memory->history->written
                       : memory->history->capacity;
    return n;
}

static bool fits(const copies *all, const counts *n)
{
    return n->pools <= all->pools.capacity && n->segments <= all->segments.capacity &&
           n->blocks <= all->blocks.capacity && n->pinned <= all->pinned.capacity &&
           n->events <= all->events.capacity;
}

static bool make_room(copies *all, const counts *n)
{
    return ph__vec_reserve(&all->pools, n->pools) && ph__vec_reserve(&all->segments, n->segments) &&
           ph__vec_reserve(&all->blocks, n->blocks) && ph__vec_reserve(&all->pinned, n->pinned) &&
           ph__vec_reserve(&all->events, n->events);
}

static void copy_segment(copies *all, const ph_pool *pool, const ph__segment *segment)
{
    const ph__mseg *mseg = segment->user;
    segment_copy *copy = &all->segments.at[all->segments.count++];
    *copy = (segment_copy){.address = segment->address,
                           .size = segment->size,
                           .stream = segment->stream,
                           .pool = pool->id,
                           .small = segment->small,
                           .captured = mseg->captured};
    for (const ph__block *block = segment->first; block; block = block->next) {
        all->blocks.at[all->blocks.count++] =
            (block_copy){block->address,    block->size, block->requested,
                         block->generation, block->free, !block->free && ph__block_is_live(block)};
        copy->blocks++;
    }
}

static void copy_pinned(copies *all, const ph__memory *memory, const ph_pool *only)
{
    for (const ph__range *range = ph__range_map_from(&memory->pinned, 0); range;
         range = ph__range_map_from(&memory->pinned, range->base + range->size)) {
        const ph__pinned *block = range->value;
        if (!only || block->pool == only)
            all->pinned.at[all->pinned.count++] =
                (pinned_copy){block->address,
                              block->size,
                              block->requested,
                              block->generation,
                              block->pool->id,
                              block->free,
                              !block->free && !block->freed_by_user};
    }
}

/* Everything that fits the room already made. Lock held. */
static void copy_all(copies *all, const ph__memory *memory, const ph_pool *only)
{
    for (const ph_pool *pool = &memory->default_pool; pool; pool = pool->next) {
        if (only && pool != only)
            continue;
        all->pools.at[all->pools.count++] =
            (pool_copy){pool->id,       pool->options, pool->use_count,
                        pool->reserved, pool->waiting, ph__pool_is_default(pool)};
        for (const ph__segment *s = ph__heap_first_segment(pool->heap); s; s = s->next)
            copy_segment(all, pool, s);
    }
    copy_pinned(all, memory, only);
    const ph__history *history = memory->history;
    uint64_t first =
        history && history->written > history->capacity ? history->written - history->capacity : 0;
    for (uint64_t i = first; history && i < history->written; i++)
        all->events.at[all->events.count++] = history->at[i % history->capacity];
    all->history = history != NULL;
    const ph__account *account =
        only && !ph__pool_is_default(only) ? &only->account : &memory->account;
    const ph__tally *bytes = &account->tally[PH__COUNT_BYTES];
    all->allocated = (size_t)(bytes->current[0] + bytes->current[1]);
    all->reserved = only ? only->reserved : memory->reserved;
    all->limit = only ? only->options.limit : memory->limit;
}

static bool take_copies(copies *all, ph__memory *memory, const ph_pool *only)
{
    for (;;) {
        ph__spin_lock(&memory->lock);
        counts n = count(memory, only);
        bool enough = fits(all, &n);
        if (enough)
            copy_all(all, memory, only);
        ph__spin_unlock(&memory->lock);
        if (enough)
            return true;
        if (!make_room(all, &n))
            return false;
    }
}

static void write_id(ph__json *json, ph_pool_id id)
{
    ph__json_key(json, "pool");
    ph__json_open(json, '[');
    ph__json_u64(json, id.first);
    ph__json_u64(json, id.second);
    ph__json_close(json, ']');
}

static void write_number(ph__json *json, const char *key, uint64_t value)
{
    ph__json_key(json, key);
    ph__json_u64(json, value);
}

static void write_address(ph__json *json, uintptr_t address)
{
    ph__json_key(json, "address");
    ph__json_hex(json, address);
}

static void write_bool(ph__json *json, const char *key, bool value)
{
    ph__json_key(json, key);
    ph__json_bool(json, value);
}

static void write_state(ph__json *json, bool free, bool live)
{
    ph__json_key(json, "state");
    ph__json_string(json, free ? "free" : live ? "allocated" : "waiting");
}

static void write_pools(ph__json *json, const copies *all)
{
    ph__json_key(json, "pools");
    ph__json_open(json, '[');
    for (size_t i = 0; i < all->pools.count; i++) {
        const pool_copy *pool = &all->pools.at[i];
        ph__json_open(json, '{');
        write_id(json, pool->id);
        write_number(json, "use_count", pool->use_count);
        write_number(json, "reserved", pool->reserved);
        write_number(json, "waiting", pool->waiting);
        write_number(json, "limit", pool->options.limit);
        write_bool(json, "use_on_oom", pool->options.use_on_oom);
        write_bool(json, "no_split", pool->options.no_split);
        write_bool(json, "own_source", pool->options.alloc != NULL);
        ph__json_close(json, '}');
    }
    ph__json_close(json, ']');
}

static void write_blocks(ph__json *json, const block_copy *blocks, size_t block_count)
{
    ph__json_key(json, "blocks");
    ph__json_open(json, '[');
    for (size_t i = 0; i < block_count; i++) {
        ph__json_open(json, '{');
        write_address(json, blocks[i].address);
        write_number(json, "size", blocks[i].size);
        write_number(json, "requested", blocks[i].requested);
        write_state(json, blocks[i].free, blocks[i].live);
        write_number(json, "generation", blocks[i].free ? 0 : blocks[i].generation);
        ph__json_close(json, '}');
    }
    ph__json_close(json, ']');
}

static void write_segment(ph__json *json, const segment_copy *segment, const block_copy *blocks)
{
    size_t allocated = 0, active = 0, requested = 0;
    for (size_t i = 0; i < segment->blocks; i++) {
        allocated += blocks[i].live ? blocks[i].size : 0;
        requested += blocks[i].live ? blocks[i].requested : 0;
        active += blocks[i].free ? 0 : blocks[i].size;
    }
    ph__json_open(json, '{');
    write_address(json, segment->address);
    write_number(json, "size", segment->size);
    write_id(json, segment->pool);
    write_number(json, "stream", segment->stream);
    ph__json_key(json, "type");
    ph__json_string(json, segment->small ? "small" : "large");
    write_bool(json, "captured", segment->captured);
    write_number(json, "allocated", allocated);
    write_number(json, "active", active);
    write_number(json, "requested", requested);
    write_blocks(json, blocks, segment->blocks);
    ph__json_close(json, '}');
}

static void write_segments(ph__json *json, const copies *all)
{
    size_t first = 0;
    ph__json_key(json, "segments");
    ph__json_open(json, '[');
    for (size_t i = 0; i < all->segments.count; i++) {
        write_segment(json, &all->segments.at[i], all->blocks.at + first);
        first += all->segments.at[i].blocks;
    }
    ph__json_close(json, ']');
}

static void write_pinned(ph__json *json, const copies *all)
{
    ph__json_key(json, "pinned");
    ph__json_open(json, '[');
    for (size_t i = 0; i < all->pinned.count; i++) {
        const pinned_copy *block = &all->pinned.at[i];
        ph__json_open(json, '{');
        write_address(json, block->address);
        write_number(json, "size", block->size);
        write_number(json, "requested", block->requested);
        write_id(json, block->pool);
        write_state(json, block->free, block->live);
        write_number(json, "generation", block->free ? 0 : block->generation);
        ph__json_close(json, '}');
    }
    ph__json_close(json, ']');
}

static void write_history(ph__json *json, const copies *all, const ph_pool *only)
{
    static const char *const names[] = {"alloc", "free", "segment_alloc", "segment_free", "oom"};
    ph__json_key(json, "history");
    ph__json_open(json, '[');
    for (size_t i = 0; i < all->events.count; i++) {
        const ph__event *event = &all->events.at[i];
        if (only && (event->pool.first != only->id.first || event->pool.second != only->id.second))
            continue;
        ph__json_open(json, '{');
        ph__json_key(json, "event");
        ph__json_string(json, names[event->what]);
        write_address(json, event->address);
        write_number(json, "size", event->size);
        write_id(json, event->pool);
        write_number(json, "stream", event->stream);
        write_number(json, "generation", event->generation);
        write_number(json, "time_ns", event->time_ns);
        ph__json_close(json, '}');
    }
    ph__json_close(json, ']');
}

static char *write_out(const copies *all, const ph_device *device, const ph_pool *only)
{
    ph__json json = {0};
    ph__json_open(&json, '{');
    ph__json_key(&json, "schema");
    ph__json_string(&json, "phonograph-memory-1");
    ph__json_key(&json, "device");
    ph__json_string(&json, device->name);
    write_number(&json, "allocated", all->allocated);
    write_number(&json, "reserved", all->reserved);
    write_number(&json, "limit", all->limit);
    write_pools(&json, all);
    write_segments(&json, all);
    write_pinned(&json, all);
    if (all->history)
        write_history(&json, all, only);
    ph__json_close(&json, '}');
    return ph__text_take(&json.text);
}

ph_status ph_memory_snapshot(char **out, const ph_device *device, const ph_pool *pool)
{
    static const char call[] = "ph_memory_snapshot";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!device)
        return ph__fail_null(call, "device");
    if (pool)
        PH_TRY(ph__pool_check(pool, call));
    if (pool && pool->memory->device != device)
        return ph__fail_devices(call, "the pool", pool->memory->device, "what is asked about",
                                device);
    ph__memory *memory = ph__memory_attach((ph_device *)(uintptr_t)device, call);
    if (!memory)
        return ph_error_last()->status;
    ph__memory_process(memory);
    copies all = {.history = false};
    if (take_copies(&all, memory, pool))
        *out = write_out(&all, device, pool);
    copies_free(&all);
    return *out ? PH_OK : ph__fail_host_memory(call, "the snapshot");
}

void ph_string_free(char *string)
{
    ph__free(string);
}
