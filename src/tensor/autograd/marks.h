/* SPDX-License-Identifier: MIT */
/* tensor/autograd/marks.h: the scopes of annotation.h in backward. */
#ifndef PH_TENSOR_AUTOGRAD_MARKS_H
#define PH_TENSOR_AUTOGRAD_MARKS_H
#include "tensor/tape/tape.h"

/* Opens the scope of mark (NULL: none, there is the phase alone) for backward's work. False: the
 * tape has failed, and nothing is open. */
bool ph__tape_resume(ph_tape *tape, ph_annotation_scope *mark);
/* Ends it, which is the one above `depth`, and first those that callbacks left open in it. */
void ph__tape_end_mark(ph_tape *tape, size_t depth);
/* After a function of the user's, which may have left early because the tape has failed: ends
 * what it left open above `depth`. */
static inline void ph__tape_unwind_marks(const ph_tape *tape, size_t depth)
{
    if (ph__tape_failed(tape))
        ph_annotation_unwind(depth);
}
#endif
