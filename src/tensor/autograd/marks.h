/* SPDX-License-Identifier: MIT */
/* tensor/autograd/marks.h: the scopes of annotation.h in backward. */
#ifndef PH_TENSOR_AUTOGRAD_MARKS_H
#define PH_TENSOR_AUTOGRAD_MARKS_H
#include "tensor/autograd/pass.h"
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

/* In a capture, the work that follows is in the scope of mark; NULL: in none. Consecutive nodes of
 * one scope share it. False: the tape has failed. */
bool ph__pass_change_mark(ph__pass *pass, ph_annotation_scope *mark);
static inline bool ph__pass_mark(ph__pass *pass, ph_annotation_scope *mark)
{
    return (pass->mark == mark && !pass->own) || ph__pass_change_mark(pass, mark);
}
/* In a capture, the work that follows is the pass's own and in no scope: `step` of the gradient of
 * what the node made, or of the leaf, where node is NULL. The record says so of the graph's nodes.
 * False: the tape has failed. */
bool ph__pass_mark_own(ph__pass *pass, const char *step, const ph__node *node,
                       const ph_tensor *leaf);
/* At the end of the pass, and whatever callbacks left open with it. */
void ph__pass_end_marks(ph__pass *pass);
#endif
