/* SPDX-License-Identifier: MIT */
/* graph/memory/owned.c: what a graph keeps alive: events, the streams that replayed it, and
 * what ph_graph_retain names. */
#include "graph/memory/owned.h"
#include "base/alloc.h"
#include "base/log.h"
#include "device/handles/event.h"
#include "device/handles/later.h"
#include "device/wrap_cuda.h"
#include "driver/callback.h"
#include "graph/object/graph.h"

/* ---- events ---- */
void ph__graph_drop_events(ph_graph *graph)
{
    ph__events_release(&graph->events);
}

bool ph__graph_reserve_events(ph_graph *graph, const ph_graph *from)
{
    return ph__map_reserve(&graph->events, from->events.count);
}

void ph__graph_add_events(ph_graph *graph, const ph_graph *from)
{
    size_t cursor = 0;
    uint64_t key;
    void *event;
    while (graph != from && ph__map_next(&from->events, &cursor, &key, &event))
        if (!ph__map_get(&graph->events, key) && ph__map_put(&graph->events, key, event))
            ph__event_retain(event); /* there is room */
}

/* ---- streams ---- */
void ph__graph_drop_streams(ph_graph *graph)
{
    for (size_t i = 0; i < graph->streams.count; i++)
        ph__stream_release(graph->streams.at[i]);
    ph__vec_free(&graph->streams);
    graph->last_stream = NULL;
}

/* ---- retained objects ---- */
static ph__batch *need_batch(ph_graph *graph)
{
    if (graph->batch == NULL)
        graph->batch = ph__calloc(1, sizeof *graph->batch);
    return graph->batch;
}

static bool add_object(ph_graph *graph, ph__retained entry, bool synchronize)
{
    ph__batch *batch = need_batch(graph);
    if (batch && batch->own == NULL) {
        batch->own = ph__calloc(1, sizeof *batch->own);
        if (batch->own)
            atomic_init(&batch->own->holders, 1);
    }
    if (batch == NULL || batch->own == NULL || !ph__vec_push(&batch->own->objects, entry))
        return false;
    batch->own->synchronize = batch->own->synchronize || synchronize;
    batch->synchronize = batch->synchronize || synchronize;
    return true;
}

ph_status ph_graph_retain(ph_graph *graph, ph_release_fn release, void *object, bool synchronize)
{
    static const char call[] = "ph_graph_retain";
    PH_TRY(ph__graph_check(graph, PH__CALL_RETAIN));
    if (release == NULL)
        return ph__fail_null(call, "release");
    ph__mutex_lock(&graph->retaining);
    bool added = add_object(graph, (ph__retained){release, object}, synchronize);
    ph__mutex_unlock(&graph->retaining);
    return added ? PH_OK : ph__fail_host_memory(call, "the registration");
}

static bool share_list(ph__batch *batch, ph__retained_list *list)
{
    if (list == NULL || list == batch->own || ph__map_get(&batch->others, (uintptr_t)list))
        return true;
    if (!ph__map_put(&batch->others, (uintptr_t)list, list))
        return false;
    atomic_fetch_add_explicit(&list->holders, 1, memory_order_relaxed);
    batch->synchronize = batch->synchronize || list->synchronize;
    return true;
}

static bool share_lists(ph_graph *graph, const ph__batch *theirs)
{
    size_t cursor = 0;
    uint64_t key;
    void *list;
    ph__batch *mine = need_batch(graph);
    bool shared = mine && share_list(mine, theirs->own);
    while (shared && ph__map_next(&theirs->others, &cursor, &key, &list))
        shared = share_list(mine, list);
    return shared;
}

ph_status ph__graph_share_objects(ph_graph *graph, ph_graph *from, const char *call)
{
    if (graph == from)
        return PH_OK;
    ph__mutex_lock(&from->retaining);
    ph__mutex_lock(&graph->retaining);
    bool shared = from->batch == NULL || share_lists(graph, from->batch);
    ph__mutex_unlock(&graph->retaining);
    ph__mutex_unlock(&from->retaining);
    return shared ? PH_OK : ph__fail_host_memory(call, "the retained objects of the graph");
}

ph__batch *ph__graph_detach_batch(ph_graph *graph)
{
    ph__batch *batch = graph->batch;
    graph->batch = NULL;
    if (batch && batch->synchronize && graph->streams.count) {
        batch->device = ph_device_retain(graph->device);
        batch->streams.at = graph->streams.at;
        batch->streams.count = graph->streams.count;
        batch->streams.capacity = graph->streams.capacity;
        graph->streams.at = NULL;
        graph->streams.count = graph->streams.capacity = 0;
        graph->last_stream = NULL;
    }
    return batch;
}

/* A failed stream is done as well: its failure is its user's to see, at the stream. false: a
 * capture has begun on one. */
static bool wait_for_replay_streams(ph__batch *batch)
{
    for (; batch->streams.count > 0; batch->streams.count--) {
        ph_stream *last = batch->streams.at[batch->streams.count - 1];
        if (!ph__stream_wait(last))
            return false;
        ph__stream_release(last);
    }
    ph__vec_free(&batch->streams);
    return true;
}

static void drop_list(ph__retained_list *list)
{
    if (list == NULL || atomic_fetch_sub_explicit(&list->holders, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < list->objects.count; i++)
        list->objects.at[i].release(list->objects.at[i].object);
    ph__vec_free(&list->objects);
    ph__free(list);
}

static void release_objects(ph__deferred *item)
{
    ph__batch *batch = (ph__batch *)item; /* its first member */
    ph_device *device = batch->device;
    if (device && batch->streams.count > 0 && ph__driver_refuses()) {
        if (!ph__later_run(item))
            ph__log(PH_LOG_WARNING,
                    "a graph with objects that are released behind its replays (synchronize) ends, "
                    "and the system refused the thread that would wait for them: %s; "
                    "the objects are never released",
                    ph__driver_callback_words);
        return;
    }
    if (device && !wait_for_replay_streams(batch)) {
        ph__device_defer(device, item);
        return;
    }
    size_t cursor = 0;
    uint64_t key;
    void *list;
    drop_list(batch->own);
    while (ph__map_next(&batch->others, &cursor, &key, &list))
        drop_list(list);
    ph__map_free(&batch->others);
    ph__free(batch);
    ph_device_release(device);
}

/* Waiting for a stream that a capture has meanwhile begun on would kill the capture: then it
 * happens when none is open. */
void ph__batch_run(ph__batch *batch)
{
    if (batch == NULL)
        return;
    batch->deferred.fn = release_objects;
    if (batch->device)
        ph__device_defer(batch->device, &batch->deferred);
    else
        release_objects(&batch->deferred);
}
