/* SPDX-License-Identifier: MIT */
/* nn/optimizer/options_sgd.c: SGD: its options. */
#include "nn/optimizer/options.h"
#include "nn/optimizer/sgd.h"

static ph_status read_sgd(ph__optimizer_settings *s, ph__optimizer_parts *parts,
                          const void *options, const ph__optimizer_settings *outer,
                          const char *call)
{
    const ph_sgd_options *o = options;
    if (!PH__RESERVED_OK(o))
        return ph__fail_reserved(call, "ph_sgd_options");
    *parts = PH__OPTIMIZER_PARTS(o);
    *s =
        (ph__optimizer_settings){.lr = ph__option_lr(o->lr, outer, 0),
                                 .number = {ph__option_number(o->weight_decay, outer, 0, 0),
                                            ph__option_number(o->momentum, outer, 1, 0),
                                            ph__option_number(o->dampening, outer, 2, 0)},
                                 .flags = ph__option_flag(o->maximize, PH__UPDATE_MAXIMIZE, outer) |
                                          ph__option_flag(o->nesterov, PH__UPDATE_NESTEROV, outer)};
    PH_TRY(ph__option_at_least_0(s->lr, "lr", call));
    PH_TRY(ph__option_at_least_0(s->number[0], "weight_decay", call));
    PH_TRY(ph__option_at_least_0(s->number[1], "momentum", call));
    PH_TRY(ph__option_finite(s->number[2], "dampening", call));
    if (s->flags & PH__UPDATE_NESTEROV && (s->number[1] <= 0 || s->number[2] != 0))
        return ph_fail(PH_ERROR_ARGUMENT, "%s: nesterov needs a momentum, and no dampening", call);
    if (s->number[1] > 0) {
        s->flags |= PH__UPDATE_STATE;
        s->states = 1;
    }
    return PH_OK;
}

ph_status ph_sgd_create(ph_optimizer **out, ph_module *module, const ph_sgd_options *options)
{
    static const ph__optimizer_form form = {&ph__optimizer_sgd, "ph_sgd_create", NULL, read_sgd};
    return ph__optimizer_create(out, module, options, &form);
}
