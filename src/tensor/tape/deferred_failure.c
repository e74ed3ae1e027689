/* SPDX-License-Identifier: MIT */
/* tensor/tape/deferred_failure.c: captures in which a tape failed and nobody asked it: a hook at
 * their end fails them. */
#include "tensor/tape/deferred_failure.h"
#include "base/alloc.h"
#include "base/fork.h"
#include "base/status.h"
#include <phonograph/graph.h>
#include <pthread.h>
#include <stdatomic.h>

struct ph__deferred_failure {
    atomic_int references; /* the tape's, and one for each watch */
    atomic_uint reports;   /* of it */
    uint64_t capture;      /* the capture in which it was last met; only for the tape's thread */
    ph_error failure;
};

/* Of one capture. Kept by its graph until that is reset, so that whoever ends the capture finds
 * it, whatever became of the tape. */
typedef struct watch {
    ph__deferred_failure *deferred;
    bool earlier;     /* the tape had failed before the capture began */
    unsigned reports; /* before the watch: reports that say nothing of the capture */
    atomic_bool over; /* the capture was ended, or another one began behind one that was aborted */
    ph_hook *begin, *end;
} watch;

/* ph_graph_retain is not for several threads at a time, and a capture may have tapes of several. */
static pthread_mutex_t retaining = PTHREAD_MUTEX_INITIALIZER;
PH__FORK_LOCK(PH__FORK_RETAINING, retaining)

ph__deferred_failure *ph__deferred_failure_make(const ph_error *failure)
{
    ph__deferred_failure *deferred = ph__calloc(1, sizeof *deferred);
    if (!deferred)
        return NULL;
    atomic_init(&deferred->references, 1);
    atomic_init(&deferred->reports, 0);
    deferred->failure = *failure;
    return deferred;
}

void ph__deferred_failure_update(ph__deferred_failure *deferred, const ph_error *failure)
{
    if (deferred)
        deferred->failure = *failure;
}

void ph__deferred_failure_set_reported(ph__deferred_failure *deferred)
{
    if (deferred)
        atomic_fetch_add(&deferred->reports, 1);
}

void ph__deferred_failure_release(ph__deferred_failure *deferred)
{
    if (deferred && atomic_fetch_sub(&deferred->references, 1) == 1)
        ph__free(deferred);
}

/* ---- at the capture's end ---- */
/* The remedy stands behind a message that may be as long as a record has room for. */
static ph_status fail_watched_capture(const watch *w)
{
    const ph_error *failure = &w->deferred->failure;
    if (w->earlier)
        return ph__fail_native(
            failure->status, failure->native_code, failure->native_call,
            "operators did nothing in the capture, because their tape had failed before it: "
            "%.220s; the graph would lack their work; ph_tape_clear before the "
            "capture, and as the end of its body, says so",
            failure->message);
    return ph__fail_native(
        failure->status, failure->native_code, failure->native_call,
        "an operator failed in the capture, and nobody asked its tape: %.220s; the graph "
        "would lack what came after it; end the body with `return ph_tape_clear(tape)`, or "
        "give its status to ph_graph_capture_end",
        failure->message);
}

static ph_status at_end(const ph_graph_hook_info *info, void *user)
{
    watch *w = user;
    (void)info;
    if (atomic_exchange(&w->over, true) || atomic_load(&w->deferred->reports) != w->reports)
        return PH_OK;
    return fail_watched_capture(w);
}

static ph_status at_begin(const ph_graph_hook_info *info, void *user)
{
    watch *w = user;
    (void)info;
    atomic_store(&w->over, true);
    return PH_OK;
}

/* ---- in the capture ---- */
static void release_watch(void *object)
{
    watch *w = object;
    ph_graph_hook_remove(w->begin);
    ph_graph_hook_remove(w->end);
    ph__deferred_failure_release(w->deferred);
    ph__free(w);
}

static ph_status keep_watch(ph_graph *graph, watch *w)
{
    pthread_mutex_lock(&retaining);
    ph_status status = ph_graph_retain(graph, release_watch, w, false);
    pthread_mutex_unlock(&retaining);
    return status;
}

static ph_status watch_capture(ph__deferred_failure *deferred, ph_graph *graph, bool earlier)
{
    watch *w = ph__calloc(1, sizeof *w);
    if (!w)
        return ph__fail_host_memory("a failed tape", "a hook at the end of its capture");
    atomic_init(&w->over, false);
    w->deferred = deferred;
    w->earlier = earlier;
    w->reports = atomic_load(&deferred->reports);
    atomic_fetch_add(&deferred->references, 1);
    ph_status status = ph_graph_hook_add(&w->begin, graph, PH_HOOK_CAPTURE_START, at_begin, w);
    if (status == PH_OK)
        status = ph_graph_hook_add(&w->end, graph, PH_HOOK_CAPTURE_END, at_end, w);
    if (status == PH_OK)
        status = keep_watch(graph, w);
    if (status != PH_OK)
        release_watch(w);
    return status;
}

void ph__deferred_failure_watch(ph__deferred_failure *deferred, const ph_stream *stream,
                                bool earlier)
{
    ph_capture_info info;
    ph_graph *graph = NULL;
    ph_error before;
    if (!deferred)
        return;
    ph__error_save(&before);
    ph_status status = ph_stream_get_capture_info(&info, stream);
    if (status == PH_OK && info.status != PH_CAPTURE_NONE && info.id != deferred->capture) {
        status = ph_stream_capturing_graph(&graph, stream);
        if (status == PH_OK && graph)
            status = watch_capture(deferred, graph, earlier);
        if (status == PH_OK)
            deferred->capture = info.id;
    }
    ph__error_restore(&before);
}
