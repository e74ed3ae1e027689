/* SPDX-License-Identifier: MIT */
/* nn/graphed/callable.h: callables, and the sets that they are made in. */
#ifndef PH_NN_GRAPHED_CALLABLE_H
#define PH_NN_GRAPHED_CALLABLE_H
#include "nn/graphed/binding.h"
#include "nn/graphed/output_sets.h"
#include "nn/module/module.h"
#include "tensor/tape/op.h"
#include <phonograph/graphed.h>
#include <phonograph/memory_plan.h>
#include <phonograph/slots.h>

typedef struct ph__callable ph__callable;
typedef PH__VEC(ph__storage *) ph__storages; /* each retained */

/* State that the callables of one ph_make_graphed_callables share. */
typedef struct ph__graphed_set {
    atomic_int references;
    ph_device *device; /* retained */
    ph_pool *pool;     /* retained */
    ph_stream *stream; /* of the captures */
    /* the tape of the captures; keeps the tensors that backward reads */
    ph_tape *tape;
    ph_tape *probe_tape;        /* of the captures that are dropped; NULL: none is under way */
    ph__shared_pool *shared;    /* retained */
    ph_graphed_options options; /* its pointers are not followed after the making */
    /* allocations before the captures, and since the last probe: see making.c */
    uint64_t begun, probed;
    /* the last kernels of whose parameters nobody told the types: see touched.c; name "": none */
    struct ph__untyped {
        char name[160];
        size_t args_size;
    } untyped[24];
    size_t untyped_next, untyped_met; /* where the next one goes, and which was met last */
    /* ---- planned.c: while the captures are made ---- */
    ph_memory_plan *plan; /* NULL: none was asked for, or all is made */
    ph_pool *probe_pool;  /* retained; of what is captured to be noted; NULL: it is `pool` */
    bool plan_ended;      /* the plan had ended when that was asked last */
} ph__graphed_set;

struct ph__callable {
    atomic_int references; /* of its module, and of each node of a tape that will call backward */
    int ahead;             /* of them, those that calls give away (ph__reference_give) */
    ph__graphed_set *set;  /* retained */
    ph_module *original;   /* retained */
    struct ph__mode {
        const ph_module *module; /* the original, or one below it */
        bool training;
    } * modes; /* at capture; the original's first */
    size_t mode_count;
    ph_structure *structure, *out_structure; /* of the inputs and the outputs; owned; NULL: flat */
    size_t in_count, out_count, parameter_count;
    ph__binding *inputs;       /* in_count */
    ph__binding *grad_outputs; /* out_count */
    ph_tensor **outputs;       /* out_count, the graph's own memory, retained */
    int *outputs_ahead;        /* out_count, of the references of their storages */
    /* in_count + parameter_count: of the call under way, then the parameters, which are retained */
    ph_tensor **operands;
    void **parameter_data;
    bool *parameter_grads;
    /* of the original's parameters and buffers, as they were when it was captured */
    ph__parameter_slots parameter_slots;
    bool *parameter_saved;    /* backward reads it: not to be changed before that */
    size_t *saved_parameters; /* their numbers; saved_count - saved_inputs */
    /* of the same: a tensor has one storage for as long as it lives */
    const ph__storage **saved_storages;
    /* to the parameters, for the history of calls; NULL: none yet */
    ph__leaf_edges *leaf_edges;
    /* In a call: a parameter requires a gradient; all of them are leaves in memory that the tape's
     * stream uses already, which no replay writes. */
    bool trains, plain;
    /* ph__relied_changes, and the tape's key, when a call found these two, all parameters as they
     * were at the capture, and all modes so; plain is true then. 0: look at them */
    uint64_t relied_at, relied_key;
    ph__grad_input *grad_inputs;
    size_t grad_input_count, op_slot_count;
    /* gradients with a leaf's own one, by its address: of the last look */
    size_t *grad_input_order;
    size_t *op_slots;                     /* of the bundles at the end of backward */
    uint8_t *ops;                         /* op_slot_count * PH__BUNDLE_MAX */
    ph__callable_graph forward, backward; /* graph NULL: there is no backward */
    bool differentiable;                  /* an output has a gradient */
    bool copies_all;                      /* nothing is rebound: asked for, or a proof failed */
    bool frozen_reported;                 /* frozen.h */
    /* code outside of the library was given the address of an input or a gradient in a capture */
    bool shown;
    bool keeps_saved; /* backward reads what each forward writes anew */
    ph__output_set *out_set, *saved_set, *grad_set;
    int out_set_ahead;    /* of the references of out_set */
    ph__storages changed; /* not the graphs' own: forward changes them in place */
    ph__storages held;    /* not the graphs' own: the graphs read or write them */
    /* where gradients went in the captures, while replays look at what their slots have: `idle`
     * of grad_inputs; else NULL */
    void *outgoing;
    /* with another capture: forward keeps to the memory that it has outside */
    bool compared;
    /* backward reads them, and others can change them in place: outputs, buffers; neither inputs
     * nor parameters */
    ph__storages exposed;
    ph_slot_value *values; /* scratch of a call */
    size_t saved_count;    /* rebound inputs that backward reads, then parameters that it reads */
    size_t saved_inputs;   /* the former */
    size_t saved_bytes;
    /* for copies and gradients of threads that are routed to the callables' own pool; NULL: none
     * yet */
    ph_pool *aside;
    /* In a call: memory of leaves' new gradients, and of those that are added to older ones.
     * NULL: none yet. */
    ph__tensor_batch *batches[2];
    bool unbatched;     /* this call found no memory for one */
    bool routed_aside;  /* this call's thread is */
    bool checked_route; /* this call has looked where its thread is routed to */
    /* a warning was given that memory which a call brought may have been overwritten */
    bool pool_reported;
    /* ---- used.c, depends.c, others.c ---- */
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
    /* One of these. used of `grad_outputs` says which outputs, used of `inputs` what its first node
     * copies to the stand-ins; operands, parameter_grads and values are borrowed from `of`. */
    ph__callable *next, *of;
};

static inline ph_tensor **ph__callable_parameters(const ph__callable *callable)
{
    return callable->operands + callable->in_count;
}
ph__callable *ph__callable_retain(ph__callable *callable);
void ph__callable_release(ph__callable *callable); /* takes NULL */
void ph__callable_end(ph__callable *callable);     /* by its module: there will be no more calls */
void ph__graphed_set_release(ph__graphed_set *set);
/* As the module that it was made from has it; in room. */
const char *ph__callable_parameter_name(char *room, size_t size, const ph__callable *callable,
                                        size_t parameter);
/* Drops what its captures made, so that it can be captured again. */
void ph__callable_reset(ph__callable *callable);
#endif
