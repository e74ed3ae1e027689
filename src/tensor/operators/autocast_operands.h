/* SPDX-License-Identifier: MIT */
/* tensor/operators/autocast_operands.h: casts of operands. An operator that has a rule begins with
 *
 *     ph_tensor *in[] = {x, weight, bias};
 *     ph__autocast cast;
 *     if (ph__autocast_begin(&cast, tape, PH__AUTOCAST_LOW, in, 3))
 *         return ph__autocast_end(&cast, ph_linear(tape, in[0], in[1], in[2]));
 *
 * and is so called again, with its operands cast and the mode off: what it is made of casts
 * nothing. */
#ifndef PH_TENSOR_OPERATORS_AUTOCAST_OPERANDS_H
#define PH_TENSOR_OPERATORS_AUTOCAST_OPERANDS_H
#include "tensor/tape/autocast.h"

typedef enum ph__autocast_rule {
    PH__AUTOCAST_LOW, /* to the mode's dtype */
    PH__AUTOCAST_F32,
    PH__AUTOCAST_WIDEST /* to the operands' own dtype where they have one in common, else to f32 */
} ph__autocast_rule;
typedef struct ph__autocast {
    ph_tape *tape;
    ph_autocast mode; /* to be put back */
    /* the tape's mark before the casts, which go at the end unless the history has them */
    size_t mark;
    ph_dtype dtype;  /* the dtype to which operands are cast */
    bool had_failed; /* the tape, before */
    bool has_cast;   /* an operand */
} ph__autocast;

/* Replaces those of in (NULL ones are skipped) that are f16, bf16 or f32 and not yet of the
 * rule's dtype. */
void ph__autocast_operands(ph__autocast *cast, ph_tape *tape, ph__autocast_rule rule,
                           ph_tensor **in, size_t count);
/* False: it is off, and the operator goes on by itself. True: ph__autocast_end must follow,
 * whatever became of the casts. */
static inline bool ph__autocast_begin(ph__autocast *cast, ph_tape *tape, ph__autocast_rule rule,
                                      ph_tensor **in, size_t count)
{
    if (!ph__autocast_is_on(tape))
        return false;
    ph__autocast_operands(cast, tape, rule, in, count);
    return true;
}
ph_tensor *ph__autocast_end(const ph__autocast *cast, ph_tensor *out);
#endif
