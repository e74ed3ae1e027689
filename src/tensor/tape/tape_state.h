/* SPDX-License-Identifier: MIT */
/* tensor/tape/tape_state.h: what of a tape a function of the user's may have changed. */
#ifndef PH_TENSOR_TAPE_TAPE_STATE_H
#define PH_TENSOR_TAPE_TAPE_STATE_H
#include "tensor/tape/tape.h"

/* Around a function of the user's, or a pass: what of the tape it may have
 * changed when it is left by unwinding (base/unwind.h). begin at entry; left puts it back, and
 * the tape has failed with "<what> did not return", unless it had before. */
typedef struct ph__tape_state {
    ph_tape *tape;
    const char *what; /* borrowed */
    ph__region *region;
    ph_autocast autocast;
    bool grad_enabled, hollow;
    unsigned callbacks, passes;
    size_t floor, depth, marks;
} ph__tape_state;
void ph__tape_state_begin(ph__tape_state *state, ph_tape *tape, const char *what);
void ph__tape_state_left(const ph__tape_state *state);
#endif
