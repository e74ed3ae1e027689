/* SPDX-License-Identifier: MIT */
/* nn/graphed/tapes.c: the tapes of a set's captures: one of those that stay, one of the probes. */
#include "nn/graphed/tapes.h"
#include "base/status.h"
#include "tensor/tape/tape.h"

ph_status ph__set_make_tape(ph_tape **out, const ph__graphed_set *set)
{
    return ph_tape_create(out, set->stream,
                          &(ph_tape_options){.generator = set->options.generator,
                                             .mark_modules = set->options.mark_modules,
                                             .autocast = set->options.autocast});
}

ph_status ph__set_probe_tape(ph_tape **out, ph__graphed_set *set)
{
    if (!set->probe_tape)
        PH_TRY(ph__set_make_tape(&set->probe_tape, set));
    *out = set->probe_tape;
    return PH_OK;
}

/* The module may have changed its modes. */
void ph__set_renew_probe_tape(ph__graphed_set *set)
{
    ph_tape *tape = set->probe_tape;
    if (ph_tape_clear(tape) != PH_OK) {
        ph__set_drop_probe_tape(set);
        return;
    }
    ph_tape_set_generator(tape, set->options.generator);
    tape->grad_enabled = true;
    tape->autocast = set->options.autocast;
}

void ph__set_drop_probe_tape(ph__graphed_set *set)
{
    ph_tape_destroy(set->probe_tape);
    set->probe_tape = NULL;
}
