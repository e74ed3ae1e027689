/* SPDX-License-Identifier: MIT */
/* driver/cuda/exec/exec.c: executables: making, launching, the memory that they need. Calls on one
 * executable are not serialised here, as its graph's are not above; CUDA serialises its launches
 * on the device. */
#include "driver/cuda/exec/exec.h"
#include "base/alloc.h"
#include "driver/cuda/capture/submission.h"
#include "driver/cuda/exec/kept.h"
#include "driver/cuda/load/entries.h"
#include "driver/cuda/nodes/list.h"

/* CUgraphInstantiateResult, where it says more than the call's number. */
static void set_instantiate_reason(int why)
{
    static const char *const words[] = {[2] = "the graph's structure is invalid (a cycle, perhaps)",
                                        [3] = "an operation of the graph is not supported",
                                        [4] = "nodes of several contexts are not supported",
                                        [5] =
                                            "a conditional handle belongs to no conditional node"};
    if (why >= 2 && (size_t)why < sizeof words / sizeof words[0])
        ph__driver_set_reason("%s", words[why]);
}

/* The node of the template, where the one to blame is not inside a child graph. */
static ph__drv_node *find_node(ph__drv_graph *graph, ph__cu_node handle)
{
    if (!handle || ph__cuda_graph_list(graph) != PH__R_OK)
        return NULL;
    ph__spin_lock(&graph->device->cache_lock);
    ph__drv_node *node = ph__cuda_graph_find_locked(graph, handle);
    ph__spin_unlock(&graph->device->cache_lock);
    return node;
}

/* Uploading maps all that the executable needs on the device. The wait, for the upload alone, is
 * legal wherever making an executable is: both are potentially unsafe, and the stream never
 * captures. */
static int upload_exec(const ph__drv_exec *exec)
{
    int result = ph__cu.GraphUpload(exec->handle, exec->device->upload);
    return result == PH__R_OK ? ph__cu.StreamSynchronize(exec->device->upload) : result;
}

static int create_exec(ph__drv_exec *exec, int flags, ph__cu_node *failed)
{
    ph__cu_instantiate_params params = {.flags = (uint64_t)(flags & ~PH__INSTANTIATE_DEFER_UPLOAD)};
    int result = ph__cuda_report_memory(
        ph__cu.GraphInstantiateWithParams(&exec->handle, exec->graph->handle, &params));
    if (result != PH__R_OK) {
        *failed = params.failed;
        set_instantiate_reason(params.result);
    }
    return result;
}

/* Bytes that are free, and those that this library has mapped: other threads map some meanwhile. */
static int measure_rest(size_t *out, ph__drv_device *device)
{
    size_t total;
    ph__mutex_lock(&device->mapping);
    int result = ph__cu.MemGetInfo(out, &total);
    *out += device->mapped;
    ph__mutex_unlock(&device->mapping);
    return result;
}

/* The executable gets what is missing of them since *before, which is what there is now then. */
static int add_used_bytes(ph__drv_exec *exec, size_t *before)
{
    size_t after;
    int result = measure_rest(&after, exec->device);
    if (result != PH__R_OK)
        return result;
    if (*before > after)
        exec->memory.device_bytes += *before - after;
    *before = after;
    return PH__R_OK;
}

/* Where the upload is deferred, so is the account. */
static int instantiate_again(ph__drv_exec *exec, int flags, ph__cu_node *failed)
{
    size_t before = 0;
    exec->deferred = flags & PH__INSTANTIATE_DEFER_UPLOAD;
    int result = exec->deferred ? PH__R_OK : measure_rest(&before, exec->device);
    if (result == PH__R_OK)
        result = create_exec(exec, flags, failed);
    if (result != PH__R_OK || exec->deferred)
        return result;
    result = ph__cuda_report_memory(upload_exec(exec));
    if (result == PH__R_OK)
        result = add_used_bytes(exec, &before);
    if (result != PH__R_OK)
        (void)ph__cu.GraphExecDestroy(exec->handle);
    exec->uploads = 1;
    return result;
}

static int upload_apart(ph__drv_exec *exec)
{
    size_t before;
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, exec->device);
    if (result != PH__R_OK)
        return result;
    int mode = ph__cuda_relax();
    result = measure_rest(&before, exec->device);
    if (result == PH__R_OK)
        result = ph__cuda_report_memory(upload_exec(exec));
    if (result == PH__R_OK)
        result = add_used_bytes(exec, &before);
    if (result == PH__R_OK) {
        exec->deferred = false;
        exec->uploads++;
    }
    ph__cuda_unrelax(mode);
    ph__cuda_leave(&scope);
    return result;
}

int ph__cuda_exec_upload_first(ph__drv_exec *exec)
{
    return exec->deferred ? upload_apart(exec) : PH__R_OK;
}

int ph__cuda_instantiate(ph__drv_exec **out, ph__drv_graph *graph, int flags, ph__drv_node **failed)
{
    if (!out || !graph)
        return PH__R_INVALID_VALUE;
    ph__drv_exec *exec = ph__calloc(1, sizeof *exec);
    if (!exec)
        return PH__R_OUT_OF_MEMORY;
    exec->device = graph->device;
    exec->graph = graph;
    exec->memory.host_bytes = sizeof *exec;
    ph__cu_node blamed = NULL;
    ph__cuda_scope scope;
    int result = ph__cuda_enter(&scope, graph->device);
    if (result == PH__R_OK) {
        result = instantiate_again(exec, flags, &blamed);
        ph__cuda_leave(&scope);
    }
    if (result != PH__R_OK) {
        if (failed)
            *failed = find_node(graph, blamed);
        ph__free(exec);
        return result;
    }
    *out = exec;
    return PH__R_OK;
}

/* Nobody here knows whether it was uploaded: once more does no harm. */
int ph__cuda_exec_view(ph__drv_exec **out, ph__drv_graph *graph, void *native)
{
    if (!out || !graph || !native)
        return PH__R_INVALID_VALUE;
    ph__drv_exec *exec = ph__calloc(1, sizeof *exec);
    if (!exec)
        return PH__R_OUT_OF_MEMORY;
    *exec = (ph__drv_exec){.device = graph->device,
                           .handle = native,
                           .deferred = true,
                           .viewed = true,
                           .graph = graph,
                           .memory.host_bytes = sizeof *exec};
    graph->owned = false;
    *out = exec;
    return PH__R_OK;
}

/* CUDA's own call is potentially unsafe; launches in flight complete all the same. */
void ph__cuda_exec_destroy(ph__drv_exec *exec)
{
    if (!exec)
        return;
    if (!exec->viewed) {
        int mode = ph__cuda_relax();
        (void)ph__cu.GraphExecDestroy(exec->handle);
        ph__cuda_unrelax(mode);
    }
    ph__free(exec->kernels);
    ph__cuda_exec_drop_layouts(exec);
    ph__free(exec);
}

void *ph__cuda_exec_native(ph__drv_exec *exec)
{
    return exec ? exec->handle : NULL;
}

void ph__cuda_exec_memory(ph__drv_memory *out, ph__drv_exec *exec)
{
    *out = exec ? exec->memory : (ph__drv_memory){0};
}

static int upload_on(ph__drv_exec *exec, ph__drv_stream *stream)
{
    ph__cuda_submission submission;
    ph__cuda_submission_begin(&submission, stream);
    int result = ph__cuda_report_memory(ph__cu.GraphUpload(exec->handle, stream->handle));
    ph__cuda_submission_leave(&submission, stream);
    return result;
}

/* Nothing else is submitted between two of them: what is left behind one was there before the
 * next. */
int ph__cuda_exec_upload(ph__drv_exec *const *execs, size_t count, ph__drv_stream *stream)
{
    size_t before;
    ph__cuda_scope scope;
    if (!execs || !stream)
        return PH__R_INVALID_VALUE;
    int result = ph__cuda_enter(&scope, stream->device);
    if (result != PH__R_OK)
        return result;
    result = measure_rest(&before, stream->device);
    for (size_t i = 0; i < count && result == PH__R_OK; i++) {
        result = upload_on(execs[i], stream);
        if (result == PH__R_OK)
            result = add_used_bytes(execs[i], &before);
        if (result == PH__R_OK) {
            execs[i]->deferred = false;
            execs[i]->uploads++;
        }
    }
    ph__cuda_leave(&scope);
    return result;
}

uint64_t ph__cuda_exec_uploads(ph__drv_exec *exec)
{
    return exec ? exec->uploads : 0;
}

/* Apart, so that a launch on an explicit stream is short. One that uploads may lack the device's
 * memory, and says so. */
__attribute__((noinline)) static int launch_apart(ph__drv_exec *exec, ph__drv_stream *stream)
{
    ph__cuda_scope scope;
    ph__cuda_submission submission;
    int result = ph__cuda_enter(&scope, exec->device);
    if (result == PH__R_OK) {
        ph__cuda_submission_begin(&submission, stream);
        result = ph__cu.GraphLaunch(exec->handle, stream->handle);
        ph__cuda_submission_leave(&submission, stream);
        ph__cuda_leave(&scope);
    }
    if (!exec->deferred)
        return result;
    exec->deferred = result != PH__R_OK;
    exec->uploads += result == PH__R_OK;
    return ph__cuda_report_memory(result);
}

int ph__cuda_exec_launch(ph__drv_exec *exec, ph__drv_stream *stream)
{
    if (!stream->handle || exec->deferred)
        return launch_apart(exec, stream);
    ph__cuda_submission submission;
    ph__cuda_submission_begin(&submission, stream);
    int result = ph__cu.GraphLaunch(exec->handle, stream->handle);
    ph__cuda_submission_leave(&submission, stream);
    return result;
}

/* True where CUDA does not answer: exec_launch asks once more, and tells. */
__attribute__((noinline)) static bool is_capturing(const ph__drv_stream *stream)
{
    int status;
    return ph__cu.StreamIsCapturing(stream->handle, &status) != PH__R_OK ||
           status != PH__CU_CAPTURE_STATUS_NONE;
}

int ph__cuda_exec_relaunch(ph__drv_exec *exec, ph__drv_stream *stream, bool foreign, bool *launched)
{
    *launched = false;
    if (!stream->handle || exec->deferred)
        return PH__R_OK;
    int result = PH__R_OK;
    ph__shared_lock(&stream->calls);
    foreign =
        foreign || atomic_load_explicit(&stream->device->open_captures, memory_order_relaxed) != 0;
    if (!foreign || !is_capturing(stream)) {
        result = ph__cu.GraphLaunch(exec->handle, stream->handle);
        *launched = true;
    }
    ph__shared_unlock(&stream->calls);
    return result;
}
