/* SPDX-License-Identifier: MIT */
/* cache/entry.c: finding the entry of a key, and letting go of those that were not used. */
#include "cache/entry.h"
#include "base/alloc.h"
#include "device/capture/refuse.h"
#include "graph/object/graph.h"
#include "graph/object/segments.h"
#include <string.h>

/* ---- keys ---- */
/* Each eight bytes are mixed by a multiplication with 2^64 over the golden ratio (Knuth, The Art of
 * Computer Programming, volume 3, section 6.4), in two lanes, as a multiplication waits for the one
 * before. */
static uint64_t mix_word(uint64_t lane, const unsigned char *at)
{
    uint64_t word;
    memcpy(&word, at, sizeof word);
    lane = (lane ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return lane ^ lane >> 29;
}

/* Never 0, as keys of a map are not. */
static uint64_t hash_key(const void *key, size_t bytes)
{
    const unsigned char *at = key;
    unsigned char rest[16] = {0};
    uint64_t even = bytes, odd = ~(uint64_t)bytes;
    for (; bytes > sizeof rest; bytes -= sizeof rest, at += sizeof rest) {
        even = mix_word(even, at);
        odd = mix_word(odd, at + 8);
    }
    memcpy(rest, at, bytes);
    even = mix_word(even, rest);
    odd = mix_word(odd, rest + 8);
    uint64_t hash = even ^ (odd << 32 | odd >> 32);
    return hash ? hash : 1;
}

static ph__cache_entry *find_entry(const ph_graph_cache *cache, uint64_t hash, const void *key,
                                   size_t bytes)
{
    ph__cache_entry *entry = ph__map_get(&cache->entries, hash);
    while (entry && (entry->key_bytes != bytes || memcmp(entry->key, key, bytes) != 0))
        entry = entry->next;
    return entry;
}

/* ---- the order of use ---- */
static void unlink_entry(ph_graph_cache *cache, ph__cache_entry *entry)
{
    *(entry->newer ? &entry->newer->older : &cache->newest) = entry->older;
    *(entry->older ? &entry->older->newer : &cache->oldest) = entry->newer;
    entry->newer = entry->older = NULL;
}

static void link_entry(ph_graph_cache *cache, ph__cache_entry *entry)
{
    entry->older = cache->newest;
    entry->newer = NULL;
    *(entry->older ? &entry->older->newer : &cache->oldest) = entry;
    cache->newest = entry;
}

/* ---- entries ---- */
static void free_entry(ph__cache_entry *entry)
{
    ph__entry_clear(entry);
    ph__free(entry->key);
    ph__free(entry);
}

static ph__cache_entry *make_entry(ph_graph_cache *cache, uint64_t hash,
                                   const ph_graph_cache_call *call)
{
    ph__cache_entry *entry = ph__calloc(1, sizeof *entry);
    void *key = ph__calloc(1, call->key_bytes);
    if (entry && key && ph__map_reserve(&cache->entries, 1)) {
        memcpy(key, call->key, call->key_bytes);
        entry->key = key;
        entry->key_bytes = call->key_bytes;
        entry->hash = hash;
        entry->pointer_count = call->pointer_count;
        entry->value_count = call->value_count;
        for (size_t i = 0; i < call->value_count; i++)
            entry->value_sizes[i] = (uint16_t)call->values[i].bytes;
        entry->next = ph__map_get(&cache->entries, hash);
        (void)ph__map_put(&cache->entries, hash, entry);
        link_entry(cache, entry);
        cache->keys++;
        return entry;
    }
    ph__free(key);
    ph__free(entry);
    return NULL;
}

/* Takes it out of the table, under the lock. True: nobody uses it, and the caller frees it. */
static bool remove_entry(ph_graph_cache *cache, ph__cache_entry *entry)
{
    ph__cache_entry *first = ph__map_get(&cache->entries, entry->hash);
    if (first == entry) {
        if (entry->next)
            (void)ph__map_put(&cache->entries, entry->hash, entry->next);
        else
            (void)ph__map_remove(&cache->entries, entry->hash);
    } else {
        while (first->next != entry)
            first = first->next;
        first->next = entry->next;
    }
    unlink_entry(cache, entry);
    cache->keys--;
    cache->graphs -= entry->has_graphs;
    cache->bytes -= entry->bytes;
    entry->has_graphs = false;
    entry->bytes = 0;
    entry->dropped = true;
    return entry->users == 0;
}

/* Keys that came seldom go, so that a program whose keys are never the same does not grow. */
static ph__cache_entry *take_spare_key(ph_graph_cache *cache)
{
    ph__cache_entry *entry = cache->oldest;
    if (cache->keys < cache->max_keys)
        return NULL;
    while (entry && (entry->users || entry->has_graphs))
        entry = entry->newer;
    if (entry)
        (void)remove_entry(cache, entry);
    return entry;
}

ph__cache_entry *ph__entry_enter(ph_graph_cache *cache, const ph_graph_cache_call *call)
{
    uint64_t hash = hash_key(call->key, call->key_bytes);
    ph__cache_entry *spare = NULL;
    ph__mutex_lock(&cache->lock);
    ph__cache_entry *entry = find_entry(cache, hash, call->key, call->key_bytes);
    if (!entry) {
        spare = take_spare_key(cache);
        entry = make_entry(cache, hash, call);
    } else if (entry != cache->newest) {
        unlink_entry(cache, entry);
        link_entry(cache, entry);
    }
    if (entry)
        entry->users++;
    ph__mutex_unlock(&cache->lock);
    if (spare)
        free_entry(spare);
    return entry;
}

void ph__entry_leave(ph_graph_cache *cache, ph__cache_entry *entry, ph_graph_cache_path path,
                     ph_graph_cache_result *result)
{
    ph__mutex_lock(&cache->lock);
    cache->paths[path]++;
    entry->uses += path != 0;
    entry->hits += path == PH_CACHE_REPLAYED || path == PH_CACHE_NESTED;
    bool dropped = entry->dropped, gone = --entry->users == 0 && dropped;
    ph__mutex_unlock(&cache->lock);
    if (gone)
        free_entry(entry);
    if (dropped && result) {
        result->graph = NULL;
        result->epoch = 0;
    }
}

bool ph__entry_drop(ph_graph_cache *cache, const void *key, size_t key_bytes)
{
    ph__mutex_lock(&cache->lock);
    ph__cache_entry *entry = find_entry(cache, hash_key(key, key_bytes), key, key_bytes);
    bool unused = entry && remove_entry(cache, entry);
    ph__mutex_unlock(&cache->lock);
    if (unused)
        free_entry(entry);
    return entry != NULL;
}

void ph__entry_use_variant(ph__cache_entry *entry, size_t at)
{
    ph_graph *used = entry->variants[at];
    for (; at > 0; at--)
        entry->variants[at] = entry->variants[at - 1];
    entry->variants[0] = used;
}

void ph__entry_clear(ph__cache_entry *entry)
{
    ph_graph_destroy(entry->graph);
    entry->graph = NULL;
    ph__learned_destroy(entry->learned);
    entry->learned = NULL;
    for (size_t i = 0; i < PH__CACHE_VARIANTS; i++) {
        ph_graph_destroy(entry->variants[i]);
        entry->variants[i] = NULL;
    }
}

/* ---- the budget ---- */
/* Of the device, as measured: the driver takes memory for executables in large pieces, so that one
 * may have taken nothing and the next one all. */
static size_t executable_bytes(ph_graph *graph)
{
    ph_graph_memory memory = {0};
    ph_error before;
    ph__error_save(&before);
    if (graph && ph_graph_get_memory(&memory, graph) != PH_OK)
        ph__error_restore(&before);
    return memory.executable;
}

void ph__entry_account(ph_graph_cache *cache, ph__cache_entry *entry)
{
    size_t bytes = executable_bytes(entry->graph);
    bool has_graphs = entry->graph != NULL;
    for (size_t i = 0; i < PH__CACHE_VARIANTS; i++) {
        bytes += executable_bytes(entry->variants[i]);
        has_graphs = has_graphs || entry->variants[i];
    }
    ph__mutex_lock(&cache->lock);
    if (!entry->dropped) {
        cache->bytes += bytes - entry->bytes;
        cache->graphs += (size_t)has_graphs - (size_t)entry->has_graphs;
        entry->bytes = bytes;
        entry->has_graphs = has_graphs;
    }
    ph__mutex_unlock(&cache->lock);
}

static size_t pool_bytes(const ph_graph_cache *cache)
{
    ph_memory_stats stats = {0};
    ph_error before;
    ph__error_save(&before);
    if (ph_pool_stats(&stats, cache->pool) != PH_OK)
        ph__error_restore(&before);
    return stats.reserved;
}

/* Other threads drop keys meanwhile. */
static bool is_over_budget(ph_graph_cache *cache)
{
    if (!cache->budget)
        return false;
    ph__mutex_lock(&cache->lock);
    size_t bytes = cache->bytes;
    ph__mutex_unlock(&cache->lock);
    return bytes + pool_bytes(cache) > cache->budget;
}

bool ph__entry_is_pool_empty(const ph_graph_cache *cache)
{
    return pool_bytes(cache) == 0;
}

/* Of a graph with breaks the one of its last segment. */
static const ph_stream *last_stream_of(const ph_graph *graph)
{
    const ph__segments *segments = graph ? graph->segments : NULL;
    if (segments)
        graph = segments->list.at[segments->list.count - 1].graph;
    return graph ? graph->last_stream : NULL;
}

/* Streams that are idle have no replay of it left. Under the cache's lock, of an entry that nobody
 * uses. */
static bool is_in_flight(const ph__cache_entry *entry)
{
    const ph_stream *stream = last_stream_of(entry->graph);
    ph_capture_mode mode;
    if (!stream)
        return false;
    ph__relaxed_begin(stream->device, &mode);
    int result = stream->device->driver->stream_query(stream->handle);
    ph__relaxed_end(stream->device, mode);
    return result != PH__R_OK;
}

static ph__cache_entry *choose_victim(const ph_graph_cache *cache, const ph__cache_entry *keep)
{
    ph__cache_entry *waiting = NULL;
    for (ph__cache_entry *entry = cache->oldest; entry; entry = entry->newer) {
        if (entry == keep || entry->users || !entry->has_graphs)
            continue;
        if (!is_in_flight(entry))
            return entry;
        waiting = waiting ? waiting : entry;
    }
    return waiting;
}

/* The key stays, and runs eagerly at first as a new one does. */
static bool evict_one(ph_graph_cache *cache, const ph__cache_entry *keep)
{
    ph__cache_entry kept = {0};
    ph__mutex_lock(&cache->lock);
    ph__cache_entry *victim = choose_victim(cache, keep);
    if (victim) {
        kept.graph = victim->graph;
        kept.learned = victim->learned;
        memcpy(kept.variants, victim->variants, sizeof kept.variants);
        victim->graph = NULL;
        victim->learned = NULL;
        memset(victim->variants, 0, sizeof victim->variants);
        cache->graphs--;
        cache->bytes -= victim->bytes;
        victim->bytes = 0;
        victim->has_graphs = false;
        victim->seen = 0;
        victim->users++; /* for the event */
        cache->evicted++;
    }
    ph__mutex_unlock(&cache->lock);
    ph__entry_clear(&kept);
    if (!victim)
        return false;
    ph__cache_tell(cache, PH_CACHE_EVICTED, victim, "");
    ph__entry_leave(cache, victim, 0, NULL);
    return true;
}

static void trim_pool(const ph_graph_cache *cache)
{
    ph_error before;
    ph__error_save(&before);
    if (ph_pool_trim(cache->pool) != PH_OK)
        ph__error_restore(&before);
}

bool ph__entry_make_room(ph_graph_cache *cache, const ph__cache_entry *keep, size_t more)
{
    for (;;) {
        ph__mutex_lock(&cache->lock);
        size_t graphs = cache->graphs + (keep && keep->has_graphs ? 0 : more);
        bool full = graphs > cache->max_graphs;
        ph__mutex_unlock(&cache->lock);
        bool over = is_over_budget(cache);
        if (!full && !over)
            return true;
        if (!evict_one(cache, keep)) {
            trim_pool(cache);
            return !is_over_budget(cache);
        }
    }
}

void ph__entry_empty_pool(ph_graph_cache *cache)
{
    while (evict_one(cache, NULL))
        ;
    trim_pool(cache);
}
