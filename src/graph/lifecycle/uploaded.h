/* SPDX-License-Identifier: MIT */
/* graph/lifecycle/uploaded.h: the event behind uploads. */
#ifndef PH_GRAPH_LIFECYCLE_UPLOADED_H
#define PH_GRAPH_LIFECYCLE_UPLOADED_H
#include "base/sync.h"
#include "driver/types.h"
#include <phonograph/graph.h>
#include <stdatomic.h>

/* Of all graphs that were uploaded together. */
struct ph__upload_mark {
    atomic_uint holders;
    const ph_device *device; /* the holders' */
    ph__drv_event *event;
    ph__mutex lock; /* of recording the event late */
    /* retained: the event could not be recorded behind the uploads; it still has to be, on that
     * stream; NULL: it is recorded */
    _Atomic(ph_stream *) unrecorded;
};
typedef struct ph__upload_mark ph__upload_mark;

/* An event that is not recorded yet; the caller holds it. release takes NULL. */
ph_status ph__upload_mark_create(ph__upload_mark **out, const ph_device *device, const char *call);
void ph__upload_mark_release(ph__upload_mark *mark);
/* The event behind the uploads could not be recorded: the first replay that has to wait for it
 * records it, and fails where it cannot. */
void ph__upload_mark_defer(ph__upload_mark *mark, ph_stream *stream);
/* The graph was uploaded on the stream, before the event. */
void ph__upload_note(ph_graph *graph, ph__upload_mark *mark, const ph_stream *stream);
/* The stream, which is about to replay, comes after what ph_graph_upload submitted to another
 * one. */
ph_status ph__upload_wait(ph_graph *graph, const ph_stream *stream, const char *call);
/* There is no such executable any more. */
void ph__upload_drop(ph_graph *graph);
#endif
