/* SPDX-License-Identifier: MIT */
/* graph/graph.h: the graph object as the files of this layer share it. */
#ifndef PH_GRAPH_GRAPH_H
#define PH_GRAPH_GRAPH_H
#include "graph/hooks.h"
#include "graph/states.h"
#include "record/record.h"

/* One pool that a graph holds, and the memory of it that the graph's replays may write. Known to every graph
 * that shares the pool, until none is left: see epochs.c. */
typedef struct ph__writer {
    struct ph__writer *next; /* in the list of the process, under its lock, as is all but `last` */
    ph_pool *pool;           /* retained while the graph holds it; the name of the pool afterwards */
    uint64_t graph_id;
    PH__VEC(ph__ranges) sets; /* one for each capture that the executable runs */
    bool gone;                /* the graph has let go */
    bool updated;             /* the last update brought it: goes with the next one */
    bool anywhere;            /* stands for several that have gone: may have written all of the pool */
    _Atomic uint64_t last;    /* the pool's epoch of the graph's last replay */
} ph__writer;

/* An allocation from elsewhere that a node addresses: tracked, not held. */
typedef struct ph__input {
    size_t node;
    uint64_t value; /* the address as the node has it */
    const void *base;
    size_t bytes;
    uint64_t generation;
    bool proved, tracked, warned;
    char node_name[64], word_name[32]; /* cut when longer */
} ph__input;
typedef PH__VEC(ph__input) ph__inputs;

typedef struct ph__retained {
    ph_release_fn release;
    void *object;
} ph__retained;
/* What ph_graph_retain named, with all that its release needs, so that it can outlive the graph until no
 * capture is open. */
typedef struct ph__batch {
    ph__deferred deferred;
    ph_device *device; /* retained; NULL when no stream is to be waited for */
    PH__VEC(ph__retained) objects;
    PH__VEC(ph_stream *) streams; /* retained */
    bool synchronize;
} ph__batch;

struct ph_graph {
    ph_graph_state state;
    bool keep;
    bool liveness;
    bool in_end_hooks; /* the template is visible */
    bool capture_open; /* at the driver; also in FAILED after an end on the wrong thread */
    bool doomed;       /* destroyed inside one of its own callbacks: goes when the outermost call is done */
    unsigned busy;     /* hooks of it that are running */
    unsigned bodies;   /* capture functions of it that are running */
    uint64_t id;       /* unique in the process; for messages */
    uint64_t exec_id;  /* of the executable, or of the one that FAILED took along; 0: none */
    uint64_t epoch;    /* of the last replay, in the own pool */
    uint64_t deaths;   /* the device's count when the inputs were last seen alive; UINT64_MAX: never */
    ph_device *device; /* retained from begin to reset; NULL in NEW */
    ph_stream *stream; /* the capture's; retained from begin until its end */
    ph__capture capture;
    ph__drv_graph *template;
    ph__drv_exec *exec;
    ph_record *record;
    PH__VEC(ph__writer *) pools;  /* by ascending address of the pool, the order of their locks */
    ph__writer *own;              /* among them: the pool of the capture */
    PH__VEC(ph_kernel *) kernels; /* retained, each once */
    ph_kernel **node_kernels; /* what each node of the executable launches; NULL where it is none of ours */
    ph__inputs inputs;
    PH__VEC(ph_stream *) streams; /* that replayed it; retained */
    ph_stream *last_stream;       /* the one of them that replayed it last */
    ph__batch *batch;             /* NULL: nothing retained */
    ph__hook_set hooks;
    ph_error failure; /* FAILED: what it answers with */
};

/* ---- states.c ---- PH_OK, or the table's refusal. graph may be NULL (ARGUMENT). */
ph_status ph__graph_check(const ph_graph *graph, ph__graph_call call);
/* Keeps the thread's record as the graph's own failure; FAILED. Returns status. */
ph_status ph__graph_fail(ph_graph *graph, ph_status status);

/* ---- graph.c ---- lets go of all that the capture brought, but for what ph_graph_retain named; device
 * included. Leaves the error record and the state alone. */
void ph__graph_clear(ph_graph *graph);
/* After hooks: carries out a destroy that one of them asked for. graph may be gone then. */
void ph__graph_leave(ph_graph *graph);

/* ---- capture.c ---- ends an open capture for good, from any thread. */
void ph__graph_drop_capture(ph_graph *graph);

/* ---- instantiate.c ---- makes the executable, then runs the hooks. A failing driver changes nothing; a
 * failing hook makes FAILED. */
ph_status ph__graph_make_exec(ph_graph *graph, const char *call);

/* ---- owned.c ---- kernels: retains those of the record and makes node_kernels anew. reserve: makes room for
 * count more. */
ph_status ph__graph_take_kernels(ph_graph *graph, const ph_record *record, const char *call);
bool ph__graph_reserve_kernels(ph_graph *graph, size_t count);
void ph__graph_add_kernel(ph_graph *graph, ph_kernel *kernel); /* room was reserved */
void ph__graph_drop_kernels(ph_graph *graph);
/* Remembers a stream that is about to replay. */
ph_status ph__graph_note_stream(ph_graph *graph, ph_stream *stream, const char *call);
void ph__graph_drop_streams(ph_graph *graph);
/* Hands out what ph_graph_retain named: now, or, where streams must be waited for and a capture is open, when
 * none is. Takes the streams over. Before ph__graph_clear lets the device go. */
ph__batch *ph__graph_take_batch(ph_graph *graph);
void ph__batch_run(ph__batch *batch); /* takes NULL */

/* ---- epochs.c ---- adds a pool, whose reference it takes over on success. ranges: taken over on success;
 * NULL: none. */
ph_status ph__graph_add_pool(ph__writer **out, ph_graph *graph, ph_pool *pool, const char *call);
ph__writer *ph__graph_find_pool(const ph_graph *graph, const ph_pool *pool);
void ph__graph_drop_pool(ph_graph *graph, ph__writer *writer);
void ph__graph_drop_pools(ph_graph *graph);
bool ph__writer_reserve(ph__writer *writer, size_t sets);
void ph__writer_add(ph__writer *writer,
                    ph__ranges *ranges); /* room was reserved; *ranges is empty afterwards */
bool ph__writer_covers(const ph__writer *writer, uintptr_t address);

/* ---- liveness.c ---- the words of a record, or of one node, that address memory from elsewhere; tracked
 * where the graph checks. */
ph_status ph__inputs_of_record(ph__inputs *out, const ph_graph *graph, const ph_record *record,
                               const char *call);
ph_status ph__inputs_of_word(ph__inputs *out, const ph_graph *graph, size_t node, const ph_word *word,
                             const char *node_name, const char *call);
void ph__inputs_free(ph__inputs *inputs, ph_device *device);
void ph__graph_set_inputs(ph_graph *graph, ph__inputs *inputs); /* takes them over */
/* Makes room, so that replace cannot fail, then puts `inputs` in the place of all those of the node. */
bool ph__graph_reserve_inputs(ph_graph *graph, size_t extra);
void ph__graph_replace_inputs(ph_graph *graph, size_t node, ph__inputs *inputs);
/* Looks at every input: STALE_INPUT, or PH_OK and remembers the device's count of deaths. */
ph_status ph__graph_check_live(ph_graph *graph, const char *call);
#endif
