/* SPDX-License-Identifier: MIT */
/* graph/graph.h: the graph object as the files of this layer share it. */
#ifndef PH_GRAPH_GRAPH_H
#define PH_GRAPH_GRAPH_H
#include "graph/inputs/inputs.h"
#include "graph/lifecycle/hooks.h"
#include "graph/lifecycle/states.h"
#include "record/record.h"
#include <phonograph/cells.h>
#include <phonograph/diff.h>
#include <phonograph/slots.h>

/* One pool that a graph holds, and the memory of it that the graph's replays may write. Known to
 * every graph that shares the pool, until none is left: see epochs.c. */
typedef struct ph__writer {
    /* among those of the pool that are held, or gone: under the lock of all, as is all but
     * `last` */
    struct ph__writer *previous, *next;
    struct ph__writers *among;
    /* retained while the graph holds it; the name of the pool afterwards */
    ph_pool *pool;
    uint64_t graph_id;
    PH__VEC(ph__ranges) sets; /* one for each capture that the executable runs */
    bool gone;                /* the graph has let go */
    bool updated;             /* the last update brought it: goes with the next one */
    /* may have written all of the pool: stands for several that have gone, or nobody knows */
    bool anywhere;
    _Atomic uint64_t last; /* the pool's epoch of the graph's last replay */
} ph__writer;

/* Allocations that a graph holds, by their device: most are of the graph's own. */
typedef struct ph__held_of {
    ph_device *device; /* retained */
    ph__map at;        /* generation -> base */
} ph__held_of;
typedef struct ph__held {
    PH__VEC(ph__held_of) of;
    size_t count; /* of all */
} ph__held;

/* A pool that the replays of a nested graph use, as the capture that it was put into keeps it
 * until its end. */
typedef struct ph__lent {
    struct ph__lent *next;
    ph_pool *pool;            /* held as a graph holds it */
    PH__VEC(ph__ranges) sets; /* as in a writer */
    bool anywhere;
    uint64_t ticket; /* of the replay that is just lending it; 0: it has */
} ph__lent;

typedef struct ph__retained {
    ph_release_fn release;
    void *object;
} ph__retained;
/* What ph_graph_retain named, with all that its release needs, so that it can outlive the graph
 * until no capture is open. */
typedef struct ph__batch {
    ph__deferred deferred;
    ph_device *device; /* retained; NULL when no stream is to be waited for */
    PH__VEC(ph__retained) objects;
    PH__VEC(ph_stream *) streams; /* retained */
    bool synchronize;
} ph__batch;

typedef struct ph__cells ph__cells;   /* cells.h */
typedef struct ph__slots ph__slots;   /* slots.h */
typedef struct ph__locate ph__locate; /* locate.h */

struct ph_graph {
    /* What every replay looks at stands together. */
    ph_graph_state state;
    bool liveness;
    unsigned busy;  /* hooks of it that are running */
    uint64_t epoch; /* of the last replay, in the own pool */
    /* the count of `watch` when the inputs were last seen alive; UINT64_MAX: never */
    uint64_t deaths;
    ph__watch watch;      /* grows when an allocation dies that the graph tracks */
    ph__foreign *foreign; /* what its inputs lie in of other code's memory */
    /* that is asked for once in so many replays (0: never), so many ago */
    uint32_t foreign_every, foreign_turn;
    ph_device *device; /* retained from begin to reset; NULL in NEW */
    ph__drv_exec *exec;
    /* NULL: the capture made none. While it is open under the device's capture_lock */
    ph__cells *cells;
    ph__slots *slots; /* NULL: none were made */
    /* NULL: no scopes, no breadcrumbs, no checks. While the capture is open under the device's
     * capture_lock */
    ph__locate *locate;
    bool hosts_changed; /* functions of host nodes were set */
    /* nodes of the executable were set, or another capture's parameters given to it */
    bool changed;
    PH__VEC(ph__writer *) pools; /* by ascending address of the pool, the order of their locks */
    ph__writer *own;             /* among them: the pool of the capture */
    bool inputs_due;             /* not made yet: those of the record */
    bool sets_due;               /* not in them yet: some of `sets` */
    /* by node: what it was last set to; NULL: none was. See rebind.c */
    struct ph__set_launch **sets;
    uint64_t met_deaths; /* the device's count when they all lived */
    ph_record *record;
    ph__marks *marks; /* NULL: the capture was not annotated */
    /* in the list of graphs that have annotations; annotated_at NULL: it is not there */
    ph_graph *next_annotated, **annotated_at;
    /* what each node of the executable launches; NULL where it is none of ours */
    ph_kernel **node_kernels;
    ph_stream *last_stream; /* the one of them that replayed it last */
    ph__hook_set hooks;

    bool keep;
    bool defer;    /* executables are made without being uploaded */
    bool deferred; /* that of now was, and ph_graph_upload has not uploaded it */
    /* behind what ph_graph_upload submitted; NULL, or a replay was seen to have come after it */
    ph__drv_event *uploaded;
    /* the id of its stream; of the last replay before it */
    uint64_t uploaded_stream, uploaded_epoch;
    bool breadcrumbs;  /* each annotated scope of the capture gets crumbs */
    bool strict;       /* what its end would warn of fails it */
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
    ph__layout layout;       /* what the capture was given, in order */
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
    /* what it was when its handle was handed out first; NULL: it was not. See edited.c */
    ph__drv_graph *shown;
    /* its picture was read from it after an edit of the user's; marks are of what was captured */
    bool edited;
    /* by nested graphs to the open capture; under the device's capture_lock */
    ph__lent *lent;
    ph__map kernels; /* key and value: retained, each once */
    ph__map events;  /* likewise, the external ones among its nodes */
    ph__inputs inputs;
    ph__declarations declared; /* while the capture is open under the device's capture_lock */
    char *site_texts;          /* of the input that was asked for last; NULL: none was */
    /* something of its is not tracked for want of memory: every replay looks */
    bool watch_lost;
    ph__lookups met;              /* allocations that sets have addressed, tracked */
    PH__VEC(ph_stream *) streams; /* that replayed it; retained */
    ph__batch *batch;             /* NULL: nothing retained */
    ph_error failure;             /* FAILED: what it answers with */
    ph_diff *update_diff;         /* why the last update failed; NULL: it did not, or */
    bool update_diff_lost;        /* there was no memory to say it */
};

/* ---- states.c ---- PH_OK, or the table's refusal. graph may be NULL (ARGUMENT). */
ph_status ph__graph_check(const ph_graph *graph, ph__graph_call call);
/* Keeps the thread's record as the graph's own failure; FAILED. Returns status. */
ph_status ph__graph_fail(ph_graph *graph, ph_status status);

/* ---- graph.c ---- lets go of all that the capture brought, but for what ph_graph_retain named;
 * device included. Leaves the error record and the state alone. */
void ph__graph_clear(ph_graph *graph);
/* A hook at that point was left by an exception, no call of the graph's goes on: what was begun
 * is undone, what was being destroyed is. The graph may be gone then. */
void ph__graph_abandon(ph_graph *graph, ph_graph_hook_point point);
/* After hooks: carries out a destroy that one of them asked for. graph may be gone then. */
void ph__graph_leave(ph_graph *graph);

/* ---- capture.c ---- ends an open capture for good, from any thread. */
void ph__graph_drop_capture(ph_graph *graph);
/* Where longjmp has left capture functions, which is forbidden: they do not count as running any
 * more. */
void ph__graph_forget_left(ph_graph *graph);
/* Checks the options that a capture and an import share. */
ph_status ph__graph_check_options(const ph_capture_options *options, const char *call);
/* Reads the template back: record, kernels, inputs. The pools are the graph's already. */
ph_status ph__graph_read(ph_graph *graph, const ph__own_memory *own, const char *call);
/* From there to what the user sees: the hooks, and the executable unless the template is kept.
 * The caller undoes a failure, then calls ph__graph_leave in any case. captured: the template
 * comes from a capture of this library, so that nobody else has its handle once the hooks are
 * over. */
ph_status ph__graph_complete(ph_graph *graph, bool captured, const char *call);

/* ---- copies.c ---- after the record was read, the pool held: pinned blocks that copies use are
 * kept, pageable memory in copies is told of, or UNPINNED where the capture is strict. */
ph_status ph__graph_take_copies(ph_graph *graph, const char *call);

/* ---- child.c ---- puts a copy of the template into the capture that the stream is in. */
/* *over: another thread has ended the capture meanwhile, and nothing was done. */
ph_status ph__graph_into_capture(bool *over, ph_graph *graph, ph_stream *stream,
                                 uint64_t capture_id, const char *call);
/* The capture is over: what was lent becomes the graph's; *nested: the ranges of the capture and
 * of all that was lent, to be freed by the caller also after a failure. */
ph_status ph__graph_take_lent(ph__ranges *nested, ph_graph *graph, const ph__ranges *own,
                              const char *call);
void ph__graph_drop_lent(ph_graph *graph);

/* ---- cells.c, cells_replay.c ---- join: before the driver's end of the capture. add_ranges:
 * the cells are the graph's own memory; false: no host memory. record: the record has the
 * addresses that the template has not. captured: the capture has ended well; calls the sources.
 * drop: gives the memory back and releases the sources. */
enum {
    PH__CELL_BYTES = 512 /* a block of the allocator */
};
void ph__cells_join(ph_graph *graph);
bool ph__cells_add_ranges(ph__ranges *ranges, const ph_graph *graph);
void ph__cells_record(ph_graph *graph, const ph__own_memory *own);
void ph__cells_captured(ph_graph *graph, const char *call);
bool ph__cells_meet(const ph_graph *graph, const void *address, size_t bytes);
bool ph__cells_are_written_by(const ph_graph *graph, size_t node);
size_t ph__cells_bytes(const ph_graph *graph);
void ph__cells_drop(ph_graph *graph);
/* A stream that will replay the graph for the first time. */
ph_status ph__cells_note_stream(ph_graph *graph, ph_stream *stream, const char *call);
/* Around a launch, of graphs with cells only: begin gives the executable its values, and no
 * other such launch of the device comes between it and end, which tells the sources. After a
 * failure of begin there is no end. */
ph_status ph__cells_begin(ph_graph *graph, const char *call);
void ph__cells_end(ph_graph *graph, bool launched);
void ph__cells_renew(ph_graph *graph); /* there is a new executable */

/* ---- annotations.c ---- the graph's record is there: its annotated nodes are listed from now
 * on; leave: no longer. */
void ph__graph_list_annotations(ph_graph *graph);
void ph__graph_unlist_annotations(ph_graph *graph);

/* ---- diff.c ---- keeps the differences to a capture whose parameters were refused for what
 * *out says, and names the first one in its message. The error record stays. */
void ph__graph_explain_update(ph_graph *graph, const ph_graph *from, ph_update_result *out);
void ph__graph_drop_update_diff(ph_graph *graph);

/* ---- crumbs.c, watched.c, watched_switch.c ---- the nodes that watch replays. scope: what
 * ph__capture.scope is in annotated captures. join, record, drop, note_stream: as with cells.
 * call_of: by what call the node is switched; NULL: it is none of them. start: switches those of
 * an executable off that is about to be the graph's, as renew notes; the driver's number. fits:
 * whether both captures have the same ones, or why not; updated: an update has given the
 * executable what the record has. patch: puts into the arguments of a node that slots set what
 * the executable was given. */
ph_status ph__locate_scope(ph__capture *capture, ph_stream *stream,
                           const ph__annotation *annotation, bool begins, const char *call);
ph_status ph__locate_begin(ph_graph *graph, const char *call); /* the capture has begun */
void ph__locate_join(ph_graph *graph);
void ph__locate_record(ph_graph *graph);
const char *ph__locate_call_of(const ph_graph *graph, size_t node);
ph_status ph__locate_note_stream(const ph_graph *graph, ph_stream *stream);
size_t ph__locate_bytes(const ph_graph *graph);
int ph__locate_start(const ph_graph *graph, ph__drv_exec *exec);
void ph__locate_renew(ph_graph *graph);
/* Logs that the innermost scopes of the thread, so many, were left open by a capture function. */
void ph__scopes_left(size_t count, const char *call);
/* The same as a failure, of a strict capture. */
ph_status ph__fail_scopes_left(size_t count, const char *call);
bool ph__locate_fits(const ph_graph *graph, const ph_graph *from, char *why, size_t size);
void ph__locate_updated(ph_graph *graph, const ph_record *from, const char *call);
void ph__locate_patch(const ph_graph *graph, size_t node, void *args);
void ph__locate_drop(ph_graph *graph);

/* ---- instantiate.c ---- makes the executable, then runs the hooks. A failing driver changes
 * nothing; a failing hook makes FAILED. */
ph_status ph__graph_make_exec(ph_graph *graph, const char *call);
/* The same before the first use of a graph that has none: ENDED. */
ph_status ph__graph_need_exec(ph_graph *graph, const char *call);

/* ---- upload.c ---- wait: the stream, which is about to replay, comes after what
 * ph_graph_upload submitted to another one. drop: there is no such executable any more. */
ph_status ph__upload_wait(ph_graph *graph, const ph_stream *stream, const char *call);
void ph__upload_drop(ph_graph *graph);

/* ---- owned.c ---- kernels: retains those of the record and makes node_kernels anew. reserve:
 * makes room for count more. */
ph_status ph__graph_take_kernels(ph_graph *graph, const ph_record *record, const char *call);
bool ph__graph_reserve_kernels(ph_graph *graph, size_t count);
void ph__graph_add_kernel(ph_graph *graph, ph_kernel *kernel); /* room was reserved */
void ph__graph_drop_kernels(ph_graph *graph);
/* Room for the events of another graph, then those themselves. */
bool ph__graph_reserve_events(ph_graph *graph, const ph_graph *from);
void ph__graph_add_events(ph_graph *graph, const ph_graph *from);
/* Remembers a stream that is about to replay. */
ph_status ph__graph_note_stream(ph_graph *graph, ph_stream *stream, const char *call);
void ph__graph_drop_streams(ph_graph *graph);
/* Hands out what ph_graph_retain named: now, or, where streams must be waited for and a capture
 * is open, when none is. Takes the streams over. Before ph__graph_clear lets the device go. */
ph__batch *ph__graph_take_batch(ph_graph *graph);
void ph__batch_run(ph__batch *batch); /* takes NULL */

/* ---- epochs.c ---- adds a pool, whose reference it takes over on success. ranges: taken over
 * on success; NULL: none. */
ph_status ph__graph_add_pool(ph__writer **out, ph_graph *graph, ph_pool *pool, const char *call);
ph__writer *ph__graph_find_pool(const ph_graph *graph, const ph_pool *pool);
void ph__graph_drop_pool(ph_graph *graph, ph__writer *writer);
void ph__graph_drop_pools(ph_graph *graph);
bool ph__writer_reserve(ph__writer *writer, size_t sets);
void ph__writer_add(ph__writer *writer,
                    ph__ranges *ranges); /* room was reserved; *ranges is empty afterwards */
void ph__writer_add_anywhere(ph__writer *writer);
bool ph__writer_covers(const ph__writer *writer, uintptr_t address);
/* Whether some graph of the pool was given it in its capture, or may have been: of graphs that went
 * long ago nobody knows. */
bool ph__writer_is_captures(const ph__writer *writer, uintptr_t address);
/* its replays may */
bool ph__graph_writes(const ph_graph *graph, const void *address, size_t bytes);
bool ph__ranges_same(const ph__ranges *a, const ph__ranges *b);
/* false: no host memory, *out is empty */
bool ph__ranges_copy(ph__ranges *out, const ph__ranges *from);

/* ---- born.c ---- at the capture's end, when there is a record. pass: to the open capture that a
 * copy of the graph is put into. copy: for `graph`, whose executable takes the parameters of
 * `from`; with nothing held on failure. drop: of what no replay from now on uses; empty afterwards.
 * drop_held: before the graph's streams are taken from it. holds: generation 0: of what is there
 * now. */
ph_status ph__graph_hold_born(ph_graph *graph, const char *call);
ph_status ph__held_pass(ph_graph *graph, uint64_t capture_id, const char *call);
ph_status ph__held_copy(ph__held *out, ph_graph *graph, const ph_graph *from, const char *call);
void ph__held_drop(ph_graph *graph, ph__held *held);
void ph__graph_drop_held(ph_graph *graph);
bool ph__graph_holds(const ph_graph *graph, const void *address, uint64_t generation);

/* ---- liveness.c ---- keeping the inputs that inputs.h finds, and the check. */
void ph__graph_set_checks(ph_graph *graph, const ph_capture_options *options);
void ph__graph_set_inputs(ph_graph *graph, ph__inputs *inputs); /* takes them over */
/* Makes room, so that replace cannot fail, then puts `inputs` in the place of all those of the
 * node. */
/* Those of the record are made when they are first needed; at once where every replay looks at
 * them. */
ph_status ph__graph_take_inputs(ph_graph *graph, const char *call);
ph_status ph__graph_collect_inputs(ph_graph *graph, const char *call);
bool ph__graph_reserve_inputs(ph_graph *graph, size_t extra);
void ph__graph_replace_inputs(ph_graph *graph, size_t node, ph__inputs *inputs);

/* ---- rebind.c ---- prepare: room for what the node is set to; NULL: no host memory. note: it
 * has been set so. collect: makes inputs of what was noted. */
typedef struct ph__set_launch ph__set_launch;
ph__set_launch *ph__graph_prepare_set(ph_graph *graph, size_t node, const ph_kernel *kernel);
void ph__graph_note_set(ph_graph *graph, ph__set_launch *set, const void *args);
ph_status ph__graph_collect_sets(ph_graph *graph, const char *call);
void ph__graph_drop_sets(ph_graph *graph);
/* Looks at the inputs: STALE_INPUT, or PH_OK and remembers the count of deaths. */
enum {
    PH__LOOK_AS_CAPTURED = 1, /* as the template has them, whatever the slots are set to */
    PH__LOOK_FOREIGN = 2,     /* asks the driver about memory of other code's, too */
    PH__LOOK_ONLY = 4         /* nothing depends on the answer */
};
ph_status ph__graph_check_live(ph_graph *graph, unsigned how, const char *call);
/* Of a graph that checks, at each replay: whether there is anything to look at. */
static inline bool ph__graph_must_look(ph_graph *graph, unsigned *how)
{
    *how = 0;
    if (graph->foreign && graph->foreign_every && ++graph->foreign_turn >= graph->foreign_every)
        *how = PH__LOOK_FOREIGN;
    return *how ||
           atomic_load_explicit(&graph->watch.deaths, memory_order_acquire) != graph->deaths;
}

/* ---- slots.c, slots_set.c, slots_life.c ---- what replays and the changes of executables need
 * of slots. */
/* Checks the values and takes them down: PH_OK, or nothing is. Then, behind all other checks,
 * apply: what was taken down is what the slots have from now on, and the executable gets what it
 * has not; or drop_staged. */
ph_status ph__slots_stage(ph_graph *graph, const ph_slot_value *values, size_t count,
                          const char *call);
void ph__slots_drop_staged(ph_graph *graph);
ph_status ph__slots_apply(ph_graph *graph, const char *call);
/* STATE, where a slot has places in the node. */
ph_status ph__slots_refuse_set(const ph_graph *graph, size_t node, const char *call);
/* The executable has what the record, the graph's own or another one's, says. check: whether the
 * slots' places are the same there (MISMATCH). */
void ph__slots_renew(ph_graph *graph, const ph_record *record);
bool ph__slots_fit(const ph_graph *graph, const ph_record *record, char *why, size_t size);
/* Of a word that the graph's inputs were made of: whether a slot has since set it. The slots'
 * own addresses: `dead` is told of each in memory that is gone. */
bool ph__slots_have(const ph_graph *graph, size_t node, size_t offset);
/* A kernel's arguments with the slots' values; NULL: no slot has places in the node. */
const void *ph__slots_args(const ph_graph *graph, size_t node);
/* the word is a place of an address slot */
bool ph__slots_prove(const ph_graph *graph, size_t node, size_t offset);
/* gives the input the slot's address, where one has set it */
void ph__slots_move(const ph_graph *graph, ph__input *input);
typedef void ph__slots_dead(void *user, const ph__input *input);
void ph__slots_look(ph_graph *graph, ph__slots_dead *dead, void *user);
size_t ph__slots_bytes(const ph_graph *graph);
void ph__slots_drop(ph_graph *graph);
#endif
