/* SPDX-License-Identifier: MIT */
/* driver/cuda/capture/capture.c: captures that this library begins: beginning, ending, where a
 * stream stands in one. */
#include "driver/cuda/capture/capture.h"
#include "base/alloc.h"
#include "base/log.h"
#include "driver/cuda/capture/logs.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/nodes/graph.h"
#include <string.h>

ph__cuda_capture *ph__cuda_capture_find_locked(const ph__drv_device *device, uint64_t id)
{
    for (size_t i = 0; i < device->captures.count; i++)
        if (device->captures.at[i]->id == id)
            return device->captures.at[i];
    return NULL;
}

/* Where the driver says that a stream stands; what it lends is valid while the stream's order is
 * held. */
typedef struct place {
    int status;
    uint64_t id;
    ph__cu_graph graph;
    const ph__cu_node *nodes;
    const ph__cu_edge *edges;
    size_t count;
} place;

static int find_stream_place(place *out, const ph__drv_stream *stream)
{
    *out = (place){.status = PH__CU_CAPTURE_STATUS_NONE};
    return ph__cu.StreamGetCaptureInfo(stream->handle, &out->status, &out->id, &out->graph,
                                       &out->nodes, &out->edges, &out->count);
}

/* ---- the list of open captures ---- */

static bool add_capture(ph__cuda_capture *capture)
{
    ph__drv_device *device = capture->origin->device;
    ph__spin_lock(&device->cache_lock);
    bool added = ph__vec_push(&device->captures, capture);
    if (added)
        atomic_fetch_add(&device->open_captures, 1);
    ph__spin_unlock(&device->cache_lock);
    if (added)
        ph__cuda_logs_begin();
    return added;
}

/* Removes a capture from the list: `wanted`, or where that is NULL the one that has begun on the
 * stream. Gives it, or NULL: there is none. No other thread adds to its node cache then. */
static ph__cuda_capture *remove_capture(ph__drv_stream *stream, const ph__cuda_capture *wanted)
{
    ph__drv_device *device = stream->device;
    ph__cuda_capture *removed = NULL;
    ph__spin_lock(&device->cache_lock);
    for (size_t i = 0; i < device->captures.count && !removed; i++) {
        ph__cuda_capture *capture = device->captures.at[i];
        if (wanted ? capture != wanted : capture->origin != stream || capture->id == 0)
            continue;
        removed = capture;
        device->captures.at[i] = device->captures.at[--device->captures.count];
        atomic_fetch_sub(&device->open_captures, 1);
    }
    if (device->captures.count == 0)
        ph__vec_free(&device->captures);
    ph__spin_unlock(&device->cache_lock);
    return removed;
}

/* Frees a capture that was removed; NULL: none was. */
static void discard_capture(ph__cuda_capture *capture)
{
    if (!capture)
        return;
    ph__cuda_logs_end();
    ph__cuda_graph_destroy(capture->graph);
    ph__vec_free(&capture->roots);
    ph__free(capture);
}

/* ---- begin ---- */

static ph__cuda_capture *create_capture(ph__drv_stream *stream)
{
    ph__cuda_capture *capture = ph__calloc(1, sizeof *capture);
    if (!capture)
        return NULL;
    capture->origin = stream;
    capture->graph = ph__cuda_graph_create(stream->device, NULL, false);
    if (!capture->graph) {
        ph__free(capture);
        return NULL;
    }
    capture->graph->capturing = true;
    return capture;
}

/* The capture gets its number and its graph, or ends at once. */
static int identify_capture(ph__cuda_capture *capture)
{
    ph__drv_stream *stream = capture->origin;
    place now;
    int result = find_stream_place(&now, stream);
    if (result == PH__R_OK && now.status != PH__CU_CAPTURE_STATUS_ACTIVE)
        result = PH__R_CAPTURE_INVALIDATED;
    if (result != PH__R_OK) {
        ph__cu_graph graph = NULL;
        (void)ph__cu.StreamEndCapture(stream->handle, &graph);
        if (graph)
            (void)ph__cu.GraphDestroy(graph);
        return result;
    }
    ph__spin_lock(&stream->device->cache_lock);
    capture->id = now.id;
    capture->graph->handle = now.graph;
    ph__spin_unlock(&stream->device->cache_lock);
    atomic_store_explicit(&stream->capture_id, now.id, memory_order_relaxed);
    return PH__R_OK;
}

/* A stream whose capture was ended by others is still on the list. */
static void forget_lost_alone(ph__drv_stream *stream)
{
    int status;
    ph__cuda_capture *lost = NULL;
    if (atomic_load_explicit(&stream->device->open_captures, memory_order_relaxed) == 0)
        return;
    ph__spin_lock(&stream->device->order);
    if (ph__cu.StreamIsCapturing(stream->handle, &status) == PH__R_OK &&
        status == PH__CU_CAPTURE_STATUS_NONE)
        lost = remove_capture(stream, NULL);
    ph__spin_unlock(&stream->device->order);
    discard_capture(lost);
}

static int begin_alone(ph__drv_stream *stream, ph_capture_mode mode)
{
    forget_lost_alone(stream);
    ph__cuda_capture *capture = create_capture(stream);
    if (!capture)
        return PH__R_OUT_OF_MEMORY;
    if (!add_capture(capture)) {
        ph__cuda_graph_destroy(capture->graph);
        ph__free(capture);
        return PH__R_OUT_OF_MEMORY;
    }
    ph__spin_lock(&stream->device->order);
    int result = ph__cu.StreamBeginCapture(stream->handle, (int)mode);
    if (result == PH__R_OK)
        result = identify_capture(capture);
    ph__spin_unlock(&stream->device->order);
    if (result != PH__R_OK)
        discard_capture(remove_capture(stream, capture));
    return result;
}

int ph__cuda_capture_begin(ph__drv_stream *stream, ph_capture_mode mode)
{
    if (!stream || (unsigned)mode > PH_CAPTURE_RELAXED)
        return PH__R_INVALID_VALUE;
    if (!stream->handle)
        return PH__R_CAPTURE_UNSUPPORTED;
    ph__alone_lock(&stream->calls);
    ph__alone_lock(&stream->device->idle);
    int result = begin_alone(stream, mode);
    ph__alone_unlock(&stream->device->idle);
    ph__alone_unlock(&stream->calls);
    return result;
}

/* ---- end ---- */

static bool is_capturing(const ph__drv_stream *stream)
{
    int status;
    return ph__cu.StreamIsCapturing(stream->handle, &status) == PH__R_OK &&
           status != PH__CU_CAPTURE_STATUS_NONE;
}

/* The driver ends a capture whatever it answers, except to a call that had no business there. */
static int end_at_driver(ph__cu_graph *graph, bool *over, ph__drv_stream *stream)
{
    *graph = NULL;
    bool entered = ph__cuda_order_enter(stream);
    int result = ph__cu.StreamEndCapture(stream->handle, graph);
    *over = result == PH__R_OK || !is_capturing(stream);
    ph__cuda_order_leave(stream, entered);
    if (result != PH__R_OK && *graph) {
        (void)ph__cu.GraphDestroy(*graph);
        *graph = NULL;
    }
    return result == PH__R_OK && !*graph ? PH__R_CAPTURE_INVALIDATED : result;
}

int ph__cuda_capture_end(ph__drv_graph **out, ph__drv_stream *stream)
{
    if (!stream || !out)
        return PH__R_INVALID_VALUE;
    if (!stream->handle)
        return PH__R_ILLEGAL_STATE;
    ph__cu_graph handle;
    bool over;
    int result = end_at_driver(&handle, &over, stream);
    ph__cuda_capture *capture = over ? remove_capture(stream, NULL) : NULL;
    if (result != PH__R_OK) {
        discard_capture(capture);
        return result;
    }
    ph__drv_graph *graph = NULL;
    if (capture) {
        graph = capture->graph;
        capture->graph = NULL;
        discard_capture(capture);
    } else {
        graph = ph__cuda_graph_create(stream->device, handle, true);
    }
    if (!graph) {
        (void)ph__cu.GraphDestroy(handle);
        return PH__R_OUT_OF_MEMORY;
    }
    graph->handle = handle;
    graph->owned = true;
    graph->capturing = false;
    *out = graph;
    return PH__R_OK;
}

/* The last resort: a new stream in the place of one that cannot leave its capture. */
static bool replace_stream(ph__drv_stream *stream)
{
    unsigned flags;
    int priority;
    ph__cu_stream fresh = NULL;
    ph__cuda_scope scope;
    if (!stream->owned || ph__cu.StreamGetFlags(stream->handle, &flags) != PH__R_OK ||
        ph__cu.StreamGetPriority(stream->handle, &priority) != PH__R_OK ||
        ph__cuda_enter(&scope, stream->device) != PH__R_OK)
        return false;
    bool made = ph__cu.StreamCreateWithPriority(&fresh, flags, priority) == PH__R_OK;
    if (made) {
        (void)ph__cu.StreamDestroy(stream->handle);
        stream->handle = fresh;
    }
    ph__cuda_leave(&scope);
    return made;
}

void ph__cuda_capture_drop(ph__drv_stream *stream)
{
    ph__cuda_capture *capture = stream && stream->handle ? remove_capture(stream, NULL) : NULL;
    if (!capture)
        return;
    place now;
    bool entered = ph__cuda_order_enter(stream);
    int result = find_stream_place(&now, stream);
    ph__cuda_order_leave(stream, entered);
    /* Its number is reported of an active capture only. Another number: others ended ours and began
     * one of their own. */
    bool ours = result != PH__R_OK || now.status == PH__CU_CAPTURE_STATUS_INVALIDATED ||
                (now.status == PH__CU_CAPTURE_STATUS_ACTIVE && now.id == capture->id);
    bool over = !ours;
    ph__cu_graph graph = NULL;
    if (ours && end_at_driver(&graph, &over, stream) == PH__R_OK)
        (void)ph__cu.GraphDestroy(graph);
    discard_capture(capture);
    if (!over && !replace_stream(stream))
        ph__log(
            PH_LOG_WARNING,
            "a capture could not be ended: its stream, which the program owns, stays in it; end "
            "it there with cuStreamEndCapture, or destroy the stream");
}

/* ---- get ---- */

/* One node is reported by itself; several by an array of the node cache's, the last one where that
 * still holds. */
static int lend_locked(ph__drv_capture *out, ph__drv_graph *graph, const place *now)
{
    ph__cuda_links links = {.count = now->count, .nodes = (ph__cu_node *)(uintptr_t)now->nodes};
    bool same = now->count > 1 && graph->lent_count == now->count;
    for (size_t i = 0; i < now->count && same; i++)
        same = graph->lent[i]->handle == now->nodes[i];
    ph__drv_node_info info = {.dependencies = graph->lent};
    if (!same && !ph__cuda_graph_link_locked(graph, &info, &links))
        return PH__R_OUT_OF_MEMORY;
    if (now->count > 1) {
        graph->lent = info.dependencies;
        graph->lent_count = now->count;
    }
    out->graph = graph;
    out->dependencies = info.dependencies;
    out->dependency_count = now->count;
    return PH__R_OK;
}

/* The driver may not report the number of an invalidated capture: the one that the stream was seen
 * in, as long as it is open, else the latest that began here. */
static uint64_t dead_id(ph__drv_stream *stream, uint64_t reported)
{
    ph__drv_device *device = stream->device;
    uint64_t id =
        reported ? reported : atomic_load_explicit(&stream->capture_id, memory_order_relaxed);
    ph__spin_lock(&device->cache_lock);
    if (!reported && device->captures.count > 0 && !ph__cuda_capture_find_locked(device, id))
        id = device->captures.at[device->captures.count - 1]->id;
    ph__spin_unlock(&device->cache_lock);
    return id ? id : UINT64_MAX;
}

static int get_active(ph__drv_capture *out, ph__drv_stream *stream, const place *now)
{
    int result = PH__R_OK;
    out->status = PH_CAPTURE_ACTIVE;
    out->id = now->id;
    atomic_store_explicit(&stream->capture_id, now->id, memory_order_relaxed);
    ph__spin_lock(&stream->device->cache_lock);
    const ph__cuda_capture *capture = ph__cuda_capture_find_locked(stream->device, now->id);
    if (capture)
        result = lend_locked(out, capture->graph, now);
    ph__spin_unlock(&stream->device->cache_lock);
    return result;
}

int ph__cuda_capture_id(uint64_t *id, ph__drv_stream *stream)
{
    int status = PH__CU_CAPTURE_STATUS_NONE;
    uint64_t reported = 0;
    if (!stream || !id)
        return PH__R_INVALID_VALUE;
    *id = 0;
    if (!stream->handle)
        return PH__R_OK;
    bool entered = ph__cuda_order_enter(stream);
    int result =
        ph__cu.StreamGetCaptureInfo(stream->handle, &status, &reported, NULL, NULL, NULL, NULL);
    ph__cuda_order_leave(stream, entered);
    if (result != PH__R_OK || status == PH__CU_CAPTURE_STATUS_NONE)
        return result;
    if (status == PH__CU_CAPTURE_STATUS_INVALIDATED) {
        *id = dead_id(stream, reported);
        return PH__R_OK;
    }
    *id = reported;
    if (atomic_load_explicit(&stream->capture_id, memory_order_relaxed) != reported)
        atomic_store_explicit(&stream->capture_id, reported, memory_order_relaxed);
    return PH__R_OK;
}

/* The driver counts without listing. */
int ph__cuda_capture_get(ph__drv_capture *out, ph__drv_stream *stream)
{
    if (!stream || !out)
        return PH__R_INVALID_VALUE;
    ph__drv_capture found = {.status = PH_CAPTURE_NONE};
    place now = {.status = PH__CU_CAPTURE_STATUS_NONE};
    int result = PH__R_OK;
    if (stream->handle) {
        bool entered = ph__cuda_order_enter(stream);
        result = find_stream_place(&now, stream);
        if (result == PH__R_OK && now.status == PH__CU_CAPTURE_STATUS_ACTIVE)
            result = get_active(&found, stream, &now);
        ph__cuda_order_leave(stream, entered);
    }
    if (result != PH__R_OK)
        return result;
    if (now.status == PH__CU_CAPTURE_STATUS_INVALIDATED) {
        found.status = PH_CAPTURE_INVALIDATED;
        found.id = dead_id(stream, now.id);
    }
    *out = found;
    return PH__R_OK;
}
