/* SPDX-License-Identifier: MIT */
/* graph/object/graph.h: the graph object. Each file that works on it has a header of its own. */
#ifndef PH_GRAPH_OBJECT_GRAPH_H
#define PH_GRAPH_OBJECT_GRAPH_H
#include "device/annotate/marks.h"
#include "device/handles/captures.h"
#include "graph/object/hook_set.h"
#include "graph/object/input.h"
#include "graph/object/parts.h"
#include "graph/object/states.h"
#include "memory/state/allocation.h"
#include "memory/state/free_counter.h"
#include "record/record.h"
#include "record/words.h"
#include <phonograph/cells.h>
#include <phonograph/inspect/diff.h>
#include <phonograph/slots.h>

typedef struct ph__cells ph__cells;   /* cells.h */
typedef struct ph__slots ph__slots;   /* slots.h */
typedef struct ph__locate ph__locate; /* locate.h */
typedef struct ph__deferred_record ph__deferred_record;
typedef struct ph__changes ph__changes;         /* change/changes.h */
typedef struct ph__collectives ph__collectives; /* object/collectives.h */
typedef struct ph__brought ph__brought;         /* inputs/brought.h */
typedef struct ph__segments ph__segments;       /* object/segments.h */

struct ph_graph {
    /* The members that every replay reads stand together: within 128 bytes. */
    ph_graph_state state;
    bool liveness;
    unsigned busy;          /* hooks of it that are running */
    uint64_t epoch;         /* of the last replay, in the own pool */
    ph_stream *last_stream; /* of `streams` the one that replayed it last */
    ph_device *device;      /* retained from begin to reset; NULL in NEW */
    ph__drv_exec *exec;
    ph__writer *own;  /* among `pools`: the pool of the capture */
    ph__slots *slots; /* NULL: none were made */
    /* NULL: the capture made none. While it is open under the device's capture_lock */
    ph__cells *cells;
    /* NULL: none were captured. While the capture is open under `retaining` */
    ph__collectives *collectives;
    PH__VEC(ph__writer *) pools; /* by ascending address of the pool, the order of their locks */
    ph__hook_set hooks;

    /* the count of `watch` when the inputs were last seen alive; UINT64_MAX: never */
    uint64_t free_count;
    ph__watch watch;      /* grows when an allocation dies that the graph tracks */
    ph__foreign *foreign; /* allocations of other code in which its inputs lie */
    /* replays between two queries of that memory (0: never), and since the last */
    uint32_t foreign_every, foreign_turn;
    /* NULL: no scopes, no breadcrumbs, no checks. While the capture is open under the device's
     * capture_lock */
    ph__locate *locate;
    bool hosts_changed; /* functions of host nodes were set */
    /* nodes of the executable were set, or another capture's parameters given to it */
    bool changed;
    bool inputs_due; /* not made yet: those of the record */
    bool sets_due;   /* not in them yet: some of `sets` */
    /* by node: what it was last set to; NULL: none was. See inputs/rebind.c */
    struct ph__set_launch **sets;
    uint64_t met_free_count; /* the device's count when they all lived */
    ph_record *record;       /* NULL: not made yet, of a captured graph: see deferred_record.h */
    /* the last one of ph_graph_verdict about this capture; NULL: nobody asked */
    struct ph_verdict *verdict;
    ph__deferred_record *deferred_record; /* owns the template; NULL: it was imported */
    /* the capture that the last update brought, unread; NULL: it was read, or there was none */
    ph__brought *brought;
    ph__deferred_record *left; /* of an earlier update that it gave its parameters to; or NULL */
    ph__changes *changes;      /* of the executable; NULL: there were none */
    ph__marks *marks;          /* NULL: the capture was not annotated */
    /* in the list of graphs that have annotations; annotated_at NULL: it is not there */
    ph_graph *next_annotated, **annotated_at;
    /* the kernel of each node of the executable; NULL where it is none of ours */
    ph_kernel **node_kernels;

    /* NULL: its capture had no breaks so far */
    ph__segments *segments;
    ph_graph *whole; /* the graph that it is a segment of; NULL: it is none */
    /* the capture may have breaks, and does not call their functions */
    bool allow_breaks, defer_breaks;
    bool keep;
    bool viewed; /* template and executable belong to other code, which launches it */
    bool defer;  /* executables are made without being uploaded */
    /* behind what ph_graph_upload submitted; NULL, or a replay was seen to have come after it */
    struct ph__upload_mark *uploaded; /* retained */
    /* the id of its stream; of the last replay before it */
    uint64_t uploaded_stream, uploaded_epoch;
    bool to_upload;   /* the upload under way has it */
    bool breadcrumbs; /* each annotated scope of the capture gets breadcrumbs */
    /* of the capture's memory plan; see ph_graph_memory */
    size_t plan_bytes, plan_bound;
    const char *plan_ended; /* NULL: it did not, or there is none */
    bool strict;            /* a warning of its end fails it */
    /* of the thread's error record since the begin, and before it (capture/lacks.h) */
    uint32_t record_mark, record_before;
    bool call_failed;  /* a call was refused in its capture, which succeeded all the same */
    char *failed_call; /* the message of that call; NULL: there was no memory for it */
    bool empty;        /* its last capture was found to be so, at its end */
    bool read_at_end;  /* the record is made at its end */
    bool in_end_hooks; /* the template is visible */
    bool capture_open; /* at the driver; also in FAILED after an end on the wrong thread */
    /* destroyed inside one of its own callbacks: goes when the outermost call is done */
    bool doomed;
    unsigned bodies;         /* capture functions of it that are running */
    unsigned running;        /* of them, those that ph_graph_capture called */
    uint64_t running_thread; /* of the last one of these, and where it returns to */
    const void *running_caller;
    uint64_t id;       /* unique in the process; for messages */
    uint64_t exec_id;  /* of the executable, or of the one that FAILED took along; 0: none */
    ph_stream *stream; /* the capture's; retained from begin until its end */
    ph__capture capture;
    ph__layout layout;       /* the blocks that the capture received, in order */
    uint64_t capture_stream; /* id of the stream that it began on */
    /* the same of the capture whose parameters an update brought, in the pool of that; NULL:
     * none did */
    ph__layout updated_layout;
    uint64_t updated_stream;
    ph_pool *updated_pool; /* among `pools` */
    ph__drv_graph *template;
    /* by the template's nodes; under the device's capture_lock while the capture is open */
    ph__held held;
    ph__held held_updated; /* by what an update brought */
    /* the template when its handle was first given out; NULL: it was not. See change/edited.c */
    ph__drv_graph *shown;
    /* its record was read from it after an edit of the user's; marks are of what was captured */
    bool edited;
    /* by nested graphs to the open capture; under the device's capture_lock */
    ph__lent *lent;
    PH__VEC(ph__nested) nested; /* likewise: one for each pool */
    ph__map kernels;            /* key and value: retained, each once */
    ph__map events;             /* likewise, the external ones among its nodes */
    ph__inputs inputs;
    ph__declarations declared; /* while the capture is open under the device's capture_lock */
    char *site_texts;          /* of the input that was asked for last; NULL: none was */
    /* something of its is not tracked for want of memory: every replay looks */
    bool watch_lost;
    ph__lookups met;              /* allocations that sets have addressed, tracked */
    PH__VEC(ph_stream *) streams; /* streams that replayed it; retained */
    ph__batch *batch;             /* NULL: nothing retained */
    ph__mutex retaining;          /* of batch: threads may submit to one capture */
    ph_error failure;             /* FAILED: what it answers with */
    ph_diff *update_diff;         /* why the last update failed; NULL: it did not, or */
    bool update_diff_lost;        /* there was no memory to say it */
};
#endif
