/* SPDX-License-Identifier: MIT */
/* device/culprit.c: naming what killed a capture, in the error record and in the log. */
#include "base/line.h"
#include "base/log.h"
#include "device/device.h"
#include "driver/suspects.h"
#include <stdio.h>
#include <string.h>

enum {
    CULPRIT_BYTES = 280, /* leaves room in a message for what was called and what to do */
    TRACE_BYTES = 4096,
    LINE_BYTES = 900 /* of a log message */
};

/* As many frames as fit the message. */
static void describe(char out[CULPRIT_BYTES], const ph__suspect *suspect)
{
    int frames = 4;
    while (frames > 0 && ph__suspect_describe(out, CULPRIT_BYTES, suspect, frames) >= CULPRIT_BYTES)
        frames--;
    if (frames == 0)
        (void)ph__suspect_describe(out, CULPRIT_BYTES, suspect, 0);
}

/* A call that failed for reasons of its own, or of the capture's being dead already, is not accused. */
static bool blame(ph__suspect *out, const ph__capture *capture)
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
    if (!blame(&suspect, capture))
        return ph__driver_fail(PH__R_CAPTURE_INVALIDATED, PH__NAME_STREAM_END_CAPTURE,
                               "%s: a call that is illegal in a capture has invalidated it; %s", call, after);
    describe(culprit, &suspect);
    ph__driver_clear_reason();
    return ph__fail_native(PH_ERROR_CAPTURE, suspect.result, suspect.call,
                           "%s: the capture was killed (901) by %s; %s", call, culprit, after);
}

/* What of an open capture a blame needs: it may end on another thread meanwhile. */
static bool copy_open(ph__capture *out, ph_device *device, uint64_t capture_id)
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

ph_status ph__stream_fail(int result, const ph_stream *stream, const char *driver_call, const char *format,
                          ...)
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
        !copy_open(&capture, stream->device, ph__stream_capture_id(stream)) || !blame(&suspect, &capture))
        return ph__driver_fail(result, driver_call, "%s", what);
    describe(culprit, &suspect);
    ph__driver_clear_reason();
    return ph__fail_native(PH_ERROR_CAPTURE, result, driver_call,
                           "%s: the stream's capture is dead (901), killed by %s; end or abort it", what,
                           culprit);
}

/* A log message holds one line of some length: a long backtrace goes on in further ones, cut between
 * frames. */
static void log_trace(uint64_t capture_id, const char *trace)
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
                at == 0 ? "was killed by" : "(on)", (int)part, trace + at);
        at += part;
    }
}

void ph__capture_report(ph__capture *capture)
{
    ph__suspect suspect;
    char trace[TRACE_BYTES];
    if (!blame(&suspect, capture) || atomic_exchange(&capture->reported, true))
        return;
    (void)ph__suspect_describe(trace, sizeof trace, &suspect, PH__SUSPECT_FRAMES);
    log_trace(capture->id, trace);
}
