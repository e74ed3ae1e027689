/* SPDX-License-Identifier: MIT */
/* driver/host/capture/capture.c: captures from begin to end, and the nodes that they record. */
#include "driver/host/capture/capture.h"
#include "driver/host/resource/memory.h"
#include "driver/host/stream/entries.h"
#include "driver/suspects.h"
#include <string.h>

static atomic_uint_least64_t last_id;

bool ph__host_capture_join(ph__host_capture *capture, ph__host_stream *stream,
                           ph__host_node_set terminals)
{
    if (!ph__vec_push(&capture->streams, stream))
        return false;
    stream->capture = capture;
    stream->terminals = terminals;
    atomic_store_explicit(&stream->capturing, true, memory_order_release);
    return true;
}

static void leave_capture(ph__host_stream *stream)
{
    stream->capture = NULL;
    stream->terminals = (ph__host_node_set){0};
    atomic_store_explicit(&stream->capturing, false, memory_order_release);
}

/* Takes the capture off its streams and its device. What is left of it is its graph. */
static ph__host_graph *finish_capture(ph__host_capture *capture)
{
    ph__host_device *device = capture->device;
    ph__host_graph *graph = capture->graph;
    for (size_t i = 0; i < capture->streams.count; i++)
        leave_capture(capture->streams.at[i]);
    size_t at = 0;
    while (device->captures.at[at] != capture)
        at++;
    device->captures.at[at] = device->captures.at[--device->captures.count];
    atomic_fetch_sub_explicit(&device->open_captures, 1, memory_order_release);
    graph->capturing = false;
    ph__vec_free(&capture->streams);
    ph__free(capture);
    return graph;
}

/* All the memory that a new capture needs, or NULL. */
static ph__host_capture *create_capture(ph__host_stream *stream, ph_capture_mode mode)
{
    ph__host_capture *capture = ph__calloc(1, sizeof *capture);
    if (!capture)
        return NULL;
    capture->device = stream->device;
    capture->id = atomic_fetch_add(&last_id, 1) + 1;
    capture->thread = ph__thread_id();
    capture->mode = mode;
    capture->origin = stream;
    capture->graph = ph__host_graph_create(stream->device);
    if (!capture->graph || !ph__vec_reserve(&capture->streams, 1)) {
        ph__host_graph_destroy((ph__drv_graph *)capture->graph);
        ph__free(capture);
        return NULL;
    }
    capture->graph->capturing = true;
    return capture;
}

/* BEGIN_OTHER speaks to the other captures of the device. */
static int begin_locked(ph__host_stream *stream, ph_capture_mode mode)
{
    ph__host_device *device = stream->device;
    if (stream->capture)
        return ph__host_capture_apply(stream->capture, PH__RULE_BEGIN_AGAIN);
    for (size_t i = 0; i < device->captures.count; i++) {
        int number = ph__host_capture_apply(device->captures.at[i], PH__RULE_BEGIN_OTHER);
        if (number)
            return number;
    }
    ph__host_capture *capture = create_capture(stream, mode);
    if (!capture)
        return PH__R_OUT_OF_MEMORY;
    if (!ph__vec_push(&device->captures, capture)) {
        ph__host_graph_destroy((ph__drv_graph *)capture->graph);
        ph__vec_free(&capture->streams);
        ph__free(capture);
        return PH__R_OUT_OF_MEMORY;
    }
    atomic_fetch_add_explicit(&device->open_captures, 1, memory_order_release);
    /* create_capture() made room for it */
    (void)ph__host_capture_join(capture, stream, (ph__host_node_set){0});
    return PH__R_OK;
}

int ph__host_capture_begin(ph__drv_stream *handle, ph_capture_mode mode)
{
    ph__host_stream *stream = (ph__host_stream *)handle;
    if (!stream || (unsigned)mode > PH_CAPTURE_RELAXED)
        return PH__R_INVALID_VALUE;
    if (stream->is_legacy)
        return PH__R_CAPTURE_UNSUPPORTED;
    pthread_mutex_lock(&stream->device->capture_lock);
    int result = begin_locked(stream, mode);
    pthread_mutex_unlock(&stream->device->capture_lock);
    return result;
}

/* Every member's terminals are reached from the origin's. */
static bool all_joined(const ph__host_capture *capture)
{
    if (capture->streams.count == 1)
        return true;
    uint64_t mark = ph__host_graph_mark_ancestors(capture->graph, &capture->origin->terminals);
    for (size_t i = 0; i < capture->streams.count; i++) {
        const ph__host_node_set *terminals = &capture->streams.at[i]->terminals;
        for (size_t k = 0; k < terminals->count; k++) {
            if (ph__host_node_of(terminals->at[k])->mark != mark)
                return false;
        }
    }
    return true;
}

/* Whatever it answers, a capture that its own stream has ended is over. */
static int end_locked(ph__host_stream *stream, ph__host_graph **graph)
{
    ph__host_capture *capture = stream->capture;
    if (!capture)
        return PH__R_ILLEGAL_STATE;
    if (capture->origin != stream)
        return ph__host_capture_apply(capture, PH__RULE_END_NOT_ORIGIN);
    int result = PH__R_OK;
    if (capture->thread != ph__thread_id())
        result = ph__host_capture_apply(capture, PH__RULE_END_WRONG_THREAD);
    if (capture->killed) {
        result = ph__host_capture_dead(capture);
    } else if (result) {
        ph__suspect_note(capture->id, ph__rules[PH__RULE_END_WRONG_THREAD].driver_call, result,
                         ph__rules[PH__RULE_END_WRONG_THREAD].what);
    } else if (!all_joined(capture)) {
        ph__driver_set_reason(
            "a forked stream has work that the capture's stream does not wait for");
        result = PH__R_CAPTURE_UNJOINED;
    }
    *graph = finish_capture(capture);
    return result;
}

int ph__host_capture_end(ph__drv_graph **out, ph__drv_stream *handle)
{
    ph__host_stream *stream = (ph__host_stream *)handle;
    if (!stream || !out)
        return PH__R_INVALID_VALUE;
    ph__host_graph *graph = NULL;
    pthread_mutex_lock(&stream->device->capture_lock);
    int result = end_locked(stream, &graph);
    pthread_mutex_unlock(&stream->device->capture_lock);
    if (result == PH__R_OK)
        *out = (ph__drv_graph *)graph;
    else
        ph__host_graph_destroy((ph__drv_graph *)graph);
    return result;
}

void ph__host_capture_drop(ph__drv_stream *handle)
{
    ph__host_stream *stream = (ph__host_stream *)handle;
    if (!stream)
        return;
    ph__host_graph *graph = NULL;
    pthread_mutex_lock(&stream->device->capture_lock);
    if (stream->capture && stream->capture->origin == stream)
        graph = finish_capture(stream->capture);
    pthread_mutex_unlock(&stream->device->capture_lock);
    ph__host_graph_destroy((ph__drv_graph *)graph);
}

/* Without its origin nobody could end a capture: it is over then. */
void ph__host_capture_stream_gone(ph__host_stream *stream)
{
    ph__host_graph *graph = NULL;
    pthread_mutex_lock(&stream->device->capture_lock);
    ph__host_capture *capture = stream->capture;
    if (capture && capture->origin == stream) {
        graph = finish_capture(capture);
    } else if (capture) {
        ph__host_capture_invalidate(capture, PH__R_CAPTURE_INVALIDATED, "cuStreamDestroy",
                                    "a stream of the capture");
        size_t at = 0;
        while (capture->streams.at[at] != stream)
            at++;
        capture->streams.at[at] = capture->streams.at[--capture->streams.count];
        leave_capture(stream);
    }
    pthread_mutex_unlock(&stream->device->capture_lock);
    ph__host_graph_destroy((ph__drv_graph *)graph);
}

int ph__host_capture_get(ph__drv_capture *out, ph__drv_stream *handle)
{
    ph__host_stream *stream = (ph__host_stream *)handle;
    if (!stream || !out)
        return PH__R_INVALID_VALUE;
    *out = (ph__drv_capture){.status = PH_CAPTURE_NONE};
    if (!atomic_load_explicit(&stream->capturing, memory_order_acquire))
        return PH__R_OK;
    pthread_mutex_lock(&stream->device->capture_lock);
    const ph__host_capture *capture = stream->capture;
    if (capture) {
        out->id = capture->id;
        out->status = capture->killed ? PH_CAPTURE_INVALIDATED : PH_CAPTURE_ACTIVE;
    }
    if (capture && !capture->killed) {
        out->graph = (ph__drv_graph *)capture->graph;
        out->dependencies = stream->terminals.at;
        out->dependency_count = stream->terminals.count;
    }
    pthread_mutex_unlock(&stream->device->capture_lock);
    return PH__R_OK;
}

int ph__host_capture_id(uint64_t *id, ph__drv_stream *handle)
{
    ph__host_stream *stream = (ph__host_stream *)handle;
    if (!stream || !id)
        return PH__R_INVALID_VALUE;
    *id = 0;
    if (!atomic_load_explicit(&stream->capturing, memory_order_acquire))
        return PH__R_OK;
    pthread_mutex_lock(&stream->device->capture_lock);
    if (stream->capture)
        *id = stream->capture->id;
    pthread_mutex_unlock(&stream->device->capture_lock);
    return PH__R_OK;
}

static int check_active(const ph__host_capture *capture)
{
    if (!capture)
        return PH__R_ILLEGAL_STATE;
    return capture->killed ? ph__host_capture_dead(capture) : PH__R_OK;
}

int ph__host_capture_position(uint64_t *position, ph__drv_stream *handle)
{
    ph__host_stream *stream = (ph__host_stream *)handle;
    if (!stream || !position)
        return PH__R_INVALID_VALUE;
    pthread_mutex_lock(&stream->device->capture_lock);
    int result = check_active(stream->capture);
    if (result == PH__R_OK)
        *position = stream->capture->graph->nodes.count;
    pthread_mutex_unlock(&stream->device->capture_lock);
    return result;
}

size_t ph__host_graph_position(ph__drv_graph *graph, uint64_t position)
{
    (void)graph;
    return (size_t)position;
}

/* capture_id: as in ph__drv_launch. */
static int record_in(ph__host_stream *stream, const ph__host_work *work, uint64_t *capture_id)
{
    int result = PH__R_OK;
    pthread_mutex_lock(&stream->device->capture_lock);
    ph__host_capture *capture = stream->capture;
    if (!capture) {
        result = PH__R_ILLEGAL_STATE;
    } else if (capture->killed) {
        result = ph__host_capture_dead(capture);
    } else {
        ph__host_node *node = ph__host_graph_add(capture->graph, work, &stream->terminals);
        if (node)
            stream->terminals = ph__host_set_of(node);
        else
            result = PH__R_OUT_OF_MEMORY;
        if (capture_id)
            *capture_id = capture->id;
    }
    pthread_mutex_unlock(&stream->device->capture_lock);
    return result;
}

static int record_work(ph__host_stream *stream, const ph__host_work *work)
{
    return record_in(stream, work, NULL);
}

static ph__host_work work_of(ph__host_kernel *kernel, const ph__drv_launch *launch)
{
    ph__host_work work = {.kind = PH_NODE_KERNEL,
                          .kernel = kernel,
                          .shared_bytes = launch->shared_bytes,
                          .args = launch->args,
                          .args_size = kernel->args_size};
    memcpy(work.grid, launch->grid, sizeof work.grid);
    memcpy(work.block, launch->block, sizeof work.block);
    return work;
}

int ph__host_record_kernel(ph__host_stream *stream, ph__host_kernel *kernel,
                           const ph__drv_launch *launch)
{
    ph__host_work work = work_of(kernel, launch);
    return record_in(stream, &work, launch->capture_id);
}

/* ---- roots ---- */

int ph__host_capture_root(ph__drv_node **out, ph__drv_stream *handle, ph__drv_kernel *kernel_handle,
                          const ph__drv_launch *launch)
{
    static const ph__host_node_set none;
    ph__host_stream *stream = (ph__host_stream *)handle;
    ph__host_kernel *kernel = (ph__host_kernel *)kernel_handle;
    if (kernel->device != stream->device)
        return PH__R_INVALID_HANDLE;
    int result = ph__host_check_launch(kernel, launch);
    if (result)
        return result;
    ph__host_work work = work_of(kernel, launch);
    pthread_mutex_lock(&stream->device->capture_lock);
    result = check_active(stream->capture);
    if (!result) {
        ph__host_node *node = ph__host_graph_add(stream->capture->graph, &work, &none);
        if (node)
            *out = node->self;
        else
            result = PH__R_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&stream->device->capture_lock);
    return result;
}

int ph__host_capture_depend(ph__drv_stream *handle, ph__drv_node *node_handle)
{
    ph__host_stream *stream = (ph__host_stream *)handle;
    ph__host_node *node = ph__host_node_of(node_handle);
    pthread_mutex_lock(&stream->device->capture_lock);
    ph__host_capture *capture = stream->capture;
    int result = check_active(capture);
    if (!result && node->graph != capture->graph)
        result = PH__R_INVALID_VALUE;
    if (!result) {
        const ph__host_node_set root = ph__host_set_of(node);
        if (!ph__host_set_unite(capture->graph, &stream->terminals, &root))
            result = PH__R_OUT_OF_MEMORY;
    }
    pthread_mutex_unlock(&stream->device->capture_lock);
    return result;
}

/* ---- other nodes ---- */

static bool on_device(ph__host_device *device, const void *address)
{
    return ph__host_memory_kind(device, address) == PH__MEMORY_DEVICE;
}

/* The sides are looked up now: by the time of an update the memory may be gone. */
int ph__host_record_copy(ph__host_stream *stream, const ph__drv_memcpy *copy, uint64_t *capture_id)
{
    ph__host_work work = {.kind = PH_NODE_MEMCPY,
                          .args = copy,
                          .args_size = sizeof *copy,
                          .dst_on_device = on_device(stream->device, copy->dst),
                          .src_on_device = on_device(stream->device, copy->src)};
    return record_in(stream, &work, capture_id);
}

int ph__host_record_fill(ph__host_stream *stream, const ph__drv_memset *fill)
{
    return record_work(
        stream, &(ph__host_work){.kind = PH_NODE_MEMSET, .args = fill, .args_size = sizeof *fill});
}

int ph__host_record_host(ph__host_stream *stream, const ph__drv_host *host)
{
    return record_work(
        stream, &(ph__host_work){.kind = PH_NODE_HOST, .args = host, .args_size = sizeof *host});
}

int ph__host_record_child(ph__host_stream *stream, ph__host_graph *body)
{
    return record_work(stream, &(ph__host_work){.kind = PH_NODE_GRAPH, .body = body});
}

int ph__host_record_event_node(ph__host_stream *stream, ph__host_event *event, bool wait)
{
    ph__host_event_args args = {.event = event};
    return record_work(stream,
                       &(ph__host_work){.kind = wait ? PH_NODE_EVENT_WAIT : PH_NODE_EVENT_RECORD,
                                        .args = &args,
                                        .args_size = sizeof args});
}
