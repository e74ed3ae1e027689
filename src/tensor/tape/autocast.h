/* SPDX-License-Identifier: MIT */
/* tensor/tape/autocast.h: mixed precision as a mode of the tape (tape.h of the public
 * headers lists the rules). */
#ifndef PH_TENSOR_TAPE_AUTOCAST_H
#define PH_TENSOR_TAPE_AUTOCAST_H
#include "tensor/tape/tape.h"

static inline bool ph__autocast_is_on(const ph_tape *tape)
{
    return tape && __builtin_expect(tape->autocast.dtype != 0, false);
}
/* After a function of the user's: the mode that it has left behind is over. */
static inline void ph__autocast_restore(ph_tape *tape, ph_autocast mode)
{
    if (tape->autocast.dtype != mode.dtype || tape->autocast.no_cache != mode.no_cache)
        (void)ph_tape_set_autocast(tape, mode);
}

/* PH_OK, or ARGUMENT in the name of call. */
ph_status ph__autocast_check(const ph_autocast *mode, const char *call);
/* Weights that were cast, and the casts: released, as the mode changes, a pass of backward
 * begins or the tape is cleared. */
void ph__autocast_drop(ph_tape *tape);
/* The cast of weight that is kept, borrowed, where it is the one to use in that capture (0: none);
 * else NULL. */
ph_tensor *ph__autocast_kept(const ph_tape *tape, const ph_tensor *weight, ph_dtype dtype,
                             uint64_t capture);
/* Without host memory for it the next use casts again. */
void ph__autocast_keep(ph_tape *tape, ph_tensor *weight, ph_tensor *cast, uint64_t capture);
#endif
