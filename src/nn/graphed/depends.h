/* SPDX-License-Identifier: MIT */
/* nn/graphed/depends.h: what outputs of a callable depend on. */
#ifndef PH_NN_GRAPHED_DEPENDS_H
#define PH_NN_GRAPHED_DEPENDS_H
#include "nn/graphed/capture.h"

/* Output i has a history in a call with these inputs. */
bool ph__callable_has_history(const ph__callable *callable, size_t output, ph_tensor *const *in);
size_t ph__callable_most_backwards(const ph__callable *callable);
/* Keeps the facts for later captures of backward: the inputs on which each output depends, and the
 * stand-ins. */
ph_status ph__making_keep(ph__making *making, const char *call);
#endif
