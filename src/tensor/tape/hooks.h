/* SPDX-License-Identifier: MIT */
/* tensor/tape/hooks.h: functions of the user's on gradients of tensors. */
#ifndef PH_TENSOR_TAPE_HOOKS_H
#define PH_TENSOR_TAPE_HOOKS_H
#include <phonograph/tape.h>

struct ph_tensor_hook {
    ph_tensor_hook *next, **link; /* in its list; link NULL: x, or its history, is gone */
    ph_tensor_hook_fn fn;
    void *user;
    uint32_t output; /* of a node */
    bool removed;    /* while it runs */
    unsigned running;
};
void ph__hooks_release(
    /* The owner of the hooks goes; the handles stay the user's. Takes NULL. */
    ph_tensor_hook *list);
/* The hook leaves its list, and is freed. */
void ph__hook_destroy(ph_tensor_hook *hook);
#endif
