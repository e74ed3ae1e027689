/* SPDX-License-Identifier: MIT */
/* graph/memory/cells.c: making cells in a capture, ordering its streams behind them, and what
 * becomes of them at its end. */
#include "graph/memory/cells.h"
#include "base/alloc.h"
#include "device/capture/culprit.h"
#include "device/handles/kernel.h"
#include "device/handles/own_kernels.h"
#include "graph/object/graph.h"
#include "memory/alloc/slow_path.h"
#include "record/words.h"
#include <string.h>

/* A failure under the lock, to be reported when the lock is free. */
typedef struct failure {
    ph_status status; /* told already */
    int result;       /* the driver's */
    const char *driver_call;
} failure;

static bool has_failed(const failure *f)
{
    return f->status != PH_OK || f->result != PH__R_OK;
}

static ph_status report_failure(const failure *f, const ph_stream *stream, const char *call)
{
    if (!has_failed(f) || f->status != PH_OK)
        return f->status;
    if (ph__result_is_host_memory(f->result))
        return ph__fail_host_memory(call, "the cells of the capture");
    return ph__stream_fail(f->result, stream, f->driver_call, "%s", call);
}

static ph_status check_source(const ph_cells_source *source, const char *call)
{
    if (!PH__RESERVED_OK(source))
        return ph__fail_reserved(call, "ph_cells_source");
    if (source->count == 0 || source->count > PH_CELLS_MAX)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: count is %zu; a source has 1 to %d cells", call,
                       source->count, PH_CELLS_MAX);
    return source->values ? PH_OK : ph__fail_null(call, "values");
}

/* The capture that the stream is in, if it is one of this library's. */
static ph_status find_capture(uint64_t *id, const ph_stream *stream, const char *call)
{
    PH_TRY(ph__stream_check(stream, call));
    PH_TRY(ph__stream_find_capture(id, stream, call));
    if (*id == 0)
        return ph__fail_native(
            PH_ERROR_STATE, PH__R_ILLEGAL_STATE, PH__NAME_GRAPH_ADD_KERNEL_NODE,
            "%s: the stream is not capturing; cells belong to a capture: call it in the "
            "function of ph_graph_capture, on the stream that reads them",
            call);
    if (ph__capture_is_foreign(stream, *id))
        return ph__fail_native(
            PH_ERROR_CAPTURE, PH__R_CAPTURE_UNSUPPORTED, PH__NAME_GRAPH_ADD_KERNEL_NODE,
            "%s: the stream is in a capture that this library did not begin (id %llu), and whose "
            "replays it does not see; the call did not touch that capture; capture with "
            "ph_graph_capture",
            call, (unsigned long long)*id);
    return PH_OK;
}

static ph_status fail_over(const char *call)
{
    return ph_fail(PH_ERROR_STATE, "%s: the stream's capture has just ended on another thread",
                   call);
}

/* ---- memory ---- */
static void give_memory(uint64_t **cells, size_t count, ph_device *device)
{
    for (size_t i = 0; i < count; i++) {
        ph_free(cells[i], &device->default_stream);
        cells[i] = NULL;
    }
}

static ph_status allocate_cells(uint64_t **cells, size_t count, ph_device *device, const char *call)
{
    for (size_t i = 0; i < count; i++) {
        void *block = NULL;
        ph_status status = ph__malloc_outside(&block, device, sizeof **cells, call);
        if (status != PH_OK) {
            give_memory(cells, i, device);
            return status;
        }
        cells[i] = block;
    }
    return PH_OK;
}

/* ---- roots ---- under the device's capture_lock ---- */
void ph__cells_launch(ph__drv_launch *out, const ph__drv_cells *args)
{
    *out = (ph__drv_launch){.grid = {1, 1, 1}, .block = {PH__CELLS_BLOCK, 1, 1}, .args = args};
}

/* As it stands in the template it writes nothing. */
static void add_root(failure *f, ph__cells *cells, ph_stream *stream, const char *call)
{
    ph_device *device = stream->device;
    const unsigned room = ph__cells_room(cells->roots.count);
    ph__cells_root root = {.index = SIZE_MAX, .due = true};
    ph_kernel *kernel;
    ph__drv_launch launch;
    f->status = ph__device_cells_kernel(&kernel, device, room, call);
    if (has_failed(f))
        return;
    root.args = ph__calloc(1, ph__cells_args_size(room));
    if (!root.args || !ph__vec_reserve(&cells->roots, 1)) {
        ph__free(root.args);
        f->result = PH__R_OUT_OF_MEMORY;
        return;
    }
    ph__cells_launch(&launch, root.args);
    f->driver_call = PH__NAME_GRAPH_ADD_KERNEL_NODE;
    f->result = device->driver->capture_root(&root.node, stream->handle, kernel->handle, &launch);
    if (has_failed(f))
        ph__free(root.args);
    else
        cells->roots.at[cells->roots.count++] = root;
}

/* Puts what comes on the stream behind all roots. */
static void order_behind_roots(failure *f, ph__cells *cells, ph_stream *stream)
{
    size_t known = (size_t)(uintptr_t)ph__map_get(&cells->ordered, stream->id);
    if (known == cells->roots.count)
        return;
    if (!ph__map_reserve(&cells->ordered, 1)) {
        f->result = PH__R_OUT_OF_MEMORY;
        return;
    }
    f->driver_call = PH__NAME_STREAM_UPDATE_CAPTURE_DEPENDENCIES;
    for (; known < cells->roots.count; known++) {
        f->result =
            stream->device->driver->capture_depend(stream->handle, cells->roots.at[known].node);
        if (has_failed(f))
            return;
    }
    (void)ph__map_put(&cells->ordered, stream->id, (void *)(uintptr_t)known);
}

/* Nothing of the graph's changes before all is there but roots that write nothing, which the
 * next cells use. */
static void add_cells(failure *f, ph_graph *graph, ph_stream *stream, uint64_t *const *addresses,
                      const ph_cells_source *source, const char *call)
{
    if (!graph->cells)
        graph->cells = ph__calloc(1, sizeof *graph->cells);
    ph__cells *cells = graph->cells;
    if (!cells || !ph__vec_reserve(&cells->sources, 1)) {
        f->result = PH__R_OUT_OF_MEMORY;
        return;
    }
    while (!has_failed(f) && cells->roots.count < ph__cells_roots(cells->count + source->count))
        add_root(f, cells, stream, call);
    if (!has_failed(f))
        order_behind_roots(f, cells, stream);
    if (has_failed(f))
        return;
    for (size_t i = 0; i < source->count; i++) {
        ph__cells_root *root = &cells->roots.at[ph__cells_roots(cells->count + 1) - 1];
        ph__cells_at(cells, cells->count)->at = addresses[i];
        root->args->count++;
        cells->count++;
    }
    cells->sources.at[cells->sources.count++] = *source;
}

/* ---- the calls ---- */
ph_status ph_cells_create(uint64_t **cells, ph_stream *stream, const ph_cells_source *source)
{
    static const char call[] = "ph_cells_create";
    uint64_t capture_id;
    failure f = {PH_OK, PH__R_OK, ""};
    if (source == NULL)
        return ph__fail_null(call, "source");
    if (cells == NULL)
        return ph__fail_null(call, "cells");
    for (size_t i = 0; i < source->count && i < PH_CELLS_MAX; i++)
        cells[i] = NULL;
    PH_TRY(check_source(source, call));
    PH_TRY(find_capture(&capture_id, stream, call));
    ph_device *device = stream->device;
    PH_TRY(allocate_cells(cells, source->count, device, call));
    pthread_mutex_lock(&device->capture_lock);
    ph_graph *graph = ph__capture_owner_locked(device, capture_id);
    if (graph)
        add_cells(&f, graph, stream, cells, source, call);
    pthread_mutex_unlock(&device->capture_lock);
    ph_status status = graph ? report_failure(&f, stream, call) : fail_over(call);
    if (status != PH_OK)
        give_memory(cells, source->count, device);
    return status;
}

ph_status ph_cells_require(ph_stream *stream)
{
    static const char call[] = "ph_cells_require";
    uint64_t capture_id;
    failure f = {PH_OK, PH__R_OK, ""};
    PH_TRY(find_capture(&capture_id, stream, call));
    pthread_mutex_lock(&stream->device->capture_lock);
    const ph_graph *graph = ph__capture_owner_locked(stream->device, capture_id);
    if (graph && graph->cells)
        order_behind_roots(&f, graph->cells, stream);
    pthread_mutex_unlock(&stream->device->capture_lock);
    return graph ? report_failure(&f, stream, call) : fail_over(call);
}

/* ---- the capture's end ---- */
/* A fork that was put behind the cells, and then submitted nothing, would count as work that was
 * not joined. A failure shows at the end itself, if it matters: as 901 or 904. */
void ph__cells_join(ph_graph *graph)
{
    failure f = {PH_OK, PH__R_OK, ""};
    if (graph->cells == NULL || graph->capture.stream == NULL)
        return;
    pthread_mutex_lock(&graph->device->capture_lock);
    order_behind_roots(&f, graph->cells, graph->capture.stream);
    pthread_mutex_unlock(&graph->device->capture_lock);
    if (has_failed(&f))
        ph__driver_clear_reason();
}

bool ph__cells_add_ranges(ph__ranges *ranges, const ph_graph *graph)
{
    const ph__cells *cells = graph->cells;
    for (size_t i = 0; cells && i < cells->count; i++) {
        uint64_t *at = ph__cells_at(cells, i)->at;
        if (!ph__ranges_add(ranges, (uintptr_t)at, sizeof *at, graph->cells))
            return false;
    }
    return true;
}

void ph__cells_record(ph_graph *graph, const ph__own_memory *own)
{
    for (size_t i = 0; graph->cells && i < graph->cells->roots.count; i++) {
        ph__cells_root *root = &graph->cells->roots.at[i];
        root->index = ph__record_index_of(graph->record, root->node);
        ph__record_put_args(graph->record, root->index, graph->device, own, root->args);
    }
}

bool ph__cells_meet(const ph_graph *graph, const void *address, size_t bytes)
{
    const ph__cells *cells = graph->cells;
    for (size_t i = 0; cells && i < cells->count; i++) {
        uintptr_t at = (uintptr_t)ph__cells_at(cells, i)->at;
        if (at < (uintptr_t)address + bytes && (uintptr_t)address < at + sizeof(uint64_t))
            return true;
    }
    return false;
}

bool ph__cells_are_written_by(const ph_graph *graph, size_t node)
{
    for (size_t i = 0; graph->cells && i < graph->cells->roots.count; i++)
        if (graph->cells->roots.at[i].index == node)
            return true;
    return false;
}

size_t ph__cells_bytes(const ph_graph *graph)
{
    return graph->cells ? graph->cells->count * PH__CELL_BYTES : 0;
}

void ph__cells_drop(ph_graph *graph)
{
    ph__cells *cells = graph->cells;
    ph_device *device = graph->device;
    graph->cells = NULL;
    if (cells == NULL)
        return;
    for (size_t i = 0; i < cells->count; i++)
        ph_free(ph__cells_at(cells, i)->at, &device->default_stream);
    device->driver->event_destroy(cells->given);
    for (size_t i = 0; i < cells->sources.count; i++) {
        const ph_cells_source *source = &cells->sources.at[i];
        if (source->release)
            source->release(source->user);
    }
    for (size_t i = 0; i < cells->roots.count; i++)
        ph__free(cells->roots.at[i].args);
    ph__vec_free(&cells->roots);
    ph__vec_free(&cells->sources);
    ph__map_free(&cells->ordered);
    ph__free(cells);
}
