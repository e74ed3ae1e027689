/* SPDX-License-Identifier: MIT */
/* device/annotate/marks.c: the marks that annotated captures keep of the scopes of threads. */
#include "device/annotate/marks.h"
#include "base/alloc.h"
#include "base/fork.h"
#include "device/annotate/ambient.h"
#include "device/annotate/annotation.h"
#include "device/handles/device.h"
#include "device/handles/hold.h"

/* All annotated captures that are open in the process. The lock is held across short questions
 * of drivers, and comes before capture_lock. */
static struct {
    pthread_mutex_t lock;
    PH__VEC(ph__capture *) open;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};
_Atomic uint64_t ph__marks_serial;
atomic_uint ph__marks_count, ph__marks_reported;

/* ---- the marks of one capture ---- */
ph__marks *ph__marks_retain(ph__marks *marks)
{
    if (marks)
        atomic_fetch_add_explicit(&marks->references, 1, memory_order_relaxed);
    return marks;
}

void ph__marks_release(ph__marks *marks)
{
    if (marks == NULL ||
        atomic_fetch_sub_explicit(&marks->references, 1, memory_order_acq_rel) != 1)
        return;
    for (size_t i = 0; i < marks->changes.count; i++)
        ph__annotation_release(marks->changes.at[i].annotation);
    for (size_t i = 0; i < marks->nested.count; i++)
        ph__marks_release(marks->nested.at[i].marks);
    ph__vec_free(&marks->changes);
    ph__vec_free(&marks->nested);
    ph__free(marks);
}

/* The scopes in force in all captures, so that a submission by the thread that was the last one
 * need not look further. */
static void refresh_serial(void)
{
    uint64_t serial = 0;
    for (size_t i = 0; i < all.open.count; i++) {
        const ph__marks *marks = all.open.at[i]->marks;
        bool same = !marks->shared && (i == 0 || marks->serial == serial);
        serial = same ? marks->serial : UINT64_MAX;
        if (!same)
            break;
    }
    atomic_store_explicit(&ph__marks_serial, serial, memory_order_release);
}

static void count_open_captures(void)
{
    unsigned reported = 0;
    for (size_t i = 0; i < all.open.count; i++)
        reported += all.open.at[i]->scope != NULL;
    atomic_store(&ph__marks_reported, reported);
    atomic_store(&ph__marks_count, (unsigned)all.open.count);
}

bool ph__marks_open(ph__capture *capture)
{
    if (!capture->annotated)
        return true;
    ph__marks *marks = ph__calloc(1, sizeof *marks);
    if (marks == NULL)
        return false;
    atomic_init(&marks->references, 1);
    marks->thread = ph__thread_id();
    marks->serial = ph__thread_ambient.serial;
    ph__annotation *annotation = ph__scope_annotation();
    uint64_t start = 0;
    int result = capture->device->driver->capture_position(&start, capture->stream->handle);
    pthread_mutex_lock(&all.lock);
    bool opened =
        result != PH__R_OUT_OF_MEMORY &&
        (annotation == NULL || ph__vec_push(&marks->changes, ((ph__mark_at){start, annotation}))) &&
        ph__vec_push(&all.open, capture);
    if (opened) {
        capture->marks = marks;
        (void)ph__annotation_retain(annotation);
        refresh_serial();
        count_open_captures();
    }
    pthread_mutex_unlock(&all.lock);
    if (!opened) {
        ph__vec_free(&marks->changes);
        ph__free(marks);
    }
    return opened;
}

/* The parent's captures: none of them is open here. */
static void forget_open_captures(void)
{
    all.open.count = 0;
    refresh_serial();
    count_open_captures();
}
PH__FORK_PART(.order = PH__FORK_MARKS, .lock = &all.lock, .child = forget_open_captures)

void ph__marks_close(ph__capture *capture)
{
    if (capture->marks == NULL)
        return;
    pthread_mutex_lock(&all.lock);
    for (size_t i = 0; i < all.open.count; i++)
        if (all.open.at[i] == capture)
            all.open.at[i] = all.open.at[--all.open.count];
    if (all.open.count == 0)
        ph__vec_free(&all.open);
    refresh_serial();
    count_open_captures();
    pthread_mutex_unlock(&all.lock);
}

/* ---- marking ---- under the lock ---- */
/* 401 and 901: the capture is over or dead, whose end says so. */
static ph_status find_position(uint64_t *position, const ph__capture *capture, const char *call)
{
    ph__stream_hold(capture->stream);
    int result = capture->device->driver->capture_position(position, capture->stream->handle);
    ph__stream_unhold(capture->stream);
    if (result == PH__R_ILLEGAL_STATE || result == PH__R_CAPTURE_INVALIDATED) {
        *position = UINT64_MAX;
        return PH_OK;
    }
    if (ph__result_is_host_memory(result))
        return ph__fail_host_memory(call, "the annotations of the capture");
    return result == PH__R_OK ? PH_OK
                              : ph__driver_fail(result, PH__NAME_STREAM_GET_CAPTURE_INFO,
                                                "%s: finding where the capture stands", call);
}

/* From the next node on it is what is open on the calling thread. */
static ph_status mark_capture(ph__capture *capture, const char *call)
{
    ph__marks *marks = capture->marks;
    ph__annotation *annotation = ph__scope_annotation();
    uint64_t position = 0;
    size_t changes = marks->changes.count;
    if (!ph__vec_reserve(&marks->changes, 1))
        return ph__fail_host_memory(call, "the annotations of the capture");
    PH_TRY(find_position(&position, capture, call));
    if (changes > 0 && marks->changes.at[changes - 1].from == position)
        ph__annotation_release(marks->changes.at[--marks->changes.count].annotation);
    if (position != UINT64_MAX)
        (void)ph__vec_push(&marks->changes,
                           ((ph__mark_at){position, ph__annotation_retain(annotation)}));
    uint64_t thread = ph__thread_id();
    marks->shared = marks->shared || marks->thread != thread;
    marks->thread = thread;
    marks->serial = ph__thread_ambient.serial;
    return PH_OK;
}

static bool is_stream_in(const ph_stream *stream, const ph__capture *capture)
{
    return stream && capture->device == stream->device &&
           ph__stream_capture_id(stream) == capture->id;
}

ph_status ph__marks_change(const ph_stream *stream, const char *call)
{
    uint64_t thread = ph__thread_id();
    ph_status status = PH_OK;
    if (atomic_load_explicit(&ph__marks_count, memory_order_relaxed) == 0)
        return PH_OK;
    pthread_mutex_lock(&all.lock);
    for (size_t i = 0; i < all.open.count && status == PH_OK; i++) {
        ph__capture *capture = all.open.at[i];
        if (capture->marks->serial != ph__thread_ambient.serial &&
            (capture->marks->thread == thread || is_stream_in(stream, capture)))
            status = mark_capture(capture, call);
    }
    refresh_serial();
    pthread_mutex_unlock(&all.lock);
    return status;
}

static ph__capture *find_open_capture(const ph_stream *stream, uint64_t capture_id)
{
    for (size_t i = 0; i < all.open.count && capture_id != 0; i++)
        if (all.open.at[i]->id == capture_id && all.open.at[i]->device == stream->device)
            return all.open.at[i];
    return NULL;
}

ph_status ph__marks_find(ph__capture **out, const ph_stream *stream, const char *call)
{
    uint64_t capture_id;
    PH_TRY(ph__stream_find_capture(&capture_id, stream, call));
    pthread_mutex_lock(&all.lock);
    *out = find_open_capture(stream, capture_id);
    pthread_mutex_unlock(&all.lock);
    return PH_OK;
}

/* ---- submissions ---- */
void ph__marks_unlock(void)
{
    pthread_mutex_unlock(&all.lock);
}

/* The lock stays held where several threads submit to the capture, so that what comes next is
 * this thread's node. */
ph_status ph__marks_submit(bool *held, ph_stream *stream, const char *call)
{
    uint64_t capture_id = ph__stream_capture_id(stream);
    ph_status status = PH_OK;
    if (capture_id == 0)
        return PH_OK;
    pthread_mutex_lock(&all.lock);
    ph__capture *capture = find_open_capture(stream, capture_id);
    if (capture && capture->marks->serial != ph__thread_ambient.serial) {
        status = mark_capture(capture, call);
        refresh_serial();
    }
    *held = capture && capture->marks->shared && status == PH_OK;
    if (!*held)
        pthread_mutex_unlock(&all.lock);
    return status;
}

ph_status ph__marks_enter_graph(ph__marks_graph *out, ph_stream *stream, ph__marks *nested,
                                const char *call)
{
    *out = (ph__marks_graph){0};
    uint64_t capture_id = ph__stream_capture_id(stream);
    if (capture_id == 0 || atomic_load(&ph__marks_count) == 0)
        return PH_OK;
    pthread_mutex_lock(&all.lock);
    ph__capture *capture = find_open_capture(stream, capture_id);
    ph_status status = PH_OK;
    if (capture && capture->marks->serial != ph__thread_ambient.serial)
        status = mark_capture(capture, call);
    if (capture && nested && status == PH_OK && !ph__vec_reserve(&capture->marks->nested, 1))
        status = ph__fail_host_memory(call, "the annotations of the capture");
    refresh_serial();
    if (capture && status == PH_OK)
        out->into = capture;
    else
        pthread_mutex_unlock(&all.lock);
    return status;
}

/* The graph is the newest node that its stream stands behind. Where that cannot be asked the
 * capture is dead, or its nodes go without the marks of theirs. */
void ph__marks_leave_graph(const ph__marks_graph *graph, ph__marks *nested, bool made)
{
    uint64_t position;
    if (graph->into == NULL)
        return;
    ph_error saved;
    ph__error_save(&saved);
    if (made && nested && find_position(&position, graph->into, "ph_graph_replay") == PH_OK &&
        position != UINT64_MAX)
        (void)ph__vec_push(&graph->into->marks->nested,
                           ((ph__mark_nested){position, ph__marks_retain(nested)}));
    ph__error_restore(&saved);
    pthread_mutex_unlock(&all.lock);
}

void ph__marks_resolve(ph__marks *marks, const ph_device *device, ph__drv_graph *graph)
{
    if (marks == NULL || marks->resolved)
        return;
    marks->resolved = true;
    for (size_t i = 0; i < marks->changes.count; i++)
        marks->changes.at[i].from =
            device->driver->graph_position(graph, marks->changes.at[i].from);
    for (size_t i = 0; i < marks->nested.count; i++)
        marks->nested.at[i].at = device->driver->graph_position(graph, marks->nested.at[i].at) - 1;
}
