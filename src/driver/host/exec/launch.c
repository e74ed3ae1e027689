/* SPDX-License-Identifier: MIT */
/* driver/host/exec/launch.c: launches of an executable, and their end. */
#include "driver/host/exec/launch.h"
#include "driver/host/exec/changes.h"
#include "driver/host/exec/event_node.h"
#include "driver/host/plan/plan_run.h"
#include "driver/host/resource/rules.h"
#include "driver/host/stream/chaos.h"
#include "driver/host/stream/entries.h"
#include "driver/host/stream/legacy.h"
#include "driver/host/stream/queue.h"
#include "driver/reason.h"

/* ---- launches, as objects ---- */

void ph__exec_launch_free(ph__exec_launch *launch)
{
    if (launch)
        ph__free(launch->patches);
    ph__free(launch);
}

ph__exec_launch *ph__exec_launch_acquire(ph__host_exec *exec)
{
    ph__exec_launch *launch = exec->spare;
    if (launch) {
        exec->spare = launch->next;
        return launch;
    }
    size_t bytes = sizeof *launch + exec->params->event_count * sizeof launch->markers[0];
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

/* ---- one launch ---- */

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
    /* image_accepts_all() has found that the image takes them */
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
        ph__exec_free(exec);
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
static int prepare_launch(ph__host_exec *exec, ph__host_stream *stream, ph__exec_launch **out)
{
    ph__exec_launch *launch = ph__exec_launch_acquire(exec);
    if (!launch)
        return PH__R_OUT_OF_MEMORY;
    int result = ph__exec_acquire_markers(launch, stream);
    if (!result)
        result = wait_for_last(exec, stream);
    if (!result && exec->dirty_count > 0 && !ph__exec_prepare_image(exec, launch))
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
    int result = prepare_launch(exec, stream, out);
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

static int launch_exec(ph__host_exec *exec, ph__host_stream *stream)
{
    ph__exec_launch *launch;
    bool here = false;
    int result = ph__host_stream_enter(stream);
    if (result)
        return result;
    ph__exec_upload_first(exec);
    pthread_mutex_lock(&exec->lock);
    result = launch_locked(exec, stream, &launch, &here);
    pthread_mutex_unlock(&exec->lock);
    if (here) {
        ph__driver_enter_inline();
        run_launch(launch, NULL);
        ph__driver_leave_inline();
        finish_launch(launch);
        ph__host_stream_leave_inline(stream);
    }
    return result;
}

int ph__host_exec_launch(ph__drv_exec *exec_handle, ph__drv_stream *stream_handle)
{
    ph__host_exec *exec = (ph__host_exec *)exec_handle;
    ph__host_stream *stream = (ph__host_stream *)stream_handle;
    int result = check_handles(exec, stream);
    if (!result)
        result = apply_launch_rules(stream);
    return result ? result : launch_exec(exec, stream);
}

static bool is_capturing(ph__host_stream *stream)
{
    ph__host_device *device = stream->device;
    if (atomic_load_explicit(&device->open_captures, memory_order_acquire) == 0)
        return false;
    pthread_mutex_lock(&device->capture_lock);
    bool capturing = stream->capture != NULL;
    pthread_mutex_unlock(&device->capture_lock);
    return capturing;
}

/* A capture that begins now begins behind the launch, and is no business of the rules. */
int ph__host_exec_relaunch(ph__drv_exec *exec_handle, ph__drv_stream *stream_handle, bool foreign,
                           bool *launched)
{
    ph__host_exec *exec = (ph__host_exec *)exec_handle;
    ph__host_stream *stream = (ph__host_stream *)stream_handle;
    (void)foreign; /* all captures are this driver's */
    *launched = false;
    int result = check_handles(exec, stream);
    if (result || stream->is_legacy || is_capturing(stream))
        return result;
    *launched = true;
    result = ph__host_rule_stream(stream, PH__RULE_COUNT, PH__RULE_EXEC_LAUNCH_OTHER);
    return result ? result : launch_exec(exec, stream);
}

static int upload_exec(ph__host_exec *exec, ph__host_stream *stream)
{
    int result = check_handles(exec, stream);
    if (result)
        return result;
    if (stream->is_legacy)
        return ph__host_rule_legacy(stream->device, PH__RULE_EXEC_UPLOAD_LEGACY_BLOCKING);
    result =
        ph__host_rule_stream(stream, PH__RULE_EXEC_UPLOAD_CAPTURING, PH__RULE_EXEC_UPLOAD_OTHER);
    if (result)
        ph__driver_set_reason("an upload cannot be captured");
    else
        atomic_fetch_add(&exec->uploads, 1);
    return result;
}

/* The host device has no other place to put executables: it is where they run. */
int ph__host_exec_upload(ph__drv_exec *const *execs, size_t count, ph__drv_stream *stream)
{
    int result = execs ? PH__R_OK : PH__R_INVALID_VALUE;
    for (size_t i = 0; i < count && result == PH__R_OK; i++)
        result = upload_exec((ph__host_exec *)execs[i], (ph__host_stream *)stream);
    return result;
}

uint64_t ph__host_exec_uploads(ph__drv_exec *handle)
{
    ph__host_exec *exec = (ph__host_exec *)handle;
    return exec ? atomic_load(&exec->uploads) : 0;
}
