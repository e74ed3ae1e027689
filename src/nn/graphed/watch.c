/* SPDX-License-Identifier: MIT */
/* nn/graphed/watch.c: memory outside of a callable's graphs that a module changes in place, and
 * memory of any owner that backward reads again: versions are of calls that run on the host, so
 * that replays have to count and to compare them. */
#include "nn/graphed/watch.h"
#include "base/status.h"
#include "nn/graphed/callable.h"
#include "nn/graphed/capture.h"
#include "nn/module/traverse.h"
#include "tensor/core/storage.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/sightings.h"
#include "tensor/tape/tape.h"

static ph_status fail_watch_memory(const char *call)
{
    return ph__fail_host_memory(call, "what a module changes");
}

static uint64_t version_of_watched(const ph__storage *storage)
{
    return atomic_load_explicit(&storage->version, memory_order_relaxed);
}

static bool has_storage(const ph__storages *list, const ph__storage *storage)
{
    for (size_t i = 0; i < list->count; i++)
        if (list->at[i] == storage)
            return true;
    return false;
}

static bool add_storage(ph__storages *list, ph__storage *storage)
{
    if (has_storage(list, storage))
        return true;
    if (!ph__vec_push(list, storage))
        return false;
    ph__storage_retain(storage);
    return true;
}

void ph__storages_free(ph__storages *list)
{
    for (size_t i = 0; i < list->count; i++)
        ph__storage_release(list->at[i]);
    ph__vec_free(list);
}

/* ---- what the module changes ---- */
static bool watch_entry(const ph__entry *entry, void *user)
{
    ph__graphed_watch *watch = user;
    if (!entry->tensor)
        return true;
    ph__storage *storage = entry->tensor->storage;
    return ph__vec_push(&watch->seen, ((ph__seen){storage, version_of_watched(storage)}));
}

ph_status ph__watch_begin(ph__graphed_watch *watch, const ph_module *module, const char *call)
{
    *watch = (ph__graphed_watch){0};
    return ph__module_walk(module, watch_entry, watch) ? PH_OK : fail_watch_memory(call);
}

/* ---- what backward reads ---- */
/* Inputs and parameters are looked at in their own ways, and what the capture made nobody else
 * has, but for outputs. */
static bool is_exposed(const ph__trial *trial, const ph__storage *storage)
{
    const ph__callable *callable = trial->callable;
    for (size_t i = 0; i < callable->in_count; i++)
        if (trial->in[i]->storage == storage)
            return false;
    for (size_t i = 0; i < callable->parameter_count; i++)
        if (ph__callable_parameters(callable)[i]->storage == storage)
            return false;
    for (size_t i = 0; i < callable->out_count; i++)
        if (trial->out[i]->storage == storage)
            return true;
    return storage->kind != PH__STORAGE_CACHED || storage->key != ph__tape_key(trial->tape);
}

ph_status ph__watch_end(ph__graphed_watch *watch, const ph__trial *trial, const char *call)
{
    ph__callable *callable = trial->callable;
    bool ok = true;
    for (size_t i = 0; ok && i < watch->seen.count; i++)
        if (version_of_watched(watch->seen.at[i].storage) != watch->seen.at[i].version)
            ok = add_storage(&callable->changed, watch->seen.at[i].storage);
    for (size_t i = 0; ok && i < trial->seen[0].list.count; i++)
        if (ph__sighting_has_changed(&trial->seen[0].list.at[i]))
            ok = add_storage(&callable->changed, trial->seen[0].list.at[i].storage);
    for (size_t i = trial->first_node; ok && i < trial->tape->nodes.count; i++) {
        const ph__node *node = trial->tape->nodes.at[i];
        for (size_t k = 0; ok && k < node->saved_count; k++)
            if (node->saved[k] && is_exposed(trial, node->saved[k]->storage))
                ok = add_storage(&callable->exposed, node->saved[k]->storage);
    }
    return ok ? PH_OK : fail_watch_memory(call);
}

void ph__watch_free(ph__graphed_watch *watch)
{
    ph__vec_free(&watch->seen);
}

/* ---- calls ---- */
void ph__callable_count_changes(const ph__callable *callable)
{
    for (size_t i = 0; i < callable->changed.count; i++)
        ph__storage_changed(callable->changed.at[i], 0, 0);
}

/* They only grow: the sum is what it was when none has. */
uint64_t ph__callable_versions(const ph__callable *callable)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < callable->exposed.count; i++)
        sum += version_of_watched(callable->exposed.at[i]);
    return sum;
}
