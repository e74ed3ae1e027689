/* SPDX-License-Identifier: MIT */
/* phonograph/stream.h: streams and events: ordered queues of work, and the marks that order them
 * against each other. */
#ifndef PHONOGRAPH_STREAM_H
#define PHONOGRAPH_STREAM_H
#include <phonograph/device.h>

PH_BEGIN_DECLS

typedef struct ph_event ph_event;

typedef struct ph_stream_options {
    /* 0 is the lowest; negative is higher; clamped to what the device has (ph_device_info). A
     * hint: the host device keeps and reports it, and runs every stream on a thread of its own */
    int priority;
    /* ordered against the device's legacy default stream (CUDA's plain streams); the default is
     * not */
    bool blocking;
    uint64_t reserved[4];
} ph_stream_options;

/* Work on one stream runs in order, asynchronously to the caller and to other streams. create is
 * legal in a capture. destroy: takes NULL; work already submitted completes; a capture that
 * began on it is aborted. Streams are thread-safe, but the order of two threads' submissions is
 * up to them. */
PH_CALL ph_stream_create(ph_stream **out, ph_device *device, const ph_stream_options *options);
PH_API void ph_stream_destroy(ph_stream *stream);
PH_API ph_device *ph_stream_device(const ph_stream *stream); /* borrowed; NULL for NULL */
PH_API int ph_stream_priority(const ph_stream *stream);

/* Waits until the stream's work is done. Blocks. In a capture: refused (CAPTURE, 900) on the
 * capturing stream in every mode, on other streams by the rules of
 * docs/reference/capture-rules.md. A failed kernel or host function shows here (DEVICE). */
PH_CALL ph_stream_synchronize(ph_stream *stream);

/* *done: all submitted work has completed. Refused like synchronize. */
PH_CALL ph_stream_query(bool *done, ph_stream *stream);

/* The capture that the stream is in. Legal in every state, never disturbs a capture. */
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

/* Zero: no timing, as the cheapest. */
typedef struct ph_event_options {
    bool timing; /* takes times: ph_event_elapsed */
    /* records and waits in a capture become event nodes (of the world outside the graph), not
     * dependencies */
    bool external;
    uint64_t reserved[4];
} ph_event_options;

/* create and destroy are legal in a capture. destroy takes NULL; submitted records and waits
 * keep what they need, and graphs the external events that are nodes of them (of a capture that
 * this library did not begin, an external event is the user's to keep). Thread-safe. */
PH_CALL ph_event_create(ph_event **out, ph_device *device, const ph_event_options *options);
PH_API void ph_event_destroy(ph_event *event);

/* Records the work submitted to stream so far. On a capturing stream: marks the stream's current
 * nodes, for forks and joins; an external event becomes a node instead. A second record replaces
 * the first. WRONG_DEVICE for streams of another device. */
PH_CALL ph_event_record(ph_event *event, ph_stream *stream);

/* Makes later work on stream wait for the recorded work. An event recorded in a capture pulls
 * stream into that capture (a fork), or adds a dependency (a join). Refused: an event of another
 * capture (CAPTURE, 902), an event recorded before the capture on a stream outside it, waited
 * for on a capturing stream (CAPTURE, 905), the legacy default stream as the waiter (CAPTURE,
 * 906), an event of a capture that is over (CAPTURE, 907). WRONG_DEVICE for an event of another
 * device. An event that was never recorded is no wait; but an external one waited for on a
 * capturing stream becomes a node in any case, and each replay waits for what was recorded last
 * when it is launched. */
PH_CALL ph_stream_wait_event(ph_stream *stream, ph_event *event);

/* stream waits for all that was submitted to `other` so far: an event recorded and waited for in
 * one call. */
PH_CALL ph_stream_wait_stream(ph_stream *stream, ph_stream *other);

/* *done: the recorded work has completed (or nothing was recorded). An event recorded in a
 * capture: CAPTURE, 907, also when that is over. An external one, whose record in a capture is a
 * node, and every other event: refused (CAPTURE, 900) while a capture is open whose mode does not
 * allow it (docs/reference/capture-rules.md). */
PH_CALL ph_event_query(bool *done, ph_event *event);
/* Waits until query would say so: blocks. Refused like query. */
PH_CALL ph_event_synchronize(ph_event *event);

/* Milliseconds between two completed timing events. STATE when one was not recorded or is not
 * complete; ARGUMENT without timing; CAPTURE, 907 for one recorded in a capture; WRONG_DEVICE
 * for events of two devices. Thread-safe, legal in a capture. */
PH_CALL ph_event_elapsed(float *milliseconds, ph_event *start, ph_event *end);

PH_END_DECLS
#endif
