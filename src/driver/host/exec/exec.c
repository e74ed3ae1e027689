/* SPDX-License-Identifier: MIT */
/* driver/host/exec/exec.c: executables: instantiate, launch, the end of a launch, destroy. */
#include "driver/host/exec/exec.h"
#include "base/checked.h"
#include "driver/host/exec/event_node.h"
#include "driver/host/resource/rules.h"
#include "driver/host/stream/chaos.h"
#include "driver/host/stream/entries.h"
#include "driver/host/stream/legacy.h"
#include <string.h>

/* ---- launches, as objects ---- */

static void launch_free(ph__exec_launch *launch)
{
    if (launch)
        ph__free(launch->patches);
    ph__free(launch);
}

/* Under the executable's lock, or before anybody else knows it. */
static ph__exec_launch *launch_take(ph__host_exec *exec)
{
    ph__exec_launch *launch = exec->spare;
    if (launch) {
        exec->spare = launch->next;
        return launch;
    }
    size_t bytes = sizeof *launch + exec->front->event_count * sizeof launch->markers[0];
    launch = ph__calloc(1, bytes);
    if (!launch)
        return NULL;
    launch->exec = exec;
    exec->launch_bytes += bytes;
    return launch;
}

static void launch_give(ph__host_exec *exec, ph__exec_launch *launch)
{
    launch->patch_count = 0;
    launch->next = exec->spare;
    exec->spare = launch;
}

/* ---- instantiate and destroy ---- */

static void exec_free(ph__host_exec *exec)
{
    ph__exec_image_free(exec->image);
    ph__exec_params_free(exec->front);
    while (exec->spare) {
        ph__exec_launch *launch = exec->spare;
        exec->spare = launch->next;
        launch_free(launch);
    }
    ph__free(exec->dirty);
    pthread_mutex_destroy(&exec->lock);
    ph__free(exec);
}

static ph__host_exec *exec_create(ph__host_graph *graph)
{
    ph__host_exec *exec = ph__calloc(1, sizeof *exec);
    if (!exec)
        return NULL;
    if (pthread_mutex_init(&exec->lock, NULL) != 0) {
        ph__free(exec);
        return NULL;
    }
    exec->device = graph->device;
    exec->graph = graph;
    exec->front = ph__exec_params_of_graph(graph);
    exec->dirty = ph__calloc(graph->slot_count, sizeof exec->dirty[0]);
    exec->image = exec->front && exec->dirty ? ph__exec_image_create(exec, exec->front) : NULL;
    exec->spare = exec->image ? launch_take(exec) : NULL;
    if (!exec->spare) {
        exec_free(exec);
        return NULL;
    }
    return exec;
}

int ph__host_instantiate(ph__drv_exec **out, ph__drv_graph *handle, int flags,
                         ph__drv_node **failed)
{
    ph__host_graph *graph = ph__host_graph_of(handle);
    if (failed)
        *failed = NULL;
    /* Priorities mean nothing here, there are no memory nodes whose memory a launch would have
     * to free first, and nothing is uploaded. */
    const int known = PH__INSTANTIATE_USE_NODE_PRIORITY | PH__INSTANTIATE_AUTO_FREE_ON_LAUNCH |
                      PH__INSTANTIATE_DEFER_UPLOAD;
    if (!out || !graph || (flags & ~known))
        return PH__R_INVALID_VALUE;
    if (ph__host_graph_is_capturing(graph)) {
        ph__driver_set_reason("the graph is still being captured");
        return PH__R_ILLEGAL_STATE;
    }
    int result = ph__host_rule(graph->device, PH__RULE_INSTANTIATE);
    if (result)
        return result;
    ph__host_exec *exec = exec_create(graph);
    if (!exec)
        return PH__R_OUT_OF_MEMORY;
    atomic_fetch_add(&exec->device->live_handles, 1);
    *out = (ph__drv_exec *)exec;
    return PH__R_OK;
}

/* Launches in flight keep it; the last of them frees it. The rule of destroying allows it
 * always. */
void ph__host_exec_destroy(ph__drv_exec *handle)
{
    ph__host_exec *exec = (ph__host_exec *)handle;
    if (!exec)
        return;
    atomic_fetch_sub(&exec->device->live_handles, 1);
    pthread_mutex_lock(&exec->lock);
    exec->destroyed = true;
    bool idle = exec->in_flight == 0;
    pthread_mutex_unlock(&exec->lock);
    if (idle)
        exec_free(exec);
}

/* No tool of any vendor reads the number. */
void ph__host_exec_tools_id(uint64_t *out, ph__drv_exec *exec, ph__drv_node *node)
{
    (void)exec;
    (void)node;
    *out = 0;
}

/* Counts the memory that later launches need. An older image goes with the last launch that has
 * it, and is not counted. */
void ph__host_exec_memory(ph__drv_memory *out, ph__drv_exec *handle)
{
    ph__host_exec *exec = (ph__host_exec *)handle;
    *out = (ph__drv_memory){0};
    if (!exec)
        return;
    pthread_mutex_lock(&exec->lock);
    const ph__exec_image *image = exec->image;
    out->host_bytes = sizeof *exec + exec->front->bytes +
                      exec->front->count * sizeof exec->dirty[0] + exec->launch_bytes +
                      sizeof *image + image->params->bytes + ph__plan_bytes(image->plan);
    pthread_mutex_unlock(&exec->lock);
}

/* ---- changes on their way to the image ---- */

void ph__exec_note(ph__host_exec *exec, size_t index)
{
    ph__exec_slot *slot = &exec->front->slots[index];
    if (slot->dirty)
        return;
    slot->dirty = true;
    exec->dirty[exec->dirty_count++] = (uint32_t)index;
}

static void forget_dirty(ph__host_exec *exec)
{
    for (size_t i = 0; i < exec->dirty_count; i++)
        exec->front->slots[exec->dirty[i]].dirty = false;
    exec->dirty_count = 0;
}

static void image_release(ph__exec_image *image)
{
    if (--image->references == 0)
        ph__exec_image_free(image);
}

void ph__exec_replace(ph__host_exec *exec, ph__exec_params *front, ph__exec_image *image)
{
    forget_dirty(exec);
    if (front != exec->front) {
        ph__exec_params_free(exec->front);
        exec->front = front;
    }
    image_release(exec->image);
    exec->image = image;
}

/* Nothing is in flight: the image takes everything now. What it took stays taken when a later
 * one fails. */
static bool apply_now(ph__host_exec *exec)
{
    while (exec->dirty_count > 0) {
        ph__exec_slot *slot = &exec->front->slots[exec->dirty[exec->dirty_count - 1]];
        if (!ph__exec_image_apply(exec->image, slot))
            return false;
        if (slot->shared_bytes > exec->image->shared_max)
            exec->image->shared_max = slot->shared_bytes;
        slot->dirty = false;
        exec->dirty_count--;
    }
    return true;
}

static size_t padded(size_t bytes)
{
    return (bytes + _Alignof(max_align_t) - 1) / _Alignof(max_align_t) * _Alignof(max_align_t);
}

/* The launch carries them. Sums of sizes that were allocated before cannot overflow. */
static bool make_patches(ph__host_exec *exec, ph__exec_launch *launch)
{
    size_t header = padded(exec->dirty_count * sizeof(ph__exec_slot)), bytes = header;
    for (size_t i = 0; i < exec->dirty_count; i++)
        bytes += padded(exec->front->slots[exec->dirty[i]].args_size);
    if (bytes > launch->patch_capacity) {
        ph__exec_slot *larger = ph__alloc(bytes);
        if (!larger)
            return false;
        ph__free(launch->patches);
        exec->launch_bytes += bytes - launch->patch_capacity;
        launch->patches = larger;
        launch->patch_capacity = bytes;
    }
    unsigned char *args = (unsigned char *)launch->patches + header;
    for (size_t i = 0; i < exec->dirty_count; i++) {
        ph__exec_slot *patch = &launch->patches[i];
        *patch = exec->front->slots[exec->dirty[i]];
        if (patch->args_size > 0)
            memcpy(args, patch->args, patch->args_size);
        patch->args = args;
        args += padded(patch->args_size);
    }
    launch->patch_count = exec->dirty_count;
    return true;
}

static bool image_takes_all(const ph__host_exec *exec)
{
    for (size_t i = 0; i < exec->dirty_count; i++) {
        const ph__exec_slot *slot = &exec->front->slots[exec->dirty[i]];
        if (slot->shared_bytes > exec->image->shared_max ||
            !ph__exec_slot_takes(&exec->image->params->slots[slot->index], slot))
            return false;
    }
    return true;
}

/* ---- launch ---- */

/* The image of this launch, and what of the front it is still to be given. */
static bool prepare_image(ph__host_exec *exec, ph__exec_launch *launch)
{
    if (exec->dirty_count == 0)
        return true;
    if (!exec->last)
        return apply_now(exec);
    if (image_takes_all(exec)) {
        if (!make_patches(exec, launch))
            return false;
        forget_dirty(exec);
        return true;
    }
    ph__exec_image *image = ph__exec_image_create(exec, exec->front);
    if (!image)
        return false;
    ph__exec_replace(exec, exec->front, image);
    return true;
}

/* Launches run in the order in which they were made: on one stream they do anyhow. */
static int wait_for_last(ph__host_exec *exec, ph__host_stream *stream)
{
    ph__exec_launch *last = exec->last;
    if (!last || last->stream == stream)
        return 0;
    if (!last->marker)
        last->marker = ph__host_marker_create(exec->device);
    return last->marker ? ph__host_stream_wait_marker(stream, last->marker) : PH__R_OUT_OF_MEMORY;
}

static void run_launch(ph__exec_launch *launch, ph__rng *chaos)
{
    ph__exec_image *image = launch->image;
    /* The image accepts them: image_takes_all(). */
    for (size_t i = 0; i < launch->patch_count; i++)
        (void)ph__exec_image_apply(image, &launch->patches[i]);
    for (size_t i = 0, event = 0; event < image->params->event_count; i++) {
        ph__exec_slot *slot = &image->params->slots[i];
        if (slot->kind != PH_NODE_EVENT_RECORD && slot->kind != PH_NODE_EVENT_WAIT)
            continue;
        ((ph__host_event_args *)slot->args)->marker = launch->markers[event];
        launch->markers[event++] = NULL;
    }
    ph__plan_run(image->plan, chaos);
}

/* The launch object may be in use again when this returns, and the executable gone. */
static void finish_launch(ph__exec_launch *launch)
{
    ph__host_exec *exec = launch->exec;
    pthread_mutex_lock(&exec->lock);
    ph__exec_image *image = launch->image;
    ph__host_marker *marker = launch->marker;
    launch->marker = NULL;
    if (exec->last == launch)
        exec->last = NULL;
    bool image_over = --image->references == 0;
    launch_give(exec, launch);
    bool exec_over = --exec->in_flight == 0 && exec->destroyed;
    pthread_mutex_unlock(&exec->lock);
    if (marker) {
        ph__host_marker_signal(marker);
        ph__host_marker_release(marker);
    }
    if (image_over)
        ph__exec_image_free(image);
    if (exec_over)
        exec_free(exec);
}

static void run_command(ph__host_command *command)
{
    ph__exec_launch *launch = (ph__exec_launch *)command;
    ph__host_chaos *chaos = launch->exec->device->chaos;
    run_launch(launch, chaos ? ph__host_chaos_rng(chaos) : NULL);
    finish_launch(launch);
}

/* Everything that can fail. What failed leaves the executable as it was, but for changes that
 * have come further on their way. */
static int prepare(ph__host_exec *exec, ph__host_stream *stream, ph__exec_launch **out)
{
    ph__exec_launch *launch = launch_take(exec);
    if (!launch)
        return PH__R_OUT_OF_MEMORY;
    int result = ph__exec_take_markers(launch, stream);
    if (!result)
        result = wait_for_last(exec, stream);
    if (!result && !prepare_image(exec, launch))
        result = PH__R_OUT_OF_MEMORY;
    if (result) {
        ph__exec_drop_markers(launch);
        launch_give(exec, launch);
        return result;
    }
    launch->image = exec->image;
    launch->image->references++;
    launch->stream = stream;
    launch->command = (ph__host_command){.run = run_command};
    ph__exec_install_records(launch);
    *out = launch;
    return 0;
}

/* Under the executable's lock; *here: the caller now owns the stream's turn and runs the launch
 * itself. */
static int launch_locked(ph__host_exec *exec, ph__host_stream *stream, ph__exec_launch **out,
                         bool *here)
{
    bool idle = !exec->last;
    int result = prepare(exec, stream, out);
    if (result)
        return result;
    exec->in_flight++;
    exec->last = *out;
    *here = idle && ph__plan_is_tiny(exec->image->plan) && ph__host_stream_try_inline(stream);
    if (!*here)
        ph__host_stream_submit(stream, &(*out)->command);
    return 0;
}

static int check_handles(const ph__host_exec *exec, const ph__host_stream *stream)
{
    if (!exec || !stream)
        return PH__R_INVALID_VALUE;
    return stream->device == exec->device ? 0 : PH__R_INVALID_HANDLE;
}

static int apply_launch_rules(ph__host_stream *stream)
{
    if (stream->is_legacy)
        return ph__host_rule_legacy(stream->device, PH__RULE_EXEC_LAUNCH_LEGACY_BLOCKING);
    return ph__host_rule_stream(stream, PH__RULE_EXEC_LAUNCH_CAPTURING, PH__RULE_EXEC_LAUNCH_OTHER);
}

int ph__host_exec_launch(ph__drv_exec *exec_handle, ph__drv_stream *stream_handle)
{
    ph__host_exec *exec = (ph__host_exec *)exec_handle;
    ph__host_stream *stream = (ph__host_stream *)stream_handle;
    int result = check_handles(exec, stream);
    if (!result)
        result = apply_launch_rules(stream);
    if (!result)
        result = ph__host_stream_enter(stream);
    if (result)
        return result;
    ph__exec_launch *launch;
    bool here = false;
    pthread_mutex_lock(&exec->lock);
    result = launch_locked(exec, stream, &launch, &here);
    pthread_mutex_unlock(&exec->lock);
    if (here) {
        run_launch(launch, NULL);
        finish_launch(launch);
        ph__host_stream_leave_inline(stream);
    }
    return result;
}

/* The host device has no other place to put an executable: it is where it runs. */
int ph__host_exec_upload(ph__drv_exec *exec_handle, ph__drv_stream *stream_handle)
{
    const ph__host_exec *exec = (const ph__host_exec *)exec_handle;
    ph__host_stream *stream = (ph__host_stream *)stream_handle;
    int result = check_handles(exec, stream);
    if (result)
        return result;
    if (stream->is_legacy)
        return ph__host_rule_legacy(stream->device, PH__RULE_EXEC_UPLOAD_LEGACY_BLOCKING);
    result =
        ph__host_rule_stream(stream, PH__RULE_EXEC_UPLOAD_CAPTURING, PH__RULE_EXEC_UPLOAD_OTHER);
    if (result)
        ph__driver_set_reason("an upload cannot be captured");
    return result;
}
