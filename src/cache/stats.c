/* SPDX-License-Identifier: MIT */
/* cache/stats.c: numbers, entries and the table of a cache. */
#include "base/status.h"
#include "base/text.h"
#include "cache/check.h"
#include "cache/entry.h"
#include "cache/renewal_end.h"
#include "graph/change/changes.h"
#include <string.h>

ph_status ph_graph_cache_get_stats(ph_graph_cache_stats *out, ph_graph_cache *cache)
{
    static const char call[] = "ph_graph_cache_get_stats";
    ph_memory_stats pool;
    if (!out)
        return ph__fail_null(call, "out");
    memset(out, 0, sizeof *out);
    PH_TRY(ph__cache_check_there(cache, call));
    PH_TRY(ph_pool_stats(&pool, cache->pool));
    ph__mutex_lock(&cache->lock);
    for (ph__cache_entry *entry = cache->newest; entry; entry = entry->older)
        ph__entry_count_replays(cache, entry);
    out->eager = cache->paths[PH_CACHE_EAGER];
    out->captured = cache->paths[PH_CACHE_CAPTURED];
    out->replayed = cache->paths[PH_CACHE_REPLAYED];
    out->learned = cache->paths[PH_CACHE_LEARNED];
    out->updated = cache->paths[PH_CACHE_UPDATED];
    out->nested = cache->paths[PH_CACHE_NESTED];
    out->recorded = cache->paths[PH_CACHE_RECORDED];
    for (size_t path = 1; path < sizeof cache->paths / sizeof cache->paths[0]; path++)
        out->calls += cache->paths[path];
    out->evicted = cache->evicted;
    out->refused = cache->refused;
    out->beyond = cache->beyond;
    out->keys = cache->keys;
    out->graphs = cache->graphs;
    out->executable_bytes = cache->bytes;
    out->renewed = cache->renewed;
    ph__mutex_unlock(&cache->lock);
    out->executable_bytes += ph__renewal_bytes(cache);
    out->pool_bytes = pool.reserved;
    return PH_OK;
}

static size_t count_demoted(const ph__cache_entry *entry)
{
    size_t demoted = entry->graph ? ph__changes_demoted(entry->graph) : 0;
    for (size_t i = 0; i < PH__CACHE_VARIANTS && entry->variants[i]; i++)
        demoted += ph__changes_demoted(entry->variants[i]);
    return demoted;
}

static void show_entry(ph_graph_cache_entry *out, ph__cache_entry *entry)
{
    const ph__learned *learned = entry->learned;
    uint64_t replays = atomic_load_explicit(&entry->replays, memory_order_relaxed);
    *out = (ph_graph_cache_entry){.key = entry->key,
                                  .key_bytes = entry->key_bytes,
                                  .has_graph = entry->has_graphs,
                                  .refused = entry->refused,
                                  .uses = entry->uses + replays,
                                  .hits = entry->hits + replays,
                                  .bytes = entry->bytes};
    if (learned) {
        out->moved_groups = learned->groups.count - 1;
        for (uint64_t varied = learned->varied; varied; varied &= varied - 1)
            out->changed_values++;
    }
    if (!entry->apart) /* otherwise a call changes its graphs without the lock */
        entry->demoted = count_demoted(entry);
    out->demoted = entry->demoted;
    memcpy(out->reason, entry->reason, sizeof out->reason);
    out->status = entry->status;
    out->native_code = entry->native_code;
}

/* The entry of that place with one user more, so that nothing takes its graphs; NULL beyond. */
static ph__cache_entry *hold_entry(ph_graph_cache *cache, size_t index)
{
    ph__mutex_lock(&cache->lock);
    ph__cache_entry *entry = cache->newest;
    for (; entry && index > 0; index--)
        entry = entry->older;
    if (entry)
        entry->users++;
    ph__mutex_unlock(&cache->lock);
    return entry;
}

/* The one behind it, in the order of last use; lets go of this one. */
static ph__cache_entry *hold_older(ph_graph_cache *cache, ph__cache_entry *entry)
{
    ph__mutex_lock(&cache->lock);
    ph__cache_entry *older = entry->older;
    if (older)
        older->users++;
    ph__mutex_unlock(&cache->lock);
    ph__entry_leave(cache, entry, 0, NULL);
    return older;
}

static void read_entry(ph_graph_cache_entry *out, ph_graph_cache *cache, ph__cache_entry *entry)
{
    ph__mutex_lock(&entry->lock);
    ph__mutex_lock(&cache->lock);
    show_entry(out, entry);
    ph__mutex_unlock(&cache->lock);
    ph__mutex_unlock(&entry->lock);
}

ph_status ph_graph_cache_entry_at(ph_graph_cache_entry *out, ph_graph_cache *cache, size_t index)
{
    static const char call[] = "ph_graph_cache_entry_at";
    if (!out)
        return ph__fail_null(call, "out");
    memset(out, 0, sizeof *out);
    PH_TRY(ph__cache_check_there(cache, call));
    ph__cache_entry *entry = hold_entry(cache, index);
    if (!entry)
        return ph_fail(PH_ERROR_NOT_FOUND, "%s: the cache has no entry %zu, numbered from 0", call,
                       index);
    read_entry(out, cache, entry);
    ph__entry_leave(cache, entry, 0, NULL);
    return PH_OK;
}

enum {
    SHOWN_KEY = 24 /* bytes of a key in the table */
};

static bool is_text(const unsigned char *key, size_t bytes)
{
    bool text = bytes <= SHOWN_KEY;
    for (size_t i = 0; text && i < bytes; i++)
        text = key[i] >= 0x20 && key[i] < 0x7f;
    return text;
}

/* Text as it is, other bytes in hexadecimal. */
static void add_key(ph__text *text, const unsigned char *key, size_t bytes)
{
    size_t shown = bytes < SHOWN_KEY / 2 ? bytes : SHOWN_KEY / 2;
    if (is_text(key, bytes)) {
        ph__text_format(text, "%-27.*s", (int)bytes, (const char *)key);
        return;
    }
    for (size_t i = 0; i < shown; i++)
        ph__text_format(text, "%02x", key[i]);
    ph__text_format(text, "%-*s", (int)(27 - 2 * shown), shown < bytes ? "..." : "");
}

static void add_entry_line(ph__text *text, const ph_graph_cache_entry *entry)
{
    add_key(text, entry->key, entry->key_bytes);
    ph__text_format(text, " %8llu %8llu %10zu %7zu %7zu  %s", (unsigned long long)entry->uses,
                    (unsigned long long)entry->hits, entry->bytes, entry->moved_groups,
                    entry->changed_values,
                    entry->refused     ? "runs eagerly"
                    : entry->has_graph ? "graph"
                                       : "no graph");
    if (entry->demoted)
        ph__text_format(text, ", %zu node%s slower by an update", entry->demoted,
                        entry->demoted == 1 ? "" : "s");
    ph__text_format(text, "%s%s\n", entry->reason[0] ? ": " : "", entry->reason);
}

ph_status ph_graph_cache_text(char **out, ph_graph_cache *cache)
{
    static const char call[] = "ph_graph_cache_text";
    ph_graph_cache_stats stats;
    ph__text text = {0};
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    PH_TRY(ph_graph_cache_get_stats(&stats, cache));
    ph__text_format(&text,
                    "%zu keys, %zu with graphs; %zu bytes of executables, %zu of the pool\n"
                    "%llu calls: %llu replayed, %llu eager, %llu captured, %llu learned, "
                    "%llu updated; %llu evicted, %llu renewed\n",
                    stats.keys, stats.graphs, stats.executable_bytes, stats.pool_bytes,
                    (unsigned long long)stats.calls, (unsigned long long)stats.replayed,
                    (unsigned long long)stats.eager, (unsigned long long)stats.captured,
                    (unsigned long long)stats.learned, (unsigned long long)stats.updated,
                    (unsigned long long)stats.evicted, (unsigned long long)stats.renewed);
    ph__text_format(&text, "%-27s %8s %8s %10s %7s %7s  state\n", "key", "uses", "hits", "bytes",
                    "groups", "values");
    for (ph__cache_entry *entry = hold_entry(cache, 0); entry; entry = hold_older(cache, entry)) {
        ph_graph_cache_entry line;
        read_entry(&line, cache, entry);
        add_entry_line(&text, &line);
    }
    *out = ph__text_detach(&text);
    return *out ? PH_OK : ph__fail_host_memory(call, "the table");
}
