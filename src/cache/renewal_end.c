/* SPDX-License-Identifier: MIT */
/* cache/renewal_end.c: letting go of executables that are made in the background, and of those
 * whose place they took. */
#include "cache/renewal_end.h"
#include "cache/executables.h"
#include "device/handles/device.h"
#include "graph/object/graph.h"

ph__renewed ph__renewal_acquire_locked(ph__renewal *r)
{
    ph__renewed had = {r->graph, r->thread, r->has_thread};
    r->graph = NULL;
    r->bytes = 0;
    r->others = 0;
    r->has_thread = r->abandoned = false;
    r->state = PH__RENEWAL_NONE;
    return had;
}

bool ph__renewal_is_over(const ph__renewal *r)
{
    return r->state >= PH__RENEWAL_DELAYED && r->state != PH__RENEWAL_RUNNING;
}

void ph__renewal_join(const ph__renewed *had)
{
    if (had->has_thread)
        pthread_join(had->thread, NULL);
}

void ph__renewal_destroy(ph_graph *graph)
{
    if (graph)
        graph->exec_id = 0;
    ph_graph_destroy(graph);
}

/* A GPU's driver may wait for the replays in flight of an executable that goes. */
static void drop_retired(ph_graph_cache *cache, bool wait)
{
    ph__renewal *r = &cache->renewal;
    ph__mutex_lock(&r->lock);
    ph_graph *graph = r->retired;
    r->retired = NULL;
    ph__mutex_unlock(&r->lock);
    if (graph && !wait && ph__graph_is_in_flight(graph)) {
        ph__mutex_lock(&r->lock);
        if (!r->retired) {
            r->retired = graph;
            graph = NULL;
        }
        ph__mutex_unlock(&r->lock);
    }
    ph_graph_destroy(graph);
}

void ph__renewal_retire(ph_graph_cache *cache, ph_graph *graph)
{
    ph__renewal *r = &cache->renewal;
    size_t bytes = ph__graph_exec_bytes(graph);
    ph__mutex_lock(&r->lock);
    ph_graph *before = r->retired;
    r->retired = graph;
    r->retired_bytes = bytes;
    ph__mutex_unlock(&r->lock);
    ph_graph_destroy(before);
    drop_retired(cache, false);
}

void ph__renewal_reap(ph_graph_cache *cache)
{
    ph__renewal *r = &cache->renewal;
    ph__renewed had = {0};
    ph__mutex_lock(&r->lock);
    if (r->abandoned && ph__renewal_is_over(r))
        had = ph__renewal_acquire_locked(r);
    bool retired = r->retired;
    ph__mutex_unlock(&r->lock);
    ph__renewal_join(&had);
    ph__renewal_destroy(had.graph);
    if (retired)
        drop_retired(cache, false);
}

void ph__renewal_forget(ph_graph_cache *cache, const ph_graph *graph)
{
    ph__renewal *r = &cache->renewal;
    if (!graph)
        return;
    ph__mutex_lock(&r->lock);
    bool its = r->state >= PH__RENEWAL_DELAYED && r->of == graph->id;
    r->abandoned = r->abandoned || its;
    ph__mutex_unlock(&r->lock);
    if (its)
        ph__renewal_reap(cache);
}

/* In a child of fork() there is no thread to wait for, and its graph may be half made. */
void ph__renewal_end(ph_graph_cache *cache)
{
    ph__renewal *r = &cache->renewal;
    if (cache->device->forked)
        return;
    ph__mutex_lock(&r->lock);
    ph__renewed running = {NULL, r->thread, r->has_thread};
    r->has_thread = false;
    ph__mutex_unlock(&r->lock);
    ph__renewal_join(&running);
    ph__renewal_destroy(ph__renewal_acquire_locked(r).graph);
    drop_retired(cache, true);
}

size_t ph__renewal_bytes(ph_graph_cache *cache)
{
    ph__renewal *r = &cache->renewal;
    ph__mutex_lock(&r->lock);
    size_t bytes = r->bytes + (r->retired ? r->retired_bytes : 0);
    ph__mutex_unlock(&r->lock);
    return bytes;
}
