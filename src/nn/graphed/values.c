/* SPDX-License-Identifier: MIT */
/* nn/graphed/values.c: what the replays of graphed callables leave in memory that a pool shares
 * among them, and which replay writes over it. */
#include "base/alloc.h"
#include "base/fork.h"
#include "base/line.h"
#include "base/status.h"
#include "nn/graphed/graphed.h"
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
    ph__backend *backend;      /* that lent it; retained */
    atomic_uint_fast64_t last; /* ph__replays with that one */
    ph__values *values;
    ph__program *programs;
    atomic_bool entered; /* a call captures */
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
static ph__shared_pool *find(ph_pool_id id)
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
    ph__shared_pool *shared = find(id);
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

bool ph__shared_pool_enter(ph__shared_pool *shared)
{
    return !atomic_exchange_explicit(&shared->entered, true, memory_order_acquire);
}

void ph__shared_pool_leave(ph__shared_pool *shared)
{
    atomic_store_explicit(&shared->entered, false, memory_order_release);
}

static ph_status lend(ph_stream **out, ph__backend **backend, ph_device *device, const char *call)
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
    PH_TRY(lend(&fresh, &backend, device, call));
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

static void retain(ph__shared_pool *shared)
{
    ph__spin_lock(&pools_lock);
    shared->references++;
    ph__spin_unlock(&pools_lock);
}

/* ---- values ---- */
static void tell(const ph__written *written, uint64_t sequence, uint64_t call, char *text,
                 size_t size)
{
    ph__values *values = (ph__values *)(uintptr_t)written; /* its first member */
    (void)sequence;
    ph__spin_lock(&values->shared->lock);
    ph__line_format(
        text, size,
        "%s of call %llu of the graphed callable '%s', whose memory %scall %llu of '%s' has "
        "written since; %s",
        values->what, (unsigned long long)call, values->owner,
        values->by_backward ? "the backward of " : "", (unsigned long long)values->by_call,
        values->by, values->advice);
    ph__spin_unlock(&values->shared->lock);
}

static void forget(ph__program *program, const ph__values *values)
{
    size_t kept = 0;
    for (size_t i = 0; i < program->victims.count; i++)
        if (program->victims.at[i] != values)
            program->victims.at[kept++] = program->victims.at[i];
    program->victims.count = kept;
}

/* Handles may have kept it longer than its callable did: until here every replay counts. */
static void destroy(ph__written *written)
{
    ph__values *values = (ph__values *)written;
    ph__shared_pool *shared = values->shared;
    ph__spin_lock(&shared->lock);
    for (ph__program *program = shared->programs; program; program = program->next)
        forget(program, values);
    for (ph__values **link = &shared->values; *link; link = &(*link)->next)
        if (*link == values) {
            *link = values->next;
            break;
        }
    ph__spin_unlock(&shared->lock);
    ph__shared_pool_release(shared);
    ph__free(values->ranges);
    ph__free(values);
}

ph_status ph__values_make(ph__values **out, ph__shared_pool *shared, const char *owner,
                          const char *what, const char *advice, ph__spans *ranges, const char *call)
{
    ph__values *values = ph__calloc(1, sizeof *values);
    *out = NULL;
    if (!values) {
        ph__vec_free(ranges);
        return ph__fail_host_memory(call, "what a replay leaves");
    }
    atomic_init(&values->written.references, 1);
    values->written.tell = tell;
    values->written.destroy = destroy;
    values->shared = shared;
    retain(shared);
    values->ranges = (void *)ranges->at;
    values->range_count = ranges->count / 2;
    *ranges = (ph__spans){0};
    values->what = what;
    values->advice = advice;
    ph__line_format(values->owner, sizeof values->owner, "%s", owner);
    *out = values;
    return PH_OK;
}

static bool may_write(const ph__program *program, const ph__values *values)
{
    bool writes = false;
    for (size_t i = 0; i < values->range_count && !writes; i++)
        if (ph_graph_writes(&writes, program->graph, (const void *)values->ranges[i].begin,
                            values->ranges[i].end - values->ranges[i].begin) != PH_OK)
            return true;
    return writes;
}

void ph__values_release(ph__values *values)
{
    if (values)
        ph__written_release(&values->written);
}

/* ---- programs ---- */
static bool is_in(const ph__program *program, const ph__values *values)
{
    for (size_t i = 0; i < program->victims.count; i++)
        if (program->victims.at[i] == values)
            return true;
    return false;
}

static bool add(ph__program *program, ph__values *values)
{
    return is_in(program, values) || ph__vec_push(&program->victims, values);
}

/* New values, seen by all programs so far. */
static bool show_to_all(ph__shared_pool *shared, ph__values *values)
{
    for (const ph__values *known = shared->values; known; known = known->next)
        if (known == values)
            return true;
    values->next = shared->values;
    shared->values = values;
    for (ph__program *program = shared->programs; program; program = program->next)
        if (may_write(program, values) && !add(program, values))
            return false;
    return true;
}

static bool join(ph__program *program, ph__shared_pool *shared, ph__values *const *own,
                 size_t own_count)
{
    for (size_t i = 0; i < own_count; i++)
        if (own[i] && !show_to_all(shared, own[i]))
            return false;
    for (size_t i = 0; i < own_count; i++)
        if (own[i] && !add(program, own[i]))
            return false;
    for (ph__values *values = shared->values; values; values = values->next)
        if (may_write(program, values) && !add(program, values))
            return false;
    program->next = shared->programs;
    shared->programs = program;
    return true;
}

ph_status ph__program_join(ph__program *program, ph__shared_pool *shared, ph__values *const *own,
                           size_t own_count, const char *call)
{
    ph__spin_lock(&shared->lock);
    bool joined = join(program, shared, own, own_count);
    ph__spin_unlock(&shared->lock);
    return joined ? PH_OK : ph__fail_host_memory(call, "what its replays write");
}

void ph__program_leave(ph__program *program, ph__shared_pool *shared)
{
    if (shared) {
        ph__spin_lock(&shared->lock);
        for (ph__program **link = &shared->programs; *link; link = &(*link)->next)
            if (*link == program) {
                *link = program->next;
                break;
            }
        ph__spin_unlock(&shared->lock);
    }
    ph__vec_free(&program->victims);
}

uint64_t ph__program_replayed(ph__program *program, ph__shared_pool *shared)
{
    ph__spin_lock(&shared->lock);
    uint64_t sequence = atomic_load_explicit(&shared->sequence, memory_order_relaxed) + 1;
    atomic_store_explicit(&shared->sequence, sequence, memory_order_relaxed);
    program->calls++;
    program->last = atomic_fetch_add_explicit(&ph__replays, 1, memory_order_relaxed) + 1;
    atomic_store_explicit(&shared->last, program->last, memory_order_relaxed);
    for (size_t i = 0; i < program->victims.count; i++) {
        ph__values *values = program->victims.at[i];
        memcpy(values->by, program->name, sizeof values->by);
        values->by_call = program->calls;
        values->by_backward = program->backward;
        atomic_store_explicit(&values->written.now, sequence, memory_order_relaxed);
    }
    ph__spin_unlock(&shared->lock);
    return sequence;
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
    for (const ph__program *program = shared->programs; program && !wrote;
         program = program->next) {
        if (program->last <= stamp ||
            ph_graph_writes(&wrote, program->graph, address, bytes) != PH_OK || !wrote)
            continue;
        ph__line_format(by, size, "%scall %llu of '%s'",
                        program->backward ? "the backward of " : "",
                        (unsigned long long)program->calls, program->name);
    }
    ph__spin_unlock(&shared->lock);
    return wrote;
}
