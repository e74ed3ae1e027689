/* SPDX-License-Identifier: MIT */
/* device/capture/refuse.c: the public column of the capture rules: refusing a call before it
 * reaches the driver, so that captures survive. */
#include "device/capture/refuse.h"
#include "base/sync.h"
#include "device/handles/captures.h"
#include "device/handles/device.h"
#include "device/handles/drivers.h"
#include <limits.h>
#include <string.h>

const char *ph__capture_mode_name(ph_capture_mode mode)
{
    static const char *const names[] = {"global", "thread_local", "relaxed"};
    return names[mode];
}

/* The remedy for the caller, by the number of the error. */
static const char *find_remedy(ph__rule rule, int number, bool same_thread)
{
    switch (number) {
    case PH__R_CAPTURE_MERGE:
        return "a stream can be in one capture only: end one of them first";
    case PH__R_CAPTURE_ISOLATION:
        return "the work that it waits for is not in the capture: wait before the capture begins, "
               "or use an "
               "external event";
    case PH__R_CAPTURE_IMPLICIT:
        return "the legacy default stream is ordered against blocking streams: capture on a "
               "non-blocking "
               "stream, or submit this to "
               "another stream";
    case PH__R_CAPTURED_EVENT:
        return "an event recorded in a capture never completes: it orders nodes of the graph; use "
               "an "
               "external event to see replays";
    default:
        break;
    }
    if (rule == PH__RULE_COPY_PAGEABLE_CAPTURING)
        return "use pinned memory (ph_malloc_pinned), or copy outside the capture";
    if (ph__rules[rule].public_[0][PH_CAPTURE_RELAXED] > 0)
        return "no capture mode allows it: do it before the capture begins or after it has ended";
    return ph__rules[rule].public_[same_thread ? 0 : 1][PH_CAPTURE_THREAD_LOCAL] > 0
               ? "do it before the capture begins or after it has ended, or capture in mode "
                 "relaxed "
                 "(ph_capture_options.mode)"
               : "do it before the capture begins or after it has ended, or capture in mode "
                 "thread_local or relaxed (ph_capture_options.mode)";
}

static ph_status refuse_own(ph__rule rule, int number, const ph__capture *capture, bool same_thread)
{
    const ph__rule_row *row = &ph__rules[rule];
    return ph__fail_native(
        PH_ERROR_CAPTURE, number, row->driver_call,
        "%s%s%s%s: not permitted while a %s capture (id %llu, begun by %s thread) is "
        "open: %d, %s; refused before it could harm the capture; "
        "%s",
        row->public_call, row->what[0] ? " (" : "", row->what, row->what[0] ? ")" : "",
        ph__capture_mode_name(capture->mode), (unsigned long long)capture->id,
        same_thread ? "this" : "another", number, ph__result_name(number),
        find_remedy(rule, number, same_thread));
}

static ph_status refuse_foreign(ph__rule rule, int number, uint64_t capture_id)
{
    const ph__rule_row *row = &ph__rules[rule];
    return ph__fail_native(
        PH_ERROR_CAPTURE, number, row->driver_call,
        "%s%s%s%s: not permitted in a capture that this library did not begin (id %llu): %d, "
        "%s; refused before it could harm the capture; %s",
        row->public_call, row->what[0] ? " (" : "", row->what, row->what[0] ? ")" : "",
        (unsigned long long)capture_id, number, ph__result_name(number),
        find_remedy(rule, number, true));
}

/* The calling thread's mode as this library exchanged it. */
static _Thread_local ph_capture_mode thread_mode = PH_CAPTURE_GLOBAL;

ph_status ph_thread_exchange_capture_mode(ph_capture_mode *mode)
{
    static const char call[] = "ph_thread_exchange_capture_mode";
    if (!mode)
        return ph__fail_null(call, "mode");
    if (*mode > PH_CAPTURE_RELAXED)
        return ph__fail_native(PH_ERROR_ARGUMENT, PH__R_INVALID_VALUE,
                               PH__NAME_THREAD_EXCHANGE_STREAM_CAPTURE_MODE,
                               "%s: %d is no capture mode", call, (int)*mode);
    ph_capture_mode previous = thread_mode;
    thread_mode = *mode;
    /* Calls that the public rules allow must be allowed below, too. The mode is the thread's: no
     * device is named. */
    for (size_t i = 0; ph__drivers[i]; i++) {
        ph_capture_mode below = *mode;
        (void)ph__drivers[i]->thread_exchange_mode(NULL, &below);
    }
    *mode = previous;
    return PH_OK;
}

void ph__relaxed_begin(ph_device *device, ph_capture_mode *saved)
{
    *saved = PH_CAPTURE_RELAXED;
    (void)device->driver->thread_exchange_mode(device->handle, saved);
}

void ph__relaxed_end(ph_device *device, ph_capture_mode saved)
{
    (void)device->driver->thread_exchange_mode(device->handle, &saved);
}

ph_status ph__rule_check(ph_device *device, ph__rule rule)
{
    if (atomic_load_explicit(&device->open_captures, memory_order_acquire) == 0)
        return PH_OK;
    uint64_t me = ph__thread_id();
    int number = 0;
    bool same_thread = false;
    ph__capture found;
    memset(&found, 0, sizeof found);
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count && number == 0; i++) {
        const ph__capture *capture = device->captures.at[i];
        same_thread = capture->owner_thread == me;
        int outcome = ph__rule_public(rule, same_thread, capture->mode, thread_mode);
        if (outcome > 0) {
            number = outcome % PH__KEEPS;
            found.id = capture->id;
            found.mode = capture->mode;
        }
    }
    pthread_mutex_unlock(&device->capture_lock);
    return number == 0 ? PH_OK : refuse_own(rule, number, &found, same_thread);
}

ph_status ph__rule_refuse(ph_device *device, ph__rule rule, uint64_t capture_id)
{
    uint64_t me = ph__thread_id();
    bool same_thread = true, ours = false;
    ph__capture found;
    memset(&found, 0, sizeof found);
    found.id = capture_id;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count; i++) {
        if (device->captures.at[i]->id != capture_id)
            continue;
        ours = true;
        found.mode = device->captures.at[i]->mode;
        same_thread = device->captures.at[i]->owner_thread == me;
    }
    pthread_mutex_unlock(&device->capture_lock);
    int outcome = ph__rules[rule].public_[same_thread ? 0 : 1][found.mode];
    int number = outcome > 0 ? outcome % PH__KEEPS : PH__R_CAPTURE_UNSUPPORTED;
    return ours ? refuse_own(rule, number, &found, same_thread)
                : refuse_foreign(rule, number, capture_id);
}
