/* SPDX-License-Identifier: MIT */
/* nn/graphed/warmup.h: calls of modules before their capture. */
#ifndef PH_NN_GRAPHED_WARMUP_H
#define PH_NN_GRAPHED_WARMUP_H
#include "nn/graphed/callable.h"

/* The operands that have a gradient, inputs first: wanted[] gets them, at[] their places among
 * all; gives how many. in: the tensors that stand for the inputs. Both have room for all
 * operands. */
size_t ph__callable_wanted(const ph__callable *callable, ph_tensor *const *in, ph_tensor **wanted,
                           size_t *at);
/* The outputs that have a history on the tape; likewise. */
size_t ph__callable_differentiable(const ph__callable *callable, ph_tensor *const *out,
                                   ph_tensor **with, size_t *at);
/* Fails the tape where one of the gradients of ph__callable_wanted's operands is NULL, unless
 * that is allowed. */
void ph__callable_check_unused(const ph__callable *callable, ph_tape *tape, ph_tensor *const *grads,
                               const size_t *at, size_t count);
/* Puts "<call>: callable <name>: <step>" before the message of a failure. */
ph_status ph__callable_failed(const ph__callable *callable, ph_status status, const char *step,
                              const char *call);

/* Calls the module and its backward; finds out what it writes to. */
ph_status ph__callable_warm_up(ph__callable *callable, const ph_sample *sample, const char *call);
#endif
