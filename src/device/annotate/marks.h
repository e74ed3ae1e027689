/* SPDX-License-Identifier: MIT */
/* device/annotate/marks.h: the marks that annotated captures keep of the scopes of threads. */
#ifndef PH_DEVICE_ANNOTATE_MARKS_H
#define PH_DEVICE_ANNOTATE_MARKS_H
#include "base/vec.h"
#include "device/annotate/ambient.h"
#include "device/annotate/annotation.h"
#include "device/handles/captures.h"

/* From the node of that number on (in order of creation) the nodes of a capture have this
 * annotation. */
typedef struct ph__mark_at {
    uint64_t from;              /* the driver's capture_position, until resolved */
    ph__annotation *annotation; /* NULL: none */
} ph__mark_at;
/* The node of that number is a graph that was replayed into the capture, whose own capture was
 * annotated so. */
typedef struct ph__mark_nested {
    uint64_t at; /* the position behind it, until resolved */
    ph__marks *marks;
} ph__mark_nested;
/* Of one annotated capture. Changes while that is open, under the lock of marks.c; immutable
 * from then on, but that it is resolved before others have it. */
struct ph__marks {
    atomic_uint references;
    PH__VEC(ph__mark_at) changes; /* ascending */
    PH__VEC(ph__mark_nested) nested;
    uint64_t thread; /* whose scopes the last change is of */
    uint64_t serial; /* of its scope */
    bool shared;     /* several threads have submitted */
    bool resolved;   /* positions are numbers of nodes */
};
ph__marks *ph__marks_retain(ph__marks *marks); /* takes NULL, as release does */
void ph__marks_release(ph__marks *marks);
/* The capture has begun at the driver (false: no host memory), and is about to end there. close
 * leaves capture->marks, which is the caller's to release. Nothing for captures that are not
 * annotated. */
bool ph__marks_open(ph__capture *capture);
void ph__marks_close(ph__capture *capture);
/* The capture has become this graph, whose nodes were listed: positions become numbers of nodes,
 * once. */
void ph__marks_resolve(ph__marks *marks, const ph_device *device, ph__drv_graph *graph);

/* Reports that the open scopes of the calling thread have changed, to the captures that it was the
 * last to submit to, and to the one that the stream is in. stream NULL: only to the captures of the
 * thread. */
ph_status ph__marks_change(const ph_stream *stream, const char *call);
/* The annotated capture that the stream is in, NULL: there is none. It is open as long as its
 * user leaves it so. */
ph_status ph__marks_find(ph__capture **out, const ph_stream *stream, const char *call);
/* annotated captures that are open and have a function for scopes */
extern atomic_uint ph__marks_reported;

/* of all annotated captures that are open; UINT64_MAX: they differ */
extern _Atomic uint64_t ph__marks_serial;
extern atomic_uint ph__marks_count; /* of these captures */

/* Around the recording of one node by this library:
 * - The node gets what is open on the calling thread, also when another thread was the last to
 *   submit.
 * - After a failure nothing is to be submitted, and there is no leave.
 * - Nodes that others submit to a capture count as of the thread that submitted to it through this
 *   library, or opened a scope, last. */
ph_status ph__marks_submit(bool *held, ph_stream *stream, const char *call);
void ph__marks_unlock(void);
static inline ph_status ph__marks_enter(bool *held, ph_stream *stream, const char *call)
{
    *held = false;
    if (atomic_load_explicit(&ph__marks_count, memory_order_relaxed) == 0 ||
        atomic_load_explicit(&ph__marks_serial, memory_order_relaxed) == ph__thread_ambient.serial)
        return PH_OK;
    return ph__marks_submit(held, stream, call);
}
static inline void ph__marks_leave(bool held)
{
    if (held)
        ph__marks_unlock();
}
/* The same around a graph that becomes one node, with the marks of its own capture (NULL: it has
 * none). made: it has become one. */
typedef struct ph__marks_graph {
    const ph__capture *into; /* NULL: the capture is not annotated, and nothing is held */
} ph__marks_graph;
ph_status ph__marks_enter_graph(ph__marks_graph *out, ph_stream *stream, ph__marks *nested,
                                const char *call);
void ph__marks_leave_graph(const ph__marks_graph *graph, ph__marks *nested, bool made);
#endif
