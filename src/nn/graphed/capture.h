/* SPDX-License-Identifier: MIT */
/* nn/graphed/capture.h: one capture of a callable's passes. */
#ifndef PH_NN_GRAPHED_CAPTURE_H
#define PH_NN_GRAPHED_CAPTURE_H
#include "nn/graphed/callable.h"
#include "nn/graphed/stage.h"
#include "tensor/tape/sightings.h"

/* Both passes, captured once: as they will be replayed, or as a probe, with rebound bindings at its
 * shifted addresses. */
typedef struct ph__trial {
    ph__callable *callable;
    ph_tape *tape;
    bool probe;
    size_t number; /* of the probe */
    ph_graph *forward, *backward;
    ph_tensor **in, **out, **grad_outputs; /* in_count, out_count, out_count; retained */
    ph__grad_input *grad_inputs;
    size_t grad_input_count;
    size_t first_node; /* of the tape */
    bool writes_input;
    bool shown;            /* code outside of the library was given the address of a stand-in */
    ph__sightings seen[2]; /* of forward, of backward */
} ph__trial;

/* Memory for the stages of all callables that are made together, by direction. */
enum {
    PH__ROOM_INPUTS,
    PH__ROOM_GRAD_OUTPUTS,
    PH__ROOM_OUTGOING,
    PH__ROOMS
};

/* State that the captures of one callable share. */
typedef struct ph__making {
    ph__callable *callable;
    ph__stage_room *rooms; /* PH__ROOMS, of all makings; NULL: this one is alone */
    ph__stage_plan plan;
    ph__stage inputs, grad_outputs, outgoing; /* outgoing: base: where gradients go */
    ph__trial real, *probes; /* room for as many as planned; NULL: none was tried */
    size_t probe_count;      /* of them, those that ran */
    size_t plan_at[2];       /* of forward, of backward: the numbers in the set's plan */
    bool outputs_known;      /* grad_outputs are staged, where there are any */
} ph__making;

ph_status ph__trial_forward(ph__trial *trial, ph__making *making, const char *call);
ph_status ph__trial_backward(ph__trial *trial, ph__making *making, const char *call);
void ph__trial_free(ph__trial *trial, bool graphs);
#endif
