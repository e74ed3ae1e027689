/* SPDX-License-Identifier: MIT */
/* nn/graphed/capture.h: one capture of a callable's passes, and the memory that stands for what
 * calls bring: graphed_stage.c has that memory, and graphed_prove.c what becomes of a capture. */
#ifndef PH_NN_GRAPHED_CAPTURE_H
#define PH_NN_GRAPHED_CAPTURE_H
#include "nn/graphed/graphed.h"
#include "tensor/tape/sightings.h"

/* Addresses that stand for a port's memory while a pass is captured. Nothing is ever there but
 * in captures. */
typedef struct ph__stand_in {
    char *base;     /* of the capture; copied ports: where the copy comes from */
    char **shifted; /* of each probe */
    size_t bytes;
} ph__stand_in;

/* How many probes tell the ports of a callable apart, inputs and incoming gradients together,
 * and in how large a window each moves. */
typedef struct ph__stage_plan {
    size_t probes, coded; /* coded: of them, those by which any two ports differ */
    size_t window;        /* a power of two: from a page to 1 MiB */
} ph__stage_plan;
ph__stage_plan ph__stage_plan_for(size_t ports);

/* The stand-ins of all ports of one direction, in one block. */
typedef struct ph__stage {
    ph__stand_in *at;
    size_t count;
    char **shifted;
    void *block;
} ph__stage;
/* bytes: of each. plan: with shifted ones, none at a distance that another has in the same
 * probe, of this stage or of another one; NULL: without. first: the number of its first port
 * among those of the callable. */
ph_status ph__stage_make(ph__stage *stage, ph_stream *stream, const size_t *bytes, size_t count,
                         const ph__stage_plan *plan, size_t first, const char *call);
void ph__stage_free(ph__stage *stage, ph_stream *stream);

/* Both passes, captured once: as they will be replayed, or as a probe, with rebound ports at its
 * shifted addresses. */
typedef struct ph__trial {
    ph__callable *callable;
    ph_tape *tape;
    bool probe;
    size_t number; /* of the probe */
    ph_graph *forward, *backward;
    ph_tensor **in, **out, **incoming; /* in_count, out_count, out_count; retained */
    ph__exit *exits;
    size_t exit_count;
    size_t first_node; /* of the tape */
    bool writes_input;
    ph__sightings seen[2]; /* of forward, of backward */
} ph__trial;

/* What the captures of one callable have between them. */
typedef struct ph__making {
    ph__callable *callable;
    ph__stage_plan plan;
    ph__stage inputs, incoming, outgoing; /* outgoing: base: where gradients go */
    ph__trial real, *probes;              /* as many as planned; NULL: none was tried */
} ph__making;

/* The versions of a module's parameters and buffers before its capture. */
typedef struct ph__seen {
    ph__storage *storage;
    uint64_t version;
} ph__seen;
typedef struct ph__watch {
    PH__VEC(ph__seen) seen;
    bool failed;
} ph__watch;
/* ---- graphed_watch.c ---- around the capture of forward: the callable's `changed` and
 * `exposed`. free: also after a failure. */
ph_status ph__watch_begin(ph__watch *watch, const ph_module *module, const char *call);
ph_status ph__watch_end(ph__watch *watch, const ph__trial *trial, const char *call);
void ph__watch_free(ph__watch *watch);

/* ---- graphed_capture.c ---- */
ph_status ph__trial_forward(ph__trial *trial, ph__making *making, const char *call);
ph_status ph__trial_backward(ph__trial *trial, ph__making *making, const char *call);
void ph__trial_free(ph__trial *trial, bool graphs);

/* ---- graphed_outside.c ---- memory that is neither the graphs' own nor what calls bring. */
/* A number: what is allocated from now on has higher ones. */
ph_status ph__graphed_set_mark(uint64_t *out, const ph__graphed_set *set, const char *call);
/* What stands for what calls bring is not seen: behind each capture of a pass. */
void ph__trial_forget_brought(ph__trial *trial, bool backward);
/* STATE: the pass of the real capture uses other such memory than that of its probe: forward
 * replaces what it keeps. */
ph_status ph__making_compare(const ph__making *making, bool backward, const char *call);
/* What the real graph of the pass uses of it is held from now on, and what it writes known. */
ph_status ph__making_hold(ph__making *making, bool backward, const char *call);
/* ---- graphed_prove.c ---- slots of the real graphs. *again: something could not be proved: its
 * callable copies from now on, and all is to be captured anew. */
ph_status ph__making_prove_forward(ph__making *making, bool *again, const char *call);
ph_status ph__making_prove_backward(ph__making *making, bool *again, const char *call);
/* ---- graphed_finish.c ---- the callable takes the real graphs over: what they leave, and what
 * they overwrite. */
ph_status ph__making_finish(ph__making *making, const char *call);
/* The same for one that has a backward alone, and where the gradients of its capture go. */
ph_status ph__making_finish_backward(ph__making *making, const char *call);
ph_status ph__making_stage_outgoing(ph__making *making, const char *call);
/* Graphs that nobody took over, and what stood for memory. */
void ph__making_clear(ph__making *making);
/* ---- graphed_used.c ---- what other captures of backward will need: on which inputs each output
 * depends, and the stand-ins. */
ph_status ph__making_keep(ph__making *making, const char *call);
/* ---- graphed_recapture.c ---- a backward for the outputs that have a gradient, among the
 * callable's others from now on. */
ph_status ph__callable_recapture(ph__callable **out, ph__callable *callable,
                                 ph_tensor *const *out_grads, const char *call);
#endif
