/* SPDX-License-Identifier: MIT */
/* driver/host/resource/rules.c: the capture rules applied to the open captures of a device, and the
 * thread's capture mode. */
#include "driver/host/resource/rules.h"
#include "driver/host/stream/entries.h"
#include "driver/suspects.h"

/* One mode for all devices of the process, as CUDA has it. */
static _Thread_local ph_capture_mode thread_mode = PH_CAPTURE_GLOBAL;

ph_capture_mode ph__host_thread_mode(void)
{
    return thread_mode;
}

int ph__host_thread_exchange_mode(ph__drv_device *device, ph_capture_mode *mode)
{
    (void)device;
    if (!mode || (unsigned)*mode > PH_CAPTURE_RELAXED)
        return PH__R_INVALID_VALUE;
    ph_capture_mode previous = thread_mode;
    thread_mode = *mode;
    *mode = previous;
    return PH__R_OK;
}

ph__host_capture *ph__host_capture_find(ph__host_device *device, uint64_t id)
{
    for (size_t i = 0; i < device->captures.count; i++) {
        if (device->captures.at[i]->id == id)
            return device->captures.at[i];
    }
    return NULL;
}

void ph__host_capture_invalidate(ph__host_capture *capture, int number, const char *call,
                                 const char *what)
{
    if (capture->killed)
        return;
    ph__suspect_note(capture->id, call, number, what);
    capture->killed = number;
    capture->killer = call;
    capture->killer_what = what;
}

int ph__host_capture_dead(const ph__host_capture *capture)
{
    bool what = capture->killer_what[0] != '\0';
    ph__driver_set_reason("the capture was invalidated by %s%s%s%s, which is %d", capture->killer,
                          what ? " (" : "", capture->killer_what, what ? ")" : "", capture->killed);
    return PH__R_CAPTURE_INVALIDATED;
}

int ph__host_capture_apply(ph__host_capture *capture, ph__rule rule)
{
    int number =
        ph__rule_driver(rule, capture->thread == ph__thread_id(), capture->mode, thread_mode);
    if (number == PH__ALLOWED || number == PH__RECORDED)
        return 0;
    if (number >= PH__KEEPS)
        return number % PH__KEEPS;
    ph__host_capture_invalidate(capture, number, ph__rules[rule].driver_call, ph__rules[rule].what);
    return number;
}

/* own to the capture `mine`, other to the rest; PH__RULE_COUNT: no rule. */
static int apply_all(ph__host_device *device, const ph__host_capture *mine, ph__rule own,
                     ph__rule other)
{
    int own_number = 0, other_number = 0;
    for (size_t i = 0; i < device->captures.count; i++) {
        ph__host_capture *capture = device->captures.at[i];
        ph__rule rule = capture == mine ? own : other;
        if (rule == PH__RULE_COUNT)
            continue;
        int number = ph__host_capture_apply(capture, rule);
        int *first = capture == mine ? &own_number : &other_number;
        if (*first == 0)
            *first = number;
    }
    return own_number ? own_number : other_number;
}

static bool none_open(ph__host_device *device)
{
    return atomic_load_explicit(&device->open_captures, memory_order_acquire) == 0;
}

int ph__host_rule_captures(ph__host_device *device, ph__rule rule)
{
    pthread_mutex_lock(&device->capture_lock);
    int number = apply_all(device, NULL, PH__RULE_COUNT, rule);
    pthread_mutex_unlock(&device->capture_lock);
    return number;
}

int ph__host_rule_stream(ph__host_stream *stream, ph__rule own, ph__rule other)
{
    ph__host_device *device = stream->device;
    if (none_open(device))
        return 0;
    pthread_mutex_lock(&device->capture_lock);
    int number = apply_all(device, stream->capture, own, other);
    pthread_mutex_unlock(&device->capture_lock);
    return number;
}

int ph__host_rule_event(ph__host_event *event, ph__rule own, ph__rule other)
{
    ph__host_device *device = event->device;
    if (none_open(device) && event->capture_id == 0)
        return 0;
    pthread_mutex_lock(&device->capture_lock);
    const ph__host_capture *mine = NULL;
    int over = 0;
    if (event->capture_id != 0) {
        mine = ph__host_capture_find(device, event->capture_id);
        over = mine ? 0 : PH__R_CAPTURED_EVENT;
    }
    int number = apply_all(device, mine, own, other);
    pthread_mutex_unlock(&device->capture_lock);
    return over ? over : number;
}

static bool has_blocking_stream(const ph__host_capture *capture)
{
    for (size_t i = 0; i < capture->streams.count; i++) {
        if (!(capture->streams.at[i]->flags & PH__STREAM_NON_BLOCKING))
            return true;
    }
    return false;
}

int ph__host_rule_legacy(ph__host_device *device, ph__rule rule)
{
    if (none_open(device))
        return 0;
    int first = 0;
    pthread_mutex_lock(&device->capture_lock);
    for (size_t i = 0; i < device->captures.count; i++) {
        if (!has_blocking_stream(device->captures.at[i]))
            continue;
        int number = ph__host_capture_apply(device->captures.at[i], rule);
        if (first == 0)
            first = number;
    }
    pthread_mutex_unlock(&device->capture_lock);
    return first;
}
