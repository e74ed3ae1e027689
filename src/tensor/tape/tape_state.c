/* SPDX-License-Identifier: MIT */
/* tensor/tape/tape_state.c: what becomes of a tape where a function of the user's is left by a C++
 * exception, or by the end of its thread. */
#include "tensor/tape/tape_state.h"
#include "tensor/tape/tape.h"

void ph__tape_state_begin(ph__tape_state *state, ph_tape *tape, const char *what)
{
    *state = (ph__tape_state){.tape = tape,
                              .what = what,
                              .region = tape->region,
                              .autocast = tape->autocast,
                              .grad_enabled = tape->grad_enabled,
                              .hollow = tape->hollow,
                              .callbacks = tape->callbacks,
                              .passes = tape->passes,
                              .floor = tape->floor,
                              .depth = tape->depth,
                              .marks = ph_annotation_depth()};
}

void ph__tape_state_left(const ph__tape_state *state)
{
    ph_tape *tape = state->tape;
    const ph_error saved = *ph_error_last();
    tape->region = state->region;
    tape->autocast = state->autocast;
    tape->grad_enabled = state->grad_enabled;
    tape->hollow = state->hollow;
    tape->callbacks = state->callbacks;
    tape->passes = state->passes;
    tape->floor = state->floor;
    tape->depth = state->depth;
    ph_annotation_unwind(state->marks);
    if (!ph__tape_failed(tape))
        ph_tape_fail(tape, PH_ERROR_CALLER,
                     "%s did not return: an exception left it, or its thread ended", state->what);
    ph_ignore(ph_error_set(&saved));
}
