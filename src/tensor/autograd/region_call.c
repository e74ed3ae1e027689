/* SPDX-License-Identifier: MIT */
/* tensor/autograd/region_call.c: calls a checkpointed function. */
#include "tensor/autograd/region_call.h"
#include "tensor/autograd/marks.h"
#include "tensor/core/quarantine.h"
#include "tensor/tape/node.h"
#include "tensor/tape/region.h"
#include "tensor/tape/tape.h"
#include <stdio.h>

bool ph__region_call_fn(ph_tape *tape, const ph__region_run *r)
{
    size_t depth = ph_annotation_depth();
    tape->callbacks++;
    r->fn(tape, r->out, r->in, r->user);
    tape->callbacks--;
    ph__tape_unwind_marks(tape, depth);
    for (size_t i = 0; i < r->out_count && !ph__tape_failed(tape); i++)
        if (!r->out[i])
            ph_tape_fail(tape, PH_ERROR_CALLER, "%s: the function gave no output %zu",
                         PH__CHECKPOINT, i);
        else
            ph_tape_check(tape, ph__tensor_check_there(r->out[i], PH__CHECKPOINT,
                                                       "an output of the function"));
    return !ph__tape_failed(tape);
}

bool ph__region_call(ph_tape *tape, ph__region *region, bool hollow, const ph__region_run *r)
{
    ph__region *outer = tape->region;
    bool was_hollow = tape->hollow, enabled = tape->grad_enabled;
    ph_autocast autocast = tape->autocast;
    tape->region = region;
    tape->hollow = hollow;
    tape->grad_enabled = true;
    tape->autocast = region->autocast;
    bool ok = ph__region_call_fn(tape, r);
    tape->region = outer;
    tape->hollow = was_hollow;
    tape->grad_enabled = enabled;
    tape->autocast = autocast;
    return ok;
}
