/* SPDX-License-Identifier: MIT */
/* device/annotate/annotate.h: the scopes of threads, and the marks that annotated captures keep
 * of them. */
#ifndef PH_DEVICE_ANNOTATE_ANNOTATE_H
#define PH_DEVICE_ANNOTATE_ANNOTATE_H
#include "base/text.h"
#include "device/device.h"
#include <phonograph/annotation.h>

/* The pairs of all scopes that were open at once, merged, the innermost's where several have a
 * key. Immutable, counted; one allocation. */
struct ph_annotation_scope {
    atomic_uint references;
    uint64_t era; /* ph_clear_kernel_annotations begins a new one */
    size_t count; /* never 0: no pairs is NULL */
    ph_annotation_pair pairs[];
};
ph__annotation *ph__annotation_retain(ph__annotation *annotation); /* takes NULL, as release does */
void ph__annotation_release(ph__annotation *annotation);
/* inner's pairs over outer's: one of the two, retained, where that is enough. Either may be
 * NULL. */
ph_status ph__annotation_merge(ph__annotation **out, ph__annotation *outer, ph__annotation *inner,
                               const char *call);
/* The value of the key "name", where that is a text; else "". */
const char *ph__annotation_name(const ph__annotation *annotation);

/* ---- pairs.c ---- same: key, type and value, reals to the bit. JSON: a member of the object
 * that is open; of all of them, a member "annotation". Text: "key=value", as it is. */
bool ph__pair_same(const ph_annotation_pair *a, const ph_annotation_pair *b);
void ph__pair_to_json(ph__json *json, const ph_annotation_pair *pair);
void ph__pairs_to_json(ph__json *json, const ph_annotation_pair *pairs, size_t count);
void ph__pair_to_text(ph__text *text, const ph_annotation_pair *pair);

/* ---- marks ---- from the node of that number on (in order of creation) the nodes of a capture
 * have this annotation. */
typedef struct ph__mark_at {
    uint64_t from;              /* the driver's capture_position, until settled */
    ph__annotation *annotation; /* NULL: none */
} ph__mark_at;
/* The node of that number is a graph that was replayed into the capture, whose own capture was
 * annotated so. */
typedef struct ph__mark_nested {
    uint64_t at; /* the position behind it, until settled */
    ph__marks *marks;
} ph__mark_nested;
/* Of one annotated capture. Changes while that is open, under the lock of annotate.c; immutable
 * from then on. */
struct ph__marks {
    atomic_uint references;
    PH__VEC(ph__mark_at) changes; /* ascending */
    PH__VEC(ph__mark_nested) nested;
    uint64_t thread; /* whose scopes the last change is of */
    uint64_t serial; /* of its scope */
    bool shared;     /* several threads have submitted */
};
ph__marks *ph__marks_retain(ph__marks *marks); /* takes NULL, as release does */
void ph__marks_release(ph__marks *marks);
/* The capture has begun at the driver (false: no host memory), and is about to end there. close
 * leaves capture->marks, which is the caller's to release. Nothing for captures that are not
 * annotated. */
bool ph__marks_open(ph__capture *capture);
void ph__marks_close(ph__capture *capture);
/* The capture has become this graph, whose nodes were listed: positions become numbers of nodes. */
void ph__marks_settle(ph__marks *marks, const ph_device *device, ph__drv_graph *graph);

/* ---- submissions ---- around the recording of one node by this library: the node gets what is
 * open on the calling thread, also when another thread was the last to submit. After a failure
 * nothing is to be submitted, and there is no leave. What others submit to a capture counts as
 * of the thread that submitted to it through this library, or opened a scope, last. */
typedef struct ph__ambient {
    struct ph__scope *top; /* NULL: none is open */
    uint64_t serial;       /* of it, unique in the process; 0: none */
    size_t depth;
} ph__ambient;
/* Of the calling thread's scopes, borrowed: 0 is the innermost, 1 the one around it, and so on
 * to depth - 1. */
ph__annotation *ph__scope_at(size_t outwards);
extern _Thread_local ph__ambient ph__thread_ambient __attribute__((visibility("hidden")));
/* of all annotated captures that are open; UINT64_MAX: they differ */
extern _Atomic uint64_t ph__marks_serial;
extern atomic_uint ph__marks_count; /* of these captures */
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

/* Scopes that are opened from now on are of a new era; what older ones give to work that comes
 * later is void. */
void ph__annotations_forget(void);
#endif
