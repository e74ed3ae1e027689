/* SPDX-License-Identifier: MIT */
/* nn/graphed/binding.h: what calls bring and get, and how graphs are given it. */
#ifndef PH_NN_GRAPHED_BINDING_H
#define PH_NN_GRAPHED_BINDING_H
#include "tensor/core/tensor.h"
#include <phonograph/slots.h>

enum {
    /* of what is rebound: the stand-ins of captures differ in all bits from it on */
    PH__BINDING_ALIGNMENT = 256
};

/* An input, or the gradient of an output, and how a call binds it. */
typedef struct ph__binding {
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
    const char *stood; /* inputs: where it lay in the capture; nothing is there */
    ph_tensor *buffer; /* copied: where to; retained */
    char reason[200];  /* why it is copied */
    /* Memory that came, and that the graph does not touch (ph__callable_graph_touches), which stays
     * so: forward's, and backward's. NULL: none yet. */
    const char *untouched[2];
    const char *elsewhere; /* memory that came, outside of the pool, and its stamp */
    uint64_t elsewhere_stamp;
} ph__binding;

/* A gradient that leaves backward, for an input or a parameter. */
typedef struct ph__grad_input {
    size_t operand; /* of the tape's node: inputs first, then parameters */
    /* borrowed: the graph's own memory; retained; contiguous. Else NULL by the end of backward */
    ph_tensor *grad;
    size_t slot; /* of the destination; PH_SLOT_NONE: it is borrowed */
    size_t bytes, alignment;
    size_t op_at; /* its place among the ops */
    /* in a call: made for that leaf, which has it once it is written */
    ph_tensor *fresh, *fresh_of;
    /* the address of its slot in calls that need no gradient here; NULL: the captured one */
    const char *idle;
    /* the leaf's own gradient that `apart` was found for; NULL: none yet */
    const char *added;
    /* nothing else of the launch writes there, nor does the graph: it may add there itself */
    bool apart;
} ph__grad_input;
#endif
