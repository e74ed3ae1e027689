/* SPDX-License-Identifier: MIT */
/* nn/graphed/graphed.h: graphed callables as their files share them. graphed.c makes them,
 * graphed_warmup.c calls modules before, graphed_capture.c captures and proves, graphed_call.c
 * runs them, graphed_bind.c makes what comes fit, graphed_leaves.c tells leaves' gradients
 * apart, graphed_values.c knows who overwrites what, graphed_watch.c what is changed in place,
 * graphed_used.c captures backward for the outputs that a loss used, graphed_look.c shows them. */
#ifndef PH_NN_GRAPHED_GRAPHED_H
#define PH_NN_GRAPHED_GRAPHED_H
#include "base/map.h"
#include "base/sync.h"
#include "nn/module/module.h"
#include "tensor/core/overwrite_tag.h"
#include "tensor/kernels/bundle.h"
#include "tensor/tape/tape.h"
#include <phonograph/graphed.h>
#include <phonograph/slots.h>

typedef struct ph__callable ph__callable;
typedef PH__VEC(ph__storage *) ph__storages; /* each retained */
typedef struct ph__shared_pool ph__shared_pool;

/* ---- who overwrites what (graphed_values.c) ---- */
/* What one replay leaves in memory for others to read: the outputs of a forward, what it saved,
 * the gradients of a backward. */
typedef struct ph__values {
    ph__written written;     /* first: handles are marked with it */
    ph__shared_pool *shared; /* retained */
    struct ph__values *next; /* of the pool, under its lock, as are the next three */
    struct {
        uintptr_t begin, end;
    } * ranges;
    size_t range_count;
    char owner[48]; /* the callable's name */
    /* whose replay wrote it last, which of its calls, and whether that was a backward */
    char by[48];
    uint64_t by_call;
    bool by_backward;
    const char *what;   /* "an output", "the saved values", "a gradient": static */
    const char *advice; /* what to do about it: static */
} ph__values;

/* A graph of a callable, with the values that its replays may write. */
typedef struct ph__program {
    struct ph__program *next; /* of the pool, under its lock, as are the victims */
    ph_graph *graph;
    char name[48];
    bool backward;
    uint64_t calls; /* replays */
    uint64_t last;  /* ph__replays with the last of them */
    PH__VEC(ph__values *) victims;
    ph__ranges touched; /* memory from outside of its captures that it may write */
} ph__program;
/* Whether it may write there, outside of what its captures were given. */
static inline bool ph__program_touches(const ph__program *program, const void *address,
                                       size_t bytes)
{
    const ph__ranges *touched = &program->touched;
    const uintptr_t begin = (uintptr_t)address, end = begin + bytes;
    if (touched->count == 0 || end <= touched->at[0].base)
        return false;
    const ph__range *from = ph__ranges_from(touched, begin);
    return from && from->base < end;
}

/* Those of all graphed callables whose captures use one pool. */
ph_status ph__shared_pool_get(ph__shared_pool **out, const ph_pool *pool, const char *call);
void ph__shared_pool_release(ph__shared_pool *shared); /* takes NULL */
/* The stream of all captures into that pool which were given none; lives as long as it. */
ph_status ph__shared_pool_stream(ph_stream **out, ph__shared_pool *shared, ph_device *device,
                                 const char *call);
/* One capture into it at a time, of those that calls make: false: another thread makes one. */
bool ph__shared_pool_enter(ph__shared_pool *shared);
void ph__shared_pool_leave(ph__shared_pool *shared);
/* A reference for the caller. ranges: taken over, also on failure; 2 words each. */
typedef PH__VEC(uintptr_t) ph__spans;
ph_status ph__values_make(ph__values **out, ph__shared_pool *shared, const char *owner,
                          const char *what, const char *advice, ph__spans *ranges,
                          const char *call);
void ph__values_release(ph__values *values); /* by its callable: takes NULL */
/* Joins the pool's programs: finds out what it may write. own: values that are its own in any
 * case (NULL entries are skipped). */
ph_status ph__program_join(ph__program *program, ph__shared_pool *shared, ph__values *const *own,
                           size_t own_count, const char *call);
void ph__program_leave(ph__program *program, ph__shared_pool *shared);
/* It has been replayed: what it may write is of this call now. */
/* gives the number of that event */
uint64_t ph__program_replayed(ph__program *program, ph__shared_pool *shared);
/* replayed: whether there was a replay after `stamp` (ph__storage.stamp). wrote: whether one may
 * have written there, in memory that the captures were given: by gets "call 3 of 'f'". */
bool ph__shared_pool_replayed(const ph__shared_pool *shared, uint64_t stamp);
bool ph__shared_pool_wrote(char *by, size_t size, ph__shared_pool *shared, uint64_t stamp,
                           const void *address, size_t bytes);
static inline uint64_t ph__values_now(const ph__values *values)
{
    return atomic_load_explicit(&values->written.now, memory_order_relaxed);
}

/* ---- callables ---- */
enum {
    /* of what is rebound: the stand-ins of captures differ in all bits from it on */
    PH__PORT_ALIGNMENT = 256
};

/* An input, or the incoming gradient of an output. */
typedef struct ph__port {
    ph_dtype dtype;
    ph_shape shape;
    size_t bytes;
    bool requires_grad; /* the sample did */
    bool used;          /* gradients: of an output that has one */
    bool rebound;
    bool force_copy;   /* decided before the capture, or by a proof that failed */
    size_t slot, uses; /* of the graph that it goes into */
    /* rebound inputs: where backward reads it again; PH_SLOT_NONE: it does not */
    size_t backward_slot;
    size_t backward_uses;
    const char *stood;     /* inputs: where it lay in the capture; nothing is there */
    ph_tensor *buffer;     /* copied: where to; retained */
    char reason[200];      /* why it is copied */
    const char *elsewhere; /* memory that came, outside of the pool, and its stamp */
    uint64_t elsewhere_stamp;
} ph__port;

/* A gradient that leaves backward, for an input or a parameter. */
typedef struct ph__exit {
    size_t operand;  /* of the tape's node: inputs first, then parameters */
    ph_tensor *grad; /* the graph's own memory; retained; contiguous */
    size_t slot;     /* of the destination; PH_SLOT_NONE: it is borrowed */
    size_t bytes;
    size_t op_at; /* its place among the ops */
    /* in a call: made for that leaf, which has it once it is written */
    ph_tensor *fresh, *fresh_of;
    /* what its slot has in calls that need no gradient here; NULL: what it had */
    const char *idle;
    /* the leaf's own gradient that `apart` was found for; NULL: none yet */
    const char *added;
    /* nothing else of the launch writes there, nor does the graph: it may add there itself */
    bool apart;
} ph__exit;

/* What one call of ph_make_graphed_callables shares. */
typedef struct ph__graphed_set {
    atomic_int references;
    ph_device *device;          /* retained */
    ph_pool *pool;              /* retained */
    ph_stream *stream;          /* of the captures */
    ph_tape *tape;              /* that the captures ran on; keeps what backward reads */
    ph__shared_pool *shared;    /* retained */
    ph_graphed_options options; /* its pointers are not followed after the making */
    /* what was allocated before the captures, and since the last probe: see ph__graphed_set_mark */
    uint64_t begun, probed;
} ph__graphed_set;

struct ph__callable {
    atomic_int references; /* of its module, and of each node of a tape that will call backward */
    ph__graphed_set *set;  /* retained */
    ph_module *original;   /* retained */
    struct ph__mode {
        const ph_module *module; /* the original, or one below it */
        bool training;
    } * modes; /* at capture; the original's first */
    size_t mode_count;
    ph_structure *structure, *out_structure; /* of the inputs and the outputs; owned; NULL: flat */
    size_t in_count, out_count, parameter_count;
    ph__port *inputs;    /* in_count */
    ph__port *incoming;  /* out_count */
    ph_tensor **outputs; /* out_count, the graph's own memory, retained */
    /* in_count + parameter_count: of the call under way, then the parameters, which are retained */
    ph_tensor **operands;
    char **parameter_names;
    void **parameter_data;
    bool *parameter_grads;
    /* of the original's parameters and buffers, as they were when it was captured */
    ph__parameter_slots parameter_slots;
    bool *parameter_saved; /* backward reads it: not to be changed before that */
    ph__exit *exits;
    size_t exit_count, op_slot_count;
    /* exits with a leaf's own gradient, by its address: of the last look */
    size_t *exit_order;
    size_t *op_slots;              /* of the bundles at the end of backward */
    uint8_t *ops;                  /* op_slot_count * PH__BUNDLE_MAX */
    ph__program forward, backward; /* graph NULL: there is no backward */
    bool differentiable;           /* an output has a gradient */
    bool copies_all;               /* nothing is rebound: asked for, or a proof failed */
    /* of the storages that were handed out, added up: others, once a tape of another stream used
     * one */
    uint64_t out_switches, grad_switches;
    bool keeps_saved; /* backward reads what each forward writes anew */
    ph__values *out_values, *saved_values, *grad_values;
    ph__storages changed; /* not the graphs' own: forward changes them in place */
    ph__storages held;    /* not the graphs' own: the graphs read or write them */
    /* where gradients went in the captures, while replays look at what their slots have: `idle`
     * of exits; else NULL */
    void *outgoing;
    /* with another capture: forward keeps to the memory that it has outside */
    bool compared;
    /* backward reads them, and others can change them in place: outputs, buffers; neither inputs
     * nor parameters */
    ph__storages exposed;
    ph_slot_value *values; /* scratch of a call */
    size_t saved_count;    /* rebound inputs that backward reads, then parameters that it reads */
    size_t saved_bytes;
    /* for copies and gradients of threads that are routed to the callables' own pool; NULL: none
     * yet */
    ph_pool *aside;
    bool routed_aside;    /* this call's thread is */
    bool looked_at_route; /* this call has looked where its thread is routed to */
    bool told_of_pool;    /* that something which a call brought may have been overwritten */
    /* ---- graphed_used.c ---- */
    /* out_count rows of in_count + 1: output o has a history through input i; the last of a row:
     * through a parameter */
    bool *depends;
    ph_tensor **stand_ins; /* in_count, retained: what backward reads of the inputs, for further
                              captures; NULL: there will be none */
    void *stand_block;     /* memory of those that backward reads; NULL: no other backward yet */
    uint64_t stand_key;    /* of the tape that used it last */
    /* backwards of other sets of outputs, newest first: callables that have a backward alone */
    ph__callable *others;
    size_t other_count;
    /* One of these. used of `incoming` says which outputs, used of `inputs` what its first node
     * copies to the stand-ins; operands, parameter_grads and values are borrowed from `of`. */
    ph__callable *next, *of;
};

static inline ph_tensor **ph__callable_parameters(const ph__callable *callable)
{
    return callable->operands + callable->in_count;
}
ph__callable *ph__callable_retain(ph__callable *callable);
void ph__callable_release(ph__callable *callable); /* takes NULL */
void ph__graphed_set_release(ph__graphed_set *set);
/* Drops what its captures made, so that it can be captured again. */
void ph__callable_reset(ph__callable *callable);

/* PH_OK, or what is wrong with the arguments of ph_make_graphed_callables. */
ph_status ph__graphed_check_arguments(ph_module **out, ph_module *const *modules,
                                      const ph_sample *samples, size_t count,
                                      const ph_graphed_options *options);

/* The operands that have a gradient, inputs first: wanted[] gets them, at[] their places among
 * all; gives how many. in: the tensors that stand for the inputs. Both have room for all
 * operands. */
size_t ph__callable_wanted(const ph__callable *callable, ph_tensor *const *in, ph_tensor **wanted,
                           size_t *at);
/* The outputs that have a history on the tape; likewise. */
size_t ph__callable_differentiable(const ph__callable *callable, ph_tensor *const *out,
                                   ph_tensor **with, size_t *at);
/* Fails the tape where one of the gradients of ph__callable_wanted's operands is NULL, unless
 * that is allowed. */
void ph__callable_check_unused(const ph__callable *callable, ph_tape *tape, ph_tensor *const *grads,
                               const size_t *at, size_t count);
/* Puts "<call>: callable <name>: <step>" before the message of a failure. */
ph_status ph__callable_failed(const ph__callable *callable, ph_status status, const char *step,
                              const char *call);

/* ---- graphed_warmup.c ---- calls the module and its backward; finds out what it writes to. */
ph_status ph__callable_warm_up(ph__callable *callable, const ph_sample *sample, const char *call);
/* ---- graphed_capture.c ---- all captures of all callables: forwards in order, backwards in
 * reverse. */
ph_status ph__callables_capture(ph__callable *const *callables, size_t count, const char *call);
/* ---- graphed_check.c ---- whether a call is one that the graphs were made for; false: the tape
 * has failed, and says what differs. */
bool ph__callable_check(ph_tape *tape, const ph__callable *callable, ph_tensor *const *in);
/* ---- graphed_call.c ---- the forward function of a graphed module: self is the callable. */
void ph__graphed_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self);
/* ---- graphed_bind.c ---- Inputs into callable->operands, whose parameters are there:
 * themselves, or copies where the graphs cannot take them. */
bool ph__callable_bind(ph_tape *tape, ph__callable *callable, ph_tensor *const *in);
/* The same for one tensor, a port, and its slot in a program (PH_SLOT_NONE: there is none).
 * NULL: the tape has failed. */
ph_tensor *ph__callable_take(ph_tape *tape, ph__callable *callable, const ph__program *program,
                             const ph__port *port, size_t slot, ph_tensor *x);
/* Warns, once for a callable, where what a call brings, or has saved, is the program's own, lies in
 * the pool of the callable, and a replay may have written over it. */
typedef enum ph__port_kind {
    PH__PORT_INPUT,
    PH__PORT_SAVED,
    PH__PORT_INCOMING
} ph__port_kind;
void ph__callable_look(ph__callable *callable, ph__port *port, const ph_tensor *x,
                       ph__port_kind kind);
/* Memory for a gradient of this call: of no pool that the callable's graphs write, whatever pool
 * the calling thread is routed to. As ph_empty, at a fraction of the cost; the caller's.
 * end_aside: once a call has all of them. */
ph_tensor *ph__callable_gradient(ph_tape *tape, ph__callable *callable, ph_dtype dtype,
                                 const ph_shape *shape, size_t bytes);
void ph__callable_end_aside(ph_tape *tape, ph__callable *callable);
/* ---- graphed_leaves.c ---- the leaf whose own gradient may take a sum from the graph's last
 * node, or NULL; which of these gradients it may add to in one launch: ph__exit.apart. False:
 * the tape has failed. */
ph_tensor *ph__exit_leaf(const ph__grad_call *call, const ph__exit *leaving);
bool ph__exit_may_add(const ph__callable *callable, const ph_tensor *leaf);
bool ph__callable_look_at_leaves(const ph__grad_call *call, ph__callable *callable);
/* ---- graphed_watch.c ---- what is changed in place outside of the graphs' own memory. */
void ph__storages_free(ph__storages *list);
void ph__callable_count_changes(const ph__callable *callable); /* forward has been replayed */
uint64_t ph__callable_versions(
    const ph__callable *callable); /* of what is exposed: another number, once one was changed */
/* ---- graphed_used.c ---- the backward for the gradients that came: the callable itself where all
 * its outputs have one, else one that was captured for these outputs, or is now. NULL: the tape has
 * failed. */
ph__callable *ph__callable_used(ph_tape *tape, ph__callable *callable, ph_tensor *const *out_grads);
/* Before a replay of one of the others: the tape's stream will use the stand-ins' memory. */
ph_status ph__callable_use_stand_ins(ph__callable *callable, const ph_tape *tape);
/* Output i has a history in a call with these inputs. */
bool ph__callable_has_history(const ph__callable *callable, size_t output, ph_tensor *const *in);
size_t ph__callable_most_backwards(const ph__callable *callable);
void ph__callable_drop_others(ph__callable *callable);
void ph__callable_drop_other(ph__callable *other); /* takes NULL */
void ph__callable_drop_stand_ins(ph__callable *callable);
/* "[0], [2]": the outputs that have a gradient. */
void ph__callable_name_used(char *text, size_t size, const ph__callable *other);

/* ---- graphed_structure.c ---- NULL with no host memory, or for NULL. */
ph_structure *ph__structure_copy(const ph_structure *structure);
void ph__structure_free(ph_structure *structure); /* takes NULL */

/* ---- graphed_call.c ---- */
static inline bool ph__module_is_graphed(const ph_module *module)
{
    return module && module->forward == ph__graphed_forward;
}
#endif
