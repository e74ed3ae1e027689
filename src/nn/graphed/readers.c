/* SPDX-License-Identifier: MIT */
/* nn/graphed/readers.c: streams that read outputs and borrowed gradients while a replay of any
 * callable of the pool is about to write over them. */
#include "nn/graphed/readers.h"
#include "base/status.h"
#include <phonograph/memory.h>

typedef PH__VEC(ph__storage *) storages;

static uint64_t switches_of(const ph__output_set *output_set)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < output_set->lent.count; i++)
        sum += atomic_load_explicit(&output_set->lent.at[i]->switches, memory_order_relaxed);
    return sum;
}

/* Memory of others is not the allocator's, which does not know its users. */
static bool has_users(const ph__storage *storage)
{
    return storage->data && storage->kind != PH__STORAGE_FOREIGN;
}

ph_status ph__output_set_lend(ph__output_set *output_set, const ph_tensor *x, const char *call)
{
    if (!x || !has_users(x->storage))
        return PH_OK;
    for (size_t i = 0; i < output_set->lent.count; i++)
        if (output_set->lent.at[i] == x->storage)
            return PH_OK;
    if (!ph__vec_push(&output_set->lent, x->storage))
        return ph__fail_host_memory(call, "what a graph lends");
    atomic_store_explicit(&ph__storage_retain(x->storage)->lent, true, memory_order_relaxed);
    return PH_OK;
}

static void release_storages(storages *list)
{
    for (size_t i = 0; i < list->count; i++)
        ph__storage_release(list->at[i]);
    ph__vec_free(list);
}

void ph__output_set_unlend(ph__output_set *output_set)
{
    ph__shared_pool_lock(output_set->shared);
    storages list = {output_set->lent.at, output_set->lent.count, output_set->lent.capacity};
    output_set->lent.at = NULL;
    output_set->lent.count = output_set->lent.capacity = 0;
    ph__shared_pool_unlock(output_set->shared);
    release_storages(&list);
}

/* Storages of sets that another tape has come to use since the last wait, retained. Lock held. */
static bool find_read(storages *out, ph__callable_graph *callable_graph)
{
    for (size_t i = 0; i < callable_graph->overwritten.count; i++) {
        ph__overwritten *overwritten = &callable_graph->overwritten.at[i];
        const ph__output_set *output_set = overwritten->output_set;
        uint64_t now = switches_of(output_set);
        if (now == overwritten->switches)
            continue;
        if (!ph__vec_reserve(out, output_set->lent.count))
            return false;
        for (size_t k = 0; k < output_set->lent.count; k++)
            out->at[out->count++] = ph__storage_retain(output_set->lent.at[k]);
        overwritten->switches = now;
    }
    return true;
}

/* The count is read first: a use in between makes the next replay look again. */
ph_status ph__readers_wait_slow(ph_stream *stream, ph__callable_graph *callable_graph,
                                ph__shared_pool *shared)
{
    storages read = {0};
    uint64_t now = atomic_load_explicit(&ph__lent_switches, memory_order_relaxed);
    ph__shared_pool_lock(shared);
    bool found = find_read(&read, callable_graph);
    ph__shared_pool_unlock(shared);
    ph_status status =
        found ? PH_OK : ph__fail_host_memory(callable_graph->name, "the readers of its memory");
    for (size_t i = 0; status == PH_OK && i < read.count; i++)
        status = ph_stream_wait_users(stream, read.at[i]->data);
    release_storages(&read);
    callable_graph->switches = now;
    if (status != PH_OK)
        ph__readers_forget(callable_graph, shared);
    return status;
}

/* Where more was counted than this set's, the next replay looks at the others. */
void ph__readers_handed_out_slow(ph__callable_graph *callable_graph,
                                 const ph__output_set *output_set)
{
    ph__shared_pool_lock(output_set->shared);
    uint64_t now = atomic_load_explicit(&ph__lent_switches, memory_order_relaxed);
    for (size_t i = 0; i < callable_graph->overwritten.count; i++) {
        ph__overwritten *overwritten = &callable_graph->overwritten.at[i];
        if (overwritten->output_set != output_set)
            continue;
        uint64_t own = switches_of(output_set);
        if (now - callable_graph->switches == own - overwritten->switches)
            callable_graph->switches = now;
        overwritten->switches = own;
    }
    ph__shared_pool_unlock(output_set->shared);
}

void ph__readers_forget(ph__callable_graph *callable_graph, ph__shared_pool *shared)
{
    ph__shared_pool_lock(shared);
    callable_graph->switches = PH__SWITCHES_UNKNOWN;
    for (size_t i = 0; i < callable_graph->overwritten.count; i++)
        callable_graph->overwritten.at[i].switches = PH__SWITCHES_UNKNOWN;
    ph__shared_pool_unlock(shared);
}
