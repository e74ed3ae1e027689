/* SPDX-License-Identifier: MIT */
/* tests/fake/cuda_capture.c: captures of the software libcuda. */
#include "cuda_inside.h"
#include <string.h>

static const ph__driver *const host = &ph__driver_host;

ph__drv_graph *fake_captured(ph__drv_stream *handle, bool any_member)
{
    ph__host_stream *stream = (ph__host_stream *)handle;
    pthread_mutex_lock(&stream->device->capture_lock);
    const ph__host_capture *capture = stream->capture;
    bool wanted = capture && (any_member || capture->origin == stream);
    ph__drv_graph *graph = wanted ? (ph__drv_graph *)capture->graph : NULL;
    pthread_mutex_unlock(&stream->device->capture_lock);
    return graph;
}

FAKE(StreamBeginCapture, (ph__cu_stream stream, int mode), (stream, mode))
{
    fake_target target;
    int result = fake_target_of(&target, stream, "cuStreamBeginCapture");
    if (!result && (unsigned)mode > PH_CAPTURE_RELAXED)
        result = PH__R_INVALID_VALUE;
    return result ? result : host->capture_begin(target.stream, (ph_capture_mode)mode);
}

/* The capture is over, whatever came of it. */
static void end_for_good(ph__drv_stream *stream)
{
    fake_graph_forget(fake_captured(stream, false));
    host->capture_drop(stream);
}

/* Another thread's is looked at first: what it finds is over, invalidated or not. */
static int end(ph__drv_graph **graph, const fake_target *target)
{
    ph__drv_capture capture;
    ph__drv_graph *before = fake_captured(target->stream, false);
    bool invalidated = host->capture_get(&capture, target->stream) == 0 &&
                       capture.status == PH_CAPTURE_INVALIDATED;
    int result = host->capture_end(graph, target->stream);
    if (!result || !before)
        return result;
    if (result == PH__R_CAPTURE_WRONG_THREAD)
        host->capture_drop(target->stream);
    fake_graph_forget(before);
    return invalidated ? PH__R_CAPTURE_INVALIDATED : result;
}

static int do_StreamEndCapture(ph__cu_stream stream, ph__cu_graph *out, int refused)
{
    fake_target target;
    ph__drv_graph *graph = NULL;
    if (out)
        *out = NULL;
    int result = out ? fake_target_of(&target, stream, "cuStreamEndCapture") : PH__R_INVALID_VALUE;
    if (result)
        return refused ? refused : result;
    if (refused) {
        end_for_good(target.stream);
        return refused;
    }
    result = end(&graph, &target);
    if (result)
        return result;
    fake_graph *object = fake_graph_of(graph);
    if (!object) {
        host->graph_destroy(graph);
        return PH__R_OUT_OF_MEMORY;
    }
    fake_recount(&object->object, false);
    *out = (ph__cu_graph)graph;
    return 0;
}

int fake_StreamEndCapture(ph__cu_stream stream, ph__cu_graph *graph)
{
    int refused = fake_enter(FAKE_CALL_StreamEndCapture);
    return fake_leave(FAKE_CALL_StreamEndCapture, do_StreamEndCapture(stream, graph, refused));
}

static bool beside_blocking_capture(ph__cu_context context)
{
    ph__host_device *device = fake_host(context);
    bool found = false;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count; i++)
        for (size_t k = 0; k < device->captures.at[i]->streams.count; k++)
            found |= !(device->captures.at[i]->streams.at[k]->flags & PH__STREAM_NON_BLOCKING);
    pthread_mutex_unlock(&device->capture_lock);
    return found;
}

static int get(ph__drv_capture *out, ph__cu_stream stream, const char *call)
{
    fake_target target;
    int result = fake_target_of(&target, stream, call);
    if (result)
        return result;
    if (target.stream == host->stream_default(target.context->device) &&
        beside_blocking_capture(target.context))
        return PH__R_CAPTURE_IMPLICIT;
    return host->capture_get(out, target.stream);
}

FAKE(StreamIsCapturing, (ph__cu_stream stream, int *status), (stream, status))
{
    ph__drv_capture capture;
    int result = status ? get(&capture, stream, "cuStreamIsCapturing") : PH__R_INVALID_VALUE;
    if (!result)
        *status = (int)capture.status;
    return result;
}

/* What streams depend on is never more than that. */
static const ph__cu_edge plain_edges[1 << 16];

FAKE(StreamGetCaptureInfo,
     (ph__cu_stream stream, int *status, uint64_t *id, ph__cu_graph *graph,
      const ph__cu_node **dependencies, const ph__cu_edge **edges, size_t *count),
     (stream, status, id, graph, dependencies, edges, count))
{
    ph__drv_capture capture;
    int result = status ? get(&capture, stream, "cuStreamGetCaptureInfo") : PH__R_INVALID_VALUE;
    if (result)
        return result;
    *status = (int)capture.status;
    if (capture.status != PH_CAPTURE_ACTIVE)
        return 0; /* nothing else is told then */
    if (id)
        *id = capture.id;
    if (capture.dependency_count > sizeof plain_edges / sizeof *plain_edges)
        return PH__R_NOT_SUPPORTED;
    if (graph)
        *graph = (ph__cu_graph)capture.graph;
    if (dependencies)
        *dependencies = (const ph__cu_node *)capture.dependencies;
    if (edges)
        *edges = plain_edges;
    if (count)
        *count = capture.dependency_count;
    return 0;
}

FAKE(StreamUpdateCaptureDependencies,
     (ph__cu_stream handle, ph__cu_node *nodes, const ph__cu_edge *edges, size_t count,
      unsigned flags),
     (handle, nodes, edges, count, flags))
{
    fake_target target;
    int result = fake_target_of(&target, handle, "cuStreamUpdateCaptureDependencies");
    if (result || flags > PH__CU_SET_CAPTURE_DEPENDENCIES || (count && !nodes) || edges)
        return result ? result : PH__R_INVALID_VALUE;
    ph__host_stream *stream = (ph__host_stream *)target.stream;
    pthread_mutex_lock(&stream->device->capture_lock);
    if (!stream->capture) {
        result = PH__R_ILLEGAL_STATE;
    } else if (stream->capture->killed) {
        result = ph__host_capture_dead(stream->capture);
    } else {
        ph__host_node_set added = {.at = (ph__drv_node *const *)nodes, .count = count};
        ph__host_node_set set = flags ? (ph__host_node_set){0} : stream->terminals;
        if (ph__host_set_unite(stream->capture->graph, &set, &added))
            stream->terminals = set;
        else
            result = PH__R_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&stream->device->capture_lock);
    return result;
}

FAKE(ThreadExchangeStreamCaptureMode, (int *mode), (mode))
{
    if (!mode || (unsigned)*mode > PH_CAPTURE_RELAXED)
        return PH__R_INVALID_VALUE;
    ph_capture_mode exchanged = (ph_capture_mode)*mode;
    int result = host->thread_exchange_mode(NULL, &exchanged);
    *mode = (int)exchanged;
    return result;
}

/* ---- child graphs ---- the host driver makes them where a stream stands; so its first stream
 * stands where the caller wants the node, for as long as that takes. */
static int stand(ph__host_stream **out, ph__host_node_set *before, ph__drv_graph *graph,
                 const ph__host_node_set *at)
{
    ph__host_graph *template = ph__host_graph_of(graph);
    ph__host_device *device = template->device;
    int result = PH__R_NOT_SUPPORTED;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count; i++) {
        ph__host_capture *capture = device->captures.at[i];
        ph__host_node_set set = {0};
        if (capture->graph != template)
            continue;
        *out = capture->origin;
        *before = capture->origin->terminals;
        result = ph__host_set_unite(template, &set, at) ? 0 : PH__R_OUT_OF_MEMORY;
        if (!result)
            capture->origin->terminals = set;
    }
    pthread_mutex_unlock(&device->capture_lock);
    return result;
}

FAKE(GraphAddChildGraphNode,
     (ph__cu_node * node, ph__cu_graph graph, const ph__cu_node *dependencies, size_t count,
      ph__cu_graph child),
     (node, graph, dependencies, count, child))
{
    ph__drv_graph *into = (ph__drv_graph *)graph, *body = (ph__drv_graph *)child;
    ph__host_stream *stream = NULL;
    ph__host_node_set before, at = {.at = (ph__drv_node *const *)dependencies, .count = count};
    ph__drv_node_info info;
    fake_graph *parent = fake_graph_of(into);
    if (!node || !parent || !fake_find(FAKE_GRAPH, body))
        return PH__R_INVALID_VALUE;
    if (fake_special_in(body))
        return PH__R_NOT_SUPPORTED;
    int result = stand(&stream, &before, into, &at);
    if (result)
        return result;
    result = host->child((ph__drv_stream *)stream, body);
    pthread_mutex_lock(&stream->device->capture_lock);
    if (!result)
        *node = (ph__cu_node)stream->terminals.at[0];
    stream->terminals = before;
    pthread_mutex_unlock(&stream->device->capture_lock);
    if (!result)
        result = host->node_info(&info, (ph__drv_node *)*node);
    return result ? result : fake_body_note(parent, info.body, body);
}
