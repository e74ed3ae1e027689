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
    bool last;       /* the user's come before it, whenever they were added */
    unsigned running;
};
/* ph_tensor_hook_add, of a hook that runs behind all of the user's. */
ph_status ph__tensor_hook_add_last(ph_tensor_hook **out, ph_tensor *x, ph_tensor_hook_fn fn,
                                   void *user);
void ph__hooks_release(
    /* The owner of the hooks goes; the handles stay the user's. Takes NULL. */
    ph_tensor_hook *list);
/* The hook leaves its list, and is freed. */
void ph__hook_destroy(ph_tensor_hook *hook);
#endif
