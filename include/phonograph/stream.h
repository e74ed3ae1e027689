/* SPDX-License-Identifier: MIT */
/* phonograph/stream.h: streams, the ordered queues of work, and events, which order streams against
 * each other. */
#ifndef PHONOGRAPH_STREAM_H
#define PHONOGRAPH_STREAM_H
#include <phonograph/device.h>

PH_BEGIN_DECLS

typedef struct ph_event ph_event;

typedef struct ph_stream_options {
    /* Priority: 0 is the lowest, negative is higher, clamped to the range of the device
     * (ph_device_info). A hint: the host device reports it, but runs every stream on a thread of
     * its own. */
    int priority;
    /* ordered against the device's legacy default stream, as CUDA's plain streams; by default it is
     * not */
    bool blocking;
    uint64_t reserved[4];
} ph_stream_options;

/* Work on one stream runs in order, asynchronously to the caller and to other streams.
 * - create is legal in a capture.
 * - destroy takes NULL. Submitted work completes. A capture that began on the stream is aborted.
 * - Streams are thread-safe. The caller decides the order of submissions by two threads. */
PH_CALL ph_stream_create(ph_stream **out, ph_device *device, const ph_stream_options *options);
PH_API void ph_stream_destroy(ph_stream *stream);
/* Borrowed; NULL: there is none, or the stream was destroyed. */
PH_API ph_device *ph_stream_device(const ph_stream *stream);
PH_API int ph_stream_priority(const ph_stream *stream);

/* Waits until the stream's work is done. Blocks. In a capture: refused (CAPTURE, 900) on the
 * capturing stream in every mode, and on other streams by the rules of
 * docs/reference/capture-rules.md. Reports a failed kernel or host function (DEVICE). */
PH_CALL ph_stream_synchronize(ph_stream *stream);

/* *done: all submitted work has completed. Refused as synchronize is. */
PH_CALL ph_stream_query(bool *done, ph_stream *stream);

/* The capture that the stream is in. Legal in every state; never disturbs a capture. */
typedef enum ph_capture_status {
    PH_CAPTURE_NONE = 0,
    PH_CAPTURE_ACTIVE = 1,
    PH_CAPTURE_INVALIDATED = 2
} ph_capture_status;
typedef struct ph_capture_info {
    ph_capture_status status;
    uint64_t id; /* unique in the process, never reused; 0 when none */
    uint64_t reserved[4];
} ph_capture_info;
PH_CALL ph_stream_get_capture_info(ph_capture_info *out, const ph_stream *stream);
PH_API bool ph_stream_is_capturing(const ph_stream *stream);

/* All zero: no timing, the cheapest form. */
typedef struct ph_event_options {
    bool timing; /* for ph_event_elapsed */
    /* records and waits in a capture become event nodes, for order with work outside the graph, and
     * no dependencies */
    bool external;
    uint64_t reserved[4];
} ph_event_options;

/* create and destroy are legal in a capture. destroy takes NULL. Submitted records and waits keep
 * what they need. Graphs keep the external events of their nodes; in a capture that this library
 * did not begin, the user keeps them. Thread-safe. */
PH_CALL ph_event_create(ph_event **out, ph_device *device, const ph_event_options *options);
PH_API void ph_event_destroy(ph_event *event);

/* Records the work submitted to stream so far. On a capturing stream, it marks the stream's current
 * nodes, for forks and joins; an external event becomes a node. A second record replaces the first.
 * WRONG_DEVICE: a stream of another device. */
PH_CALL ph_event_record(ph_event *event, ph_stream *stream);

/* Later work on stream waits for the recorded work.
 * - An event that was recorded in a capture brings stream into that capture (a fork), or adds a
 *   dependency (a join).
 * - An event that was never recorded is no wait. But an external one on a capturing stream always
 *   becomes a node. Each replay then waits for the last record before its launch.
 * - CAPTURE, 902: an event of another capture.
 * - CAPTURE, 905: stream is capturing, and the event was recorded before the capture on a stream
 *   outside it.
 * - CAPTURE, 906: stream is the legacy default stream.
 * - CAPTURE, 907: an event of a capture that has ended.
 * - WRONG_DEVICE: an event of another device. */
PH_CALL ph_stream_wait_event(ph_stream *stream, ph_event *event);

/* stream waits for all work that was submitted to `other` so far, as by an event. */
PH_CALL ph_stream_wait_stream(ph_stream *stream, ph_stream *other);

/* *done: the recorded work has completed, or nothing was recorded. CAPTURE, 907: the event was
 * recorded in a capture, open or ended. CAPTURE, 900, for an external event, whose record in a
 * capture is a node, and for every other event: the mode of an open capture does not allow the call
 * (docs/reference/capture-rules.md). */
PH_CALL ph_event_query(bool *done, ph_event *event);
/* Blocks until query would report the work as done. Refused as query is. */
PH_CALL ph_event_synchronize(ph_event *event);

/* Milliseconds between two completed timing events. STATE: one was not recorded or is not complete.
 * ARGUMENT: one has no timing. CAPTURE, 907: one was recorded in a capture. WRONG_DEVICE: they are
 * of two devices. Thread-safe, legal in a capture. */
PH_CALL ph_event_elapsed(float *milliseconds, ph_event *start, ph_event *end);

PH_END_DECLS
#endif
