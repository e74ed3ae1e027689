/* SPDX-License-Identifier: MIT */
/* cache/entry.c: finding the entry of a key, and letting go of it. */
#include "cache/entry.h"
#include "base/alloc.h"
#include "cache/renewal_end.h"

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
    while (entry && !ph__entry_has_key(entry, key, bytes))
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
    atomic_store_explicit(&cache->last, entry, memory_order_release);
}

static inline void use_entry(ph_graph_cache *cache, ph__cache_entry *entry)
{
    if (entry == cache->newest)
        return;
    unlink_entry(cache, entry);
    link_entry(cache, entry);
}

/* ---- entries ---- */
void ph__entry_move_graphs(ph__cache_entry *to, ph__cache_entry *from)
{
    to->graph = from->graph;
    to->learned = from->learned;
    memcpy(to->variants, from->variants, sizeof to->variants);
    from->graph = NULL;
    from->learned = NULL;
    memset(from->variants, 0, sizeof from->variants);
    from->keeps = false;
}

void ph__entry_count_replays(ph_graph_cache *cache, ph__cache_entry *entry)
{
    uint64_t replays = atomic_load_explicit(&entry->replays, memory_order_relaxed);
    cache->paths[PH_CACHE_REPLAYED] += replays - entry->counted;
    entry->counted = replays;
}

/* Under the entry's lock: a hit that found it in the table is over, or is its user now, and retires
 * it as the last one. Another may have done so, and a new key have it. */
static bool may_retire(ph_graph_cache *cache, const ph__cache_entry *entry)
{
    ph__mutex_lock(&cache->lock);
    bool unused = entry->users == 0;
    ph__mutex_unlock(&cache->lock);
    return unused && entry->key && atomic_load_explicit(&entry->dropped, memory_order_relaxed);
}

/* One that was dropped, and that its caller has seen without users. The graphs' ends call the
 * user's functions. */
static void retire_entry(ph_graph_cache *cache, ph__cache_entry *entry)
{
    ph__cache_entry had = {0};
    ph__mutex_lock(&entry->lock);
    void *key = may_retire(cache, entry) ? entry->key : NULL;
    bool apart = key != entry->room;
    if (key) {
        ph__entry_move_graphs(&had, entry);
        entry->key = NULL;
        entry->key_bytes = 0;
    }
    ph__mutex_unlock(&entry->lock);
    if (!key)
        return;
    ph__entry_clear(cache, &had);
    if (apart)
        ph__free(key);
    ph__mutex_lock(&cache->lock);
    ph__entry_count_replays(cache, entry);
    entry->next = cache->spare;
    cache->spare = entry;
    ph__mutex_unlock(&cache->lock);
}

/* The link of a spare one, which is locked then; of none at the end. Under the cache's lock, which
 * others who have an entry locked wait for: whoever looks at a spare one keeps it. */
static ph__cache_entry **lock_spare(ph_graph_cache *cache)
{
    ph__cache_entry **link = &cache->spare;
    while (*link && !ph__mutex_try(&(*link)->lock))
        link = &(*link)->next;
    return link;
}

/* Locked, or not to be seen yet. */
static void fill_entry(ph__cache_entry *entry, uint64_t hash, void *key,
                       const ph_graph_cache_call *call)
{
    entry->refused = entry->capturing = entry->apart = entry->needs_pool = false;
    entry->keeps = false;
    entry->demoted = 0;
    atomic_store_explicit(&entry->dropped, false, memory_order_relaxed);
    atomic_store_explicit(&entry->replays, 0, memory_order_relaxed);
    entry->key = memcpy(key, call->key, call->key_bytes);
    entry->key_bytes = call->key_bytes;
    entry->pointer_count = call->pointer_count;
    entry->value_count = call->value_count;
    for (size_t i = 0; i < call->value_count; i++)
        entry->value_sizes[i] = (uint16_t)call->values[i].bytes;
    atomic_store_explicit(&entry->tag, ph__entry_tag(call->key, call->key_bytes),
                          memory_order_relaxed);
    entry->seen = 0;
    entry->refusals = entry->unlearned = 0;
    entry->reason[0] = '\0';
    entry->status = PH_OK;
    entry->native_code = 0;
    entry->hash = hash;
    entry->uses = entry->hits = entry->counted = 0;
}

static ph__cache_entry *make_entry(ph_graph_cache *cache, uint64_t hash,
                                   const ph_graph_cache_call *call)
{
    ph__cache_entry **link = lock_spare(cache), *spare = *link;
    ph__cache_entry *entry = spare ? spare : ph__calloc(1, sizeof *entry);
    bool apart = call->key_bytes > PH__CACHE_KEY_ROOM;
    void *key = !apart ? (entry ? entry->room : NULL) : ph__calloc(1, call->key_bytes);
    bool made = entry && key && ph__map_reserve(&cache->entries, 1);
    if (made) {
        if (spare)
            *link = spare->next;
        fill_entry(entry, hash, key, call);
        entry->next = ph__map_get(&cache->entries, hash);
        (void)ph__map_put(&cache->entries, hash, entry);
        link_entry(cache, entry);
        cache->keys++;
    }
    if (spare)
        ph__mutex_unlock(&spare->lock);
    if (made)
        return entry;
    if (apart)
        ph__free(key);
    if (!spare)
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
    atomic_store_explicit(&cache->last, cache->newest, memory_order_release);
    ph__entry_count_replays(cache, entry);
    cache->keys--;
    cache->graphs -= entry->has_graphs;
    cache->bytes -= entry->bytes;
    entry->has_graphs = false;
    entry->bytes = 0;
    atomic_store_explicit(&entry->dropped, true, memory_order_relaxed);
    return entry->users == 0;
}

/* Keys that came seldom go, so that a program whose keys are never the same does not grow. */
static ph__cache_entry *reuse_spare_key(ph_graph_cache *cache)
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
        spare = reuse_spare_key(cache);
        entry = make_entry(cache, hash, call);
    } else {
        use_entry(cache, entry);
    }
    if (entry)
        entry->users++;
    ph__mutex_unlock(&cache->lock);
    if (spare)
        retire_entry(cache, spare);
    return entry;
}

void ph__entry_leave(ph_graph_cache *cache, ph__cache_entry *entry, ph_graph_cache_path path,
                     ph_graph_cache_result *result)
{
    ph__mutex_lock(&cache->lock);
    cache->paths[path]++;
    entry->uses += path != 0;
    entry->hits += path == PH_CACHE_REPLAYED || path == PH_CACHE_NESTED;
    bool dropped = atomic_load_explicit(&entry->dropped, memory_order_relaxed);
    bool gone = --entry->users == 0 && dropped;
    ph__mutex_unlock(&cache->lock);
    if (gone)
        retire_entry(cache, entry);
    if (dropped && result) {
        result->graph = NULL;
        result->epoch = 0;
    }
}

void ph__entry_hold(ph_graph_cache *cache, ph__cache_entry *entry)
{
    ph__mutex_lock(&cache->lock);
    entry->users++;
    ph__mutex_unlock(&cache->lock);
}

/* ---- hits ---- */
/* Graphs and neighbours in the order of use lie anywhere: all of them are asked for before the
 * first one is waited for. */
static inline void fetch_graph(const ph_graph *graph)
{
    for (size_t at = 0; at <= 128; at += 64)
        __builtin_prefetch((const char *)graph + at, 1);
}
static inline void fetch_neighbours(const ph__cache_entry *entry)
{
    if (entry->newer)
        __builtin_prefetch(&entry->newer->older, 1);
    if (entry->older)
        __builtin_prefetch(&entry->older->newer, 1);
}

ph__cache_entry *ph__entry_lock_found(ph_graph_cache *cache, const ph_graph_cache_call *call)
{
    uint64_t hash = hash_key(call->key, call->key_bytes);
    ph__mutex_lock(&cache->lock);
    ph__cache_entry *entry = find_entry(cache, hash, call->key, call->key_bytes);
    if (entry)
        fetch_neighbours(entry);
    bool locked = entry && entry->has_graphs && ph__mutex_try(&entry->lock);
    if (locked) {
        fetch_graph(entry->graph);
        use_entry(cache, entry);
    }
    ph__mutex_unlock(&cache->lock);
    return locked ? entry : NULL;
}

/* ---- ends ---- */
bool ph__entry_drop(ph_graph_cache *cache, const void *key, size_t key_bytes)
{
    ph__mutex_lock(&cache->lock);
    ph__cache_entry *entry = find_entry(cache, hash_key(key, key_bytes), key, key_bytes);
    bool unused = entry && remove_entry(cache, entry);
    ph__mutex_unlock(&cache->lock);
    if (unused)
        retire_entry(cache, entry);
    return entry != NULL;
}

void ph__entry_clear(ph_graph_cache *cache, ph__cache_entry *entry)
{
    entry->keeps = false;
    ph_graph_destroy(entry->graph);
    entry->graph = NULL;
    ph__learned_destroy(entry->learned);
    entry->learned = NULL;
    for (size_t i = 0; i < PH__CACHE_VARIANTS; i++) {
        ph__renewal_forget(cache, entry->variants[i]);
        ph_graph_destroy(entry->variants[i]);
        entry->variants[i] = NULL;
    }
}
