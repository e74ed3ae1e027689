/* SPDX-License-Identifier: MIT */
/* memory/report/snapshot_json.c: the JSON text of a snapshot. */
#include "memory/report/snapshot_json.h"
#include "base/json.h"
#include "base/text.h"
#include "memory/state/history.h"

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

static void write_pools(ph__json *json, const ph__snapshot *all)
{
    ph__json_key(json, "pools");
    ph__json_open(json, '[');
    for (size_t i = 0; i < all->pools.count; i++) {
        const ph__snapshot_pool *pool = &all->pools.at[i];
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

static void write_blocks(ph__json *json, const ph__snapshot_block *blocks, size_t block_count)
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

static void write_segment(ph__json *json, const ph__snapshot_segment *segment,
                          const ph__snapshot_block *blocks)
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

static void write_segments(ph__json *json, const ph__snapshot *all)
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

static void write_pinned(ph__json *json, const ph__snapshot *all)
{
    ph__json_key(json, "pinned");
    ph__json_open(json, '[');
    for (size_t i = 0; i < all->pinned.count; i++) {
        const ph__snapshot_pinned *block = &all->pinned.at[i];
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

static void write_history(ph__json *json, const ph__snapshot *all, const ph_pool *only)
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

char *ph__snapshot_write(const ph__snapshot *all, const ph_device *device, const ph_pool *only)
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
    return ph__text_detach(&json.text);
}
