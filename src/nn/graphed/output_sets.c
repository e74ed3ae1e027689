/* SPDX-License-Identifier: MIT */
/* nn/graphed/output_sets.c: what the replays of graphed callables leave in memory that a pool
 * shares among them, and which replay writes over it. */
#include "nn/graphed/output_sets.h"
#include "base/alloc.h"
#include "base/fork.h"
#include "base/line.h"
#include "base/status.h"
#include "nn/graphed/readers.h"
#include "tensor/backend/backend.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include <string.h>

struct ph__shared_pool {
    ph__shared_pool *next; /* under pools_lock, as is the count */
    size_t references;
    ph_pool_id id;
    ph__spinlock lock;
    atomic_uint_fast64_t sequence; /* of the last replay */
    /* of the captures of those that were given none; NULL: nobody asked yet */
    ph_stream *stream;
    ph__backend *backend;      /* the backend that lent it; retained */
    atomic_uint_fast64_t last; /* ph__replays with that one */
    ph__output_set *output_sets;
    ph__callable_graph *callable_graphs;
    atomic_bool entered; /* a call captures */
    _Atomic(const ph__callable_graph *) running;
};

static ph__spinlock pools_lock;
static ph__shared_pool *pools;

static void lock_pools(void)
{
    ph__spin_lock(&pools_lock);
}

static void unlock_pools(void)
{
    ph__spin_unlock(&pools_lock);
}
PH__FORK_PART(.order = PH__FORK_VALUES, .prepare = lock_pools, .parent = unlock_pools,
              .child = unlock_pools)

/* ---- pools ---- */
static ph__shared_pool *find_shared_pool(ph_pool_id id)
{
    ph__shared_pool *shared = pools;
    while (shared && (shared->id.first != id.first || shared->id.second != id.second))
        shared = shared->next;
    return shared;
}

ph_status ph__shared_pool_get(ph__shared_pool **out, const ph_pool *pool, const char *call)
{
    ph_pool_id id = ph_pool_get_id(pool);
    ph__shared_pool *fresh = ph__calloc(1, sizeof *fresh);
    *out = NULL;
    if (!fresh)
        return ph__fail_host_memory(call, "what its pool is shared by");
    fresh->id = id;
    ph__spin_lock(&pools_lock);
    ph__shared_pool *shared = find_shared_pool(id);
    if (!shared) {
        shared = fresh;
        fresh = NULL;
        shared->next = pools;
        pools = shared;
    }
    shared->references++;
    ph__spin_unlock(&pools_lock);
    ph__free(fresh);
    *out = shared;
    return PH_OK;
}

void ph__shared_pool_release(ph__shared_pool *shared)
{
    if (!shared)
        return;
    ph__spin_lock(&pools_lock);
    bool last = --shared->references == 0;
    for (ph__shared_pool **link = &pools; last && *link; link = &(*link)->next)
        if (*link == shared) {
            *link = shared->next;
            break;
        }
    ph__spin_unlock(&pools_lock);
    if (!last)
        return;
    if (shared->stream) {
        ph__backend_give_back_stream(shared->backend, shared->stream);
        ph__backend_release(shared->backend);
    }
    ph__free(shared);
}

void ph__shared_pool_lock(ph__shared_pool *shared)
{
    ph__spin_lock(&shared->lock);
}

void ph__shared_pool_unlock(ph__shared_pool *shared)
{
    ph__spin_unlock(&shared->lock);
}

bool ph__shared_pool_enter(ph__shared_pool *shared)
{
    return !atomic_exchange_explicit(&shared->entered, true, memory_order_acquire);
}

void ph__shared_pool_leave(ph__shared_pool *shared)
{
    atomic_store_explicit(&shared->entered, false, memory_order_release);
}

static ph_status lend_stream(ph_stream **out, ph__backend **backend, ph_device *device,
                             const char *call)
{
    PH_TRY(ph__backend_of(backend, device, call));
    ph_status status = ph__backend_lend_stream(out, *backend);
    if (status != PH_OK)
        ph__backend_release(*backend);
    return status;
}

/* Memory of a pool is a stream's: captures on many streams would take many times the memory. */
ph_status ph__shared_pool_stream(ph_stream **out, ph__shared_pool *shared, ph_device *device,
                                 const char *call)
{
    ph_stream *fresh = NULL;
    ph__backend *backend = NULL;
    ph__spin_lock(&shared->lock);
    *out = shared->stream;
    ph__spin_unlock(&shared->lock);
    if (*out)
        return PH_OK;
    PH_TRY(lend_stream(&fresh, &backend, device, call));
    ph__spin_lock(&shared->lock);
    bool first = !shared->stream;
    if (first) {
        shared->stream = fresh;
        shared->backend = backend;
    }
    *out = shared->stream;
    ph__spin_unlock(&shared->lock);
    if (!first) {
        ph__backend_give_back_stream(backend, fresh);
        ph__backend_release(backend);
    }
    return PH_OK;
}

static void retain_shared_pool(ph__shared_pool *shared)
{
    ph__spin_lock(&pools_lock);
    shared->references++;
    ph__spin_unlock(&pools_lock);
}

/* ---- output sets ---- */
static void describe_overwrite(const ph__overwrite_tag *tag, uint64_t sequence, uint64_t call,
                               char *text, size_t size)
{
    ph__output_set *output_set = (ph__output_set *)(uintptr_t)tag; /* its first member */
    (void)sequence;
    ph__spin_lock(&output_set->shared->lock);
    ph__line_format(
        text, size,
        "%s of call %llu of the graphed callable '%s', whose memory %scall %llu of '%s' has "
        "written since; %s",
        output_set->what, (unsigned long long)call, output_set->owner,
        output_set->by_backward ? "the backward of " : "", (unsigned long long)output_set->by_call,
        output_set->by, output_set->advice);
    ph__spin_unlock(&output_set->shared->lock);
}

static void forget_overwritten(ph__callable_graph *callable_graph, const ph__output_set *output_set)
{
    size_t kept = 0;
    for (size_t i = 0; i < callable_graph->overwritten.count; i++)
        if (callable_graph->overwritten.at[i].output_set != output_set)
            callable_graph->overwritten.at[kept++] = callable_graph->overwritten.at[i];
    callable_graph->overwritten.count = kept;
}

/* Handles may have kept it longer than its callable did: until here every replay counts. */
static void destroy_tag(ph__overwrite_tag *tag)
{
    ph__output_set *output_set = (ph__output_set *)tag;
    ph__shared_pool *shared = output_set->shared;
    ph__spin_lock(&shared->lock);
    for (ph__callable_graph *callable_graph = shared->callable_graphs; callable_graph;
         callable_graph = callable_graph->next)
        forget_overwritten(callable_graph, output_set);
    for (ph__output_set **link = &shared->output_sets; *link; link = &(*link)->next)
        if (*link == output_set) {
            *link = output_set->next;
            break;
        }
    ph__spin_unlock(&shared->lock);
    ph__shared_pool_release(shared);
    ph__free(output_set->ranges);
    ph__free(output_set);
}

ph_status ph__output_set_make(ph__output_set **out, ph__shared_pool *shared, const char *owner,
                              const char *what, const char *advice, ph__spans *ranges,
                              const char *call)
{
    ph__output_set *output_set = ph__calloc(1, sizeof *output_set);
    *out = NULL;
    if (!output_set) {
        ph__vec_free(ranges);
        return ph__fail_host_memory(call, "what a replay leaves");
    }
    atomic_init(&output_set->overwrite_tag.references, 1);
    output_set->overwrite_tag.describe = describe_overwrite;
    output_set->overwrite_tag.destroy = destroy_tag;
    output_set->shared = shared;
    retain_shared_pool(shared);
    output_set->ranges = (void *)ranges->at;
    output_set->range_count = ranges->count / 2;
    *ranges = (ph__spans){0};
    output_set->what = what;
    output_set->advice = advice;
    ph__line_format(output_set->owner, sizeof output_set->owner, "%s", owner);
    *out = output_set;
    return PH_OK;
}

static bool graph_may_write(const ph__callable_graph *callable_graph,
                            const ph__output_set *output_set)
{
    bool writes = false;
    for (size_t i = 0; i < output_set->range_count && !writes; i++)
        if (ph_graph_writes(&writes, callable_graph->graph,
                            (const void *)output_set->ranges[i].begin,
                            output_set->ranges[i].end - output_set->ranges[i].begin) != PH_OK)
            return true;
    return writes;
}

void ph__output_set_release(ph__output_set *output_set)
{
    if (!output_set)
        return;
    ph__output_set_unlend(output_set);
    ph__overwrite_tag_release(&output_set->overwrite_tag);
}

/* ---- callable graphs ---- */
static bool is_in(const ph__callable_graph *callable_graph, const ph__output_set *output_set)
{
    for (size_t i = 0; i < callable_graph->overwritten.count; i++)
        if (callable_graph->overwritten.at[i].output_set == output_set)
            return true;
    return false;
}

static bool add_overwritten(ph__callable_graph *callable_graph, ph__output_set *output_set)
{
    return is_in(callable_graph, output_set) ||
           ph__vec_push(&callable_graph->overwritten,
                        ((ph__overwritten){output_set, PH__SWITCHES_UNKNOWN}));
}

/* New ones, seen by all callable graphs so far. */
static bool show_to_all(ph__shared_pool *shared, ph__output_set *output_set)
{
    for (const ph__output_set *known = shared->output_sets; known; known = known->next)
        if (known == output_set)
            return true;
    output_set->next = shared->output_sets;
    shared->output_sets = output_set;
    for (ph__callable_graph *callable_graph = shared->callable_graphs; callable_graph;
         callable_graph = callable_graph->next)
        if (graph_may_write(callable_graph, output_set) &&
            !add_overwritten(callable_graph, output_set))
            return false;
    return true;
}

static bool join_sets(ph__callable_graph *callable_graph, ph__shared_pool *shared,
                      ph__output_set *const *own, size_t own_count)
{
    for (size_t i = 0; i < own_count; i++)
        if (own[i] && !show_to_all(shared, own[i]))
            return false;
    for (size_t i = 0; i < own_count; i++)
        if (own[i] && !add_overwritten(callable_graph, own[i]))
            return false;
    for (ph__output_set *output_set = shared->output_sets; output_set;
         output_set = output_set->next)
        if (graph_may_write(callable_graph, output_set) &&
            !add_overwritten(callable_graph, output_set))
            return false;
    callable_graph->switches = PH__SWITCHES_UNKNOWN;
    callable_graph->next = shared->callable_graphs;
    shared->callable_graphs = callable_graph;
    return true;
}

ph_status ph__callable_graph_join(ph__callable_graph *callable_graph, ph__shared_pool *shared,
                                  ph__output_set *const *own, size_t own_count, const char *call)
{
    ph__spin_lock(&shared->lock);
    bool joined = join_sets(callable_graph, shared, own, own_count);
    ph__spin_unlock(&shared->lock);
    return joined ? PH_OK : ph__fail_host_memory(call, "what its replays write");
}

void ph__callable_graph_leave(ph__callable_graph *callable_graph, ph__shared_pool *shared)
{
    if (shared) {
        ph__spin_lock(&shared->lock);
        for (ph__callable_graph **link = &shared->callable_graphs; *link; link = &(*link)->next)
            if (*link == callable_graph) {
                *link = callable_graph->next;
                break;
            }
        ph__spin_unlock(&shared->lock);
    }
    ph__vec_free(&callable_graph->overwritten);
}

uint64_t ph__callable_graph_replayed(ph__callable_graph *callable_graph, ph__shared_pool *shared)
{
    ph__spin_lock(&shared->lock);
    uint64_t sequence = atomic_load_explicit(&shared->sequence, memory_order_relaxed) + 1;
    atomic_store_explicit(&shared->sequence, sequence, memory_order_relaxed);
    callable_graph->calls++;
    callable_graph->last = atomic_fetch_add_explicit(&ph__replays, 1, memory_order_relaxed) + 1;
    atomic_store_explicit(&shared->last, callable_graph->last, memory_order_relaxed);
    for (size_t i = 0; i < callable_graph->overwritten.count; i++) {
        ph__output_set *output_set = callable_graph->overwritten.at[i].output_set;
        memcpy(output_set->by, callable_graph->name, sizeof output_set->by);
        output_set->by_call = callable_graph->calls;
        output_set->by_backward = callable_graph->backward;
        atomic_store_explicit(&output_set->overwrite_tag.now, sequence, memory_order_relaxed);
    }
    ph__spin_unlock(&shared->lock);
    return sequence;
}

void ph__shared_pool_begin(ph__shared_pool *shared, const ph__callable_graph *callable_graph)
{
    atomic_store_explicit(&shared->running, callable_graph, memory_order_relaxed);
}

void ph__shared_pool_end(ph__shared_pool *shared)
{
    atomic_store_explicit(&shared->running, NULL, memory_order_relaxed);
}

const ph__callable_graph *ph__shared_pool_running(const ph__shared_pool *shared)
{
    return atomic_load_explicit(&shared->running, memory_order_relaxed);
}

/* ---- what else is there ---- */
bool ph__shared_pool_replayed(const ph__shared_pool *shared, uint64_t stamp)
{
    return atomic_load_explicit(&shared->last, memory_order_relaxed) > stamp;
}

bool ph__shared_pool_wrote(char *by, size_t size, ph__shared_pool *shared, uint64_t stamp,
                           const void *address, size_t bytes)
{
    bool wrote = false;
    ph__spin_lock(&shared->lock);
    for (const ph__callable_graph *callable_graph = shared->callable_graphs;
         callable_graph && !wrote; callable_graph = callable_graph->next) {
        if (callable_graph->last <= stamp ||
            ph_graph_writes(&wrote, callable_graph->graph, address, bytes) != PH_OK || !wrote)
            continue;
        ph__line_format(by, size, "%scall %llu of '%s'",
                        callable_graph->backward ? "the backward of " : "",
                        (unsigned long long)callable_graph->calls, callable_graph->name);
    }
    ph__spin_unlock(&shared->lock);
    return wrote;
}
