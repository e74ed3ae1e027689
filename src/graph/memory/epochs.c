/* SPDX-License-Identifier: MIT */
/* graph/memory/epochs.c: the pools that graphs hold, and which replay wrote an output last. */
#include "graph/memory/epochs.h"
#include "base/alloc.h"
#include "base/fork.h"
#include "base/map.h"
#include "graph/object/graph.h"
#include "memory/observe/lookup.h"
#include "memory/pool/pool.h"
#include <pthread.h>

/* Every writer of the process, by pool. Those of graphs that are gone stay while other graphs
 * share their pool, since they may have overwritten those graphs' outputs; a pool's address
 * names it for as long as one graph holds it. */
typedef struct ph__writers {
    ph__writer *held, *gone;
    size_t gone_count;
} ph__writers;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
PH__FORK_LOCK(PH__FORK_WRITERS, lock)
static ph__map pools; /* ph_pool -> ph__writers */

/* ---- memory ---- */
bool ph__writer_reserve(ph__writer *writer, size_t sets)
{
    pthread_mutex_lock(&lock);
    bool reserved = ph__vec_reserve(&writer->sets, sets);
    pthread_mutex_unlock(&lock);
    return reserved;
}

bool ph__ranges_same(const ph__ranges *a, const ph__ranges *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++)
        if (a->at[i].base != b->at[i].base || a->at[i].size != b->at[i].size)
            return false;
    return true;
}

bool ph__ranges_copy(ph__ranges *out, const ph__ranges *from)
{
    *out = (ph__ranges){0};
    for (size_t i = 0; i < from->count; i++)
        if (!ph__ranges_add(out, from->at[i].base, from->at[i].size, from->at[i].value)) {
            ph__ranges_free(out);
            return false;
        }
    return true;
}

void ph__writer_add_anywhere(ph__writer *writer)
{
    pthread_mutex_lock(&lock);
    writer->anywhere = true;
    pthread_mutex_unlock(&lock);
}

void ph__writer_add(ph__writer *writer, ph__ranges *ranges)
{
    bool known = ranges->count == 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < writer->sets.count && !known; i++)
        known = ph__ranges_same(&writer->sets.at[i], ranges);
    if (!known) {
        writer->sets.at[writer->sets.count++] = *ranges;
        *ranges = (ph__ranges){0};
    }
    pthread_mutex_unlock(&lock);
    ph__ranges_free(ranges);
}

bool ph__writer_covers(const ph__writer *writer, uintptr_t address)
{
    for (size_t i = 0; i < writer->sets.count; i++)
        if (ph__ranges_find(&writer->sets.at[i], address))
            return true;
    return false;
}

static bool is_captures(const ph__writer *writer, uintptr_t address)
{
    for (; writer; writer = writer->next)
        if (ph__writer_covers(writer, address) || (writer->gone && writer->anywhere))
            return true;
    return false;
}

bool ph__writer_is_captures(const ph__writer *writer, uintptr_t address)
{
    pthread_mutex_lock(&lock);
    bool found =
        is_captures(writer->among->held, address) || is_captures(writer->among->gone, address);
    pthread_mutex_unlock(&lock);
    return found;
}

bool ph__writer_is_anywhere(const ph__writer *writer, uint64_t address, ph_pool_id pool,
                            uint64_t generation)
{
    ph_pool_id id = ph__pool_id(writer->pool);
    return writer->anywhere && id.first == pool.first && id.second == pool.second &&
           (generation == 0 || ph__writer_is_captures(writer, (uintptr_t)address));
}

static void free_writer(ph__writer *writer)
{
    for (size_t i = 0; i < writer->sets.count; i++)
        ph__ranges_free(&writer->sets.at[i]);
    ph__vec_free(&writer->sets);
    ph__free(writer);
}

/* ---- pools of a graph ---- */
ph__writer *ph__graph_find_pool(const ph_graph *graph, const ph_pool *pool)
{
    for (size_t i = 0; i < graph->pools.count; i++)
        if (graph->pools.at[i]->pool == pool)
            return graph->pools.at[i];
    return NULL;
}

static void link_writer(ph__writer **list, ph__writer *writer)
{
    writer->previous = NULL;
    writer->next = *list;
    if (*list)
        (*list)->previous = writer;
    *list = writer;
}

static void unlink_writer(ph__writer **list, ph__writer *writer)
{
    if (writer->previous)
        writer->previous->next = writer->next;
    else
        *list = writer->next;
    if (writer->next)
        writer->next->previous = writer->previous;
}

/* false: no host memory. */
static bool enlist_writer(ph__writer *writer)
{
    const uint64_t key = (uintptr_t)writer->pool;
    pthread_mutex_lock(&lock);
    ph__writers *among = ph__map_get(&pools, key);
    if (among == NULL && (among = ph__calloc(1, sizeof *among)) &&
        !ph__map_put(&pools, key, among)) {
        ph__free(among);
        among = NULL;
    }
    writer->among = among;
    if (among)
        link_writer(&among->held, writer);
    pthread_mutex_unlock(&lock);
    return among != NULL;
}

ph_status ph__graph_add_pool(ph__writer **out, ph_graph *graph, ph_pool *pool, const char *call)
{
    ph__writer *writer = ph__calloc(1, sizeof *writer);
    if (writer)
        writer->pool = pool;
    if (writer == NULL || !ph__vec_reserve(&writer->sets, 1) ||
        !ph__vec_reserve(&graph->pools, 1) || !enlist_writer(writer)) {
        if (writer)
            free_writer(writer);
        return ph__fail_host_memory(call, "the pools of the graph");
    }
    writer->graph_id = graph->id;
    size_t at = graph->pools.count++;
    for (; at > 0 && (uintptr_t)graph->pools.at[at - 1]->pool > (uintptr_t)pool; at--)
        graph->pools.at[at] = graph->pools.at[at - 1];
    graph->pools.at[at] = writer;
    *out = writer;
    return PH_OK;
}

/* Too many that are gone, in a pool whose graphs come and go beside one that stays: one stands
 * for them all. */
enum {
    GONE_LIMIT = 32
};
static void merge_gone(ph__writers *among, ph__writer *into)
{
    uint64_t last = atomic_load(&into->last);
    for (ph__writer *w = among->gone, *next; w; w = next) {
        next = w->next;
        if (w == into)
            continue;
        last = atomic_load(&w->last) > last ? atomic_load(&w->last) : last;
        unlink_writer(&among->gone, w);
        free_writer(w);
    }
    among->gone_count = 1;
    atomic_store(&into->last, last);
    into->anywhere = true;
}

static void forget_pool(ph__writers *among, const ph_pool *pool)
{
    while (among->gone) {
        ph__writer *gone = among->gone;
        among->gone = gone->next;
        free_writer(gone);
    }
    (void)ph__map_remove(&pools, (uintptr_t)pool);
    ph__free(among);
    if (pools.count == 0)
        ph__map_free(&pools);
}

/* The writer's graph lets go: what nobody can ask about any more is forgotten. */
static void retire_writer(ph__writer *writer)
{
    ph__writers *among = writer->among;
    const ph_pool *pool = writer->pool;
    writer->gone = true;
    unlink_writer(&among->held, writer);
    if (atomic_load(&writer->last) == 0 || among->held == NULL) {
        free_writer(writer);
    } else {
        link_writer(&among->gone, writer);
        if (++among->gone_count > GONE_LIMIT)
            merge_gone(among, writer);
    }
    if (among->held == NULL)
        forget_pool(among, pool);
}

void ph__graph_drop_pool(ph_graph *graph, ph__writer *writer)
{
    ph_pool *pool = writer->pool;
    size_t kept = 0;
    for (size_t i = 0; i < graph->pools.count; i++)
        if (graph->pools.at[i] != writer)
            graph->pools.at[kept++] = graph->pools.at[i];
    graph->pools.count = kept;
    pthread_mutex_lock(&lock);
    retire_writer(writer);
    pthread_mutex_unlock(&lock);
    ph__pool_graph_release(pool);
}

void ph__graph_drop_pools(ph_graph *graph)
{
    while (graph->pools.count)
        ph__graph_drop_pool(graph, graph->pools.at[graph->pools.count - 1]);
    ph__vec_free(&graph->pools);
    graph->own = NULL;
}

/* ---- outputs ---- */
uint64_t ph_graph_epoch(const ph_graph *graph)
{
    return graph ? graph->epoch : 0;
}

/* The graph's pool that the address is memory of: by its captures' ranges, else by the
 * allocation there. */
static ph__writer *pool_of_address(const ph_graph *graph, const void *address)
{
    ph_allocation found;
    for (size_t i = 0; i < graph->pools.count; i++)
        if (ph__writer_covers(graph->pools.at[i], (uintptr_t)address))
            return graph->pools.at[i];
    return ph__memory_find(&found, graph->device, address) && found.pool
               ? ph__graph_find_pool(graph, found.pool)
               : NULL;
}

/* Of the writers from this one on, the last replay after *when that may have written the
 * address: its graph and epoch. */
static void find_later(const ph__writer *writer, uintptr_t address, uint64_t *graph_id,
                       uint64_t *when)
{
    for (; writer; writer = writer->next) {
        uint64_t last = atomic_load(&writer->last);
        if (last <= *when || !(writer->anywhere || ph__writer_covers(writer, address)))
            continue;
        *when = last;
        *graph_id = writer->graph_id;
    }
}

static bool find_overwriter(const ph__writer *mine, uintptr_t address, uint64_t epoch,
                            uint64_t *graph_id, uint64_t *when)
{
    *when = epoch;
    pthread_mutex_lock(&lock);
    find_later(mine->among->held, address, graph_id, when);
    find_later(mine->among->gone, address, graph_id, when);
    pthread_mutex_unlock(&lock);
    return *when > epoch;
}

ph_status ph_graph_check_output(ph_graph *graph, const void *address, uint64_t epoch)
{
    static const char call[] = "ph_graph_check_output";
    uint64_t writer_id = 0, when;
    PH_TRY(ph__graph_check(graph, PH__CALL_CHECK_OUTPUT));
    if (epoch > graph->epoch)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: epoch %llu has not been: the graph's last replay has epoch %llu", call,
                       (unsigned long long)epoch, (unsigned long long)graph->epoch);
    const ph__writer *mine = pool_of_address(graph, address);
    if (mine == NULL)
        return ph_fail(
            PH_ERROR_NOT_FOUND,
            "%s: %p is not memory of the graph's pools; pass an address that its capture allocated",
            call, address);
    /* Epochs are counted for each pool apart: another pool's own count at this replay is known
     * for the last one alone. */
    uint64_t in_pool = mine == graph->own      ? epoch
                       : epoch == graph->epoch ? atomic_load(&mine->last)
                                               : 0;
    if (!find_overwriter(mine, (uintptr_t)address, in_pool, &writer_id, &when))
        return PH_OK;
    return ph_fail(
        PH_ERROR_OVERWRITTEN,
        "%s: %p as graph %llu wrote it in epoch %llu may have been overwritten by %s graph %llu "
        "in epoch %llu; "
        "read or copy outputs before the next replay, or keep the graphs in pools of their own",
        call, address, (unsigned long long)graph->id, (unsigned long long)epoch,
        writer_id == graph->id ? "a later replay of the same" : "a replay of",
        (unsigned long long)writer_id, (unsigned long long)when);
}
