/* SPDX-License-Identifier: MIT */
/* device/capture/culprit.c: naming what killed a capture, in the error record and in the log. */
#include "device/capture/culprit.h"
#include "base/alloc.h"
#include "base/line.h"
#include "base/log.h"
#include "device/handles/device.h"
#include "driver/suspects.h"
#include <phonograph/foreign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    CULPRIT_BYTES = 280, /* leaves room in a message for what was called and what to do */
    TRACE_BYTES = 4096,
    LINE_BYTES = 900 /* of a log message */
};

/* As many frames as fit the message. */
static void describe_suspect(char out[CULPRIT_BYTES], const ph__suspect *suspect)
{
    int frames = 4;
    while (frames > 0 && ph__suspect_describe(out, CULPRIT_BYTES, suspect, frames) >= CULPRIT_BYTES)
        frames--;
    if (frames == 0)
        (void)ph__suspect_describe(out, CULPRIT_BYTES, suspect, 0);
}

/* A call that failed for reasons of its own, or of the capture's being dead already, is not
 * accused. */
static bool find_culprit(ph__suspect *out, const ph__capture *capture)
{
    if (!ph__suspects_blame(out, capture->suspects_since, capture->id, capture->owner_thread))
        return false;
    bool by_number = out->result == PH__R_CAPTURE_UNSUPPORTED ||
                     (out->result >= PH__R_CAPTURE_MERGE && out->result <= PH__R_CAPTURED_EVENT);
    return by_number || out->capture_id == capture->id || ph__result_is_sticky(out->result);
}

ph_status ph__capture_fail_dead(ph__capture *capture, const char *call)
{
    static const char after[] = "the stream can capture again";
    ph__suspect suspect;
    char culprit[CULPRIT_BYTES];
    if (!find_culprit(&suspect, capture))
        return ph__driver_fail(PH__R_CAPTURE_INVALIDATED, PH__NAME_STREAM_END_CAPTURE,
                               "%s: a call that is illegal in a capture has invalidated it; %s",
                               call, after);
    describe_suspect(culprit, &suspect);
    ph__driver_clear_reason();
    return ph__fail_native(PH_ERROR_CAPTURE, suspect.result, suspect.call,
                           "%s: the capture was killed (901) by %s; %s", call, culprit, after);
}

/* Copies the parts of an open capture that a blame needs: the capture may end on another thread
 * meanwhile. */
static bool copy_open_capture(ph__capture *out, ph_device *device, uint64_t capture_id)
{
    bool found = false;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count && !found; i++) {
        const ph__capture *capture = device->captures.at[i];
        found = capture_id != 0 && capture->id == capture_id;
        out->id = capture->id;
        out->owner_thread = capture->owner_thread;
        out->suspects_since = capture->suspects_since;
    }
    pthread_mutex_unlock(&device->capture_lock);
    return found;
}

ph_status ph__stream_fail(int result, const ph_stream *stream, const char *driver_call,
                          const char *format, ...)
{
    char what[160], culprit[CULPRIT_BYTES];
    ph__capture capture;
    ph__suspect suspect;
    va_list args;
    va_start(args, format);
    ph__line_vformat(what, sizeof what, format, args);
    va_end(args);
    memset(&capture, 0, sizeof capture);
    if (result != PH__R_CAPTURE_INVALIDATED ||
        !copy_open_capture(&capture, stream->device, ph__stream_capture_id(stream)) ||
        !find_culprit(&suspect, &capture))
        return ph__driver_fail(result, driver_call, "%s", what);
    describe_suspect(culprit, &suspect);
    ph__driver_clear_reason();
    return ph__fail_native(PH_ERROR_CAPTURE, result, driver_call,
                           "%s: the stream's capture is dead (901), killed by %s; end or abort it",
                           what, culprit);
}

/* ---- captures that are open and dead ---- */
typedef struct search {
    bool any, exiting; /* of any thread; those alone that nobody was told of, who is from now on */
    uint64_t thread;
    ph__capture found; /* the parts that a blame needs */
} search;

/* Under capture_lock. */
static bool is_wanted(ph__capture *capture, const search *s)
{
    ph__drv_capture seen;
    if (capture->id == 0 || capture->process != (int)getpid() ||
        (!s->any && capture->owner_thread != s->thread))
        return false;
    return capture->device->driver->capture_get(&seen, capture->stream->handle) == PH__R_OK &&
           seen.status == PH_CAPTURE_INVALIDATED &&
           !(s->exiting && atomic_exchange(&capture->reported, true));
}

static bool find_dead_capture_on(ph_device *device, search *s)
{
    bool found = false;
    if (atomic_load(&device->open_captures) == 0)
        return false;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count && !found; i++) {
        found = is_wanted(device->captures.at[i], s);
        s->found.id = device->captures.at[i]->id;
        s->found.owner_thread = device->captures.at[i]->owner_thread;
        s->found.suspects_since = device->captures.at[i]->suspects_since;
    }
    pthread_mutex_unlock(&device->capture_lock);
    return found;
}

static bool find_dead_capture(search *s)
{
    bool found = false;
    for (ph_device *device = ph__device_next_open(NULL); device;) {
        found = found || find_dead_capture_on(device, s);
        ph_device *next = ph__device_next_open(device);
        ph_device_release(device);
        device = next;
    }
    return found;
}

void ph__error_add_culprit(bool any)
{
    search s = {.any = any, .thread = ph__thread_id()};
    ph__suspect suspect;
    static const char what[] = "; the capture is dead (901), killed by ";
    char text[sizeof what + CULPRIT_BYTES];
    if (!find_dead_capture(&s) || !find_culprit(&suspect, &s.found))
        return;
    size_t room = sizeof((ph_error){0}).message - strlen(ph_error_last()->message);
    memcpy(text, what, sizeof what);
    size_t culprit = CULPRIT_BYTES;
    for (int frames = 4; frames >= 0 && (culprit >= CULPRIT_BYTES || sizeof what + culprit > room);
         frames--)
        culprit = ph__suspect_describe(text + sizeof what - 1, CULPRIT_BYTES, &suspect, frames);
    ph__error_suffix(text);
}

/* ---- captures of other code ---- */
struct ph_culprit_watch {
    ph_device *device;   /* retained */
    ph__capture capture; /* the parts that a blame needs */
};

static void count_listeners(const ph_device *device, bool begins)
{
    if (device->driver->capture_watch)
        device->driver->capture_watch(begins);
    if (begins)
        ph__suspects_open();
    else
        ph__suspects_close();
}

ph_status ph_culprit_watch_begin(ph_culprit_watch **out, ph_device *device, uint64_t capture_id)
{
    static const char call[] = "ph_culprit_watch_begin";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!device)
        return ph__fail_null(call, "device");
    PH_TRY(ph__device_check(device, call));
    if (capture_id == 0)
        return ph_fail(PH_ERROR_ARGUMENT,
                       "%s: capture_id is 0, which no capture has; ask for it with "
                       "cuStreamGetCaptureInfo behind the begin of the capture",
                       call);
    ph_culprit_watch *watch = ph__calloc(1, sizeof *watch);
    if (!watch)
        return ph__fail_host_memory(call, "the watch");
    watch->device = ph_device_retain(device);
    watch->capture.id = capture_id;
    watch->capture.owner_thread = ph__thread_id();
    count_listeners(device, true);
    watch->capture.suspects_since = ph__suspects_next();
    *out = watch;
    return PH_OK;
}

ph_status ph_culprit_watch_end(char **text, ph_culprit_watch *watch)
{
    static const char call[] = "ph_culprit_watch_end";
    char trace[TRACE_BYTES];
    ph__suspect suspect;
    if (text)
        *text = NULL;
    if (!watch)
        return ph__fail_null(call, "watch");
    bool found = text && find_culprit(&suspect, &watch->capture);
    if (found) {
        (void)ph__suspect_describe(trace, sizeof trace, &suspect, PH__SUSPECT_FRAMES);
        *text = ph__strdup(trace);
    }
    count_listeners(watch->device, false);
    ph_device_release(watch->device);
    ph__free(watch);
    return found && !*text ? ph__fail_host_memory(call, "the text") : PH_OK;
}

/* A log message holds one line of some length: a long backtrace goes on in further ones, cut
 * between frames. */
static void log_trace(uint64_t capture_id, const char *how, const char *trace)
{
    size_t length = strlen(trace), at = 0;
    while (at < length) {
        size_t part = length - at;
        if (part > LINE_BYTES) {
            part = LINE_BYTES;
            for (size_t i = part; i > LINE_BYTES / 2; i--)
                if (trace[at + i] == '<') {
                    part = i;
                    break;
                }
        }
        ph__log(PH_LOG_WARNING, "capture %llu %s %.*s", (unsigned long long)capture_id,
                at == 0 ? how : "(on)", (int)part, trace + at);
        at += part;
    }
}

void ph__capture_report(ph__capture *capture)
{
    ph__suspect suspect;
    char trace[TRACE_BYTES];
    if (!find_culprit(&suspect, capture) || atomic_exchange(&capture->reported, true))
        return;
    (void)ph__suspect_describe(trace, sizeof trace, &suspect, PH__SUSPECT_FRAMES);
    log_trace(capture->id, "was killed by", trace);
}

/* ---- the end of the process ---- by exit, as error macros of other code call it: nobody ends
 * the capture then. Registered behind the driver's own handlers, it runs before them; where the
 * library is unloaded, at that moment. Captures of a parent are not a child's. */
static _Atomic int last_process;

static void report_at_exit(void)
{
    ph__suspect suspect;
    char trace[TRACE_BYTES];
    if (atomic_load(&last_process) != (int)getpid())
        return;
    for (search s = {.any = true, .exiting = true}; find_dead_capture(&s);)
        if (find_culprit(&suspect, &s.found)) {
            (void)ph__suspect_describe(trace, sizeof trace, &suspect, PH__SUSPECT_FRAMES);
            log_trace(s.found.id, "is open as the program exits, and was killed by", trace);
        }
}

static void register_exit(void)
{
    (void)atexit(report_at_exit);
}

void ph__captures_watch_exit(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    atomic_store_explicit(&last_process, (int)getpid(), memory_order_relaxed);
    (void)pthread_once(&once, register_exit);
}
