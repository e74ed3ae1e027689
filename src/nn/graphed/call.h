/* SPDX-License-Identifier: MIT */
/* nn/graphed/call.h: calls of graphed callables. */
#ifndef PH_NN_GRAPHED_CALL_H
#define PH_NN_GRAPHED_CALL_H
#include "nn/module/module.h"

/* The forward function of a graphed module: self is the callable. */
void ph__graphed_forward(ph_tape *tape, ph_tensor **out, ph_tensor *const *in, void *self);
static inline bool ph__module_is_graphed(const ph_module *module)
{
    return module && module->forward == ph__graphed_forward;
}
#endif
