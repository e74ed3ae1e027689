/* SPDX-License-Identifier: MIT */
/* tensor/tape/hooks.c: functions of the user's that see gradients, and may replace them. */
#include "tensor/tape/hooks.h"
#include "base/alloc.h"
#include "base/status.h"
#include "tensor/core/describe.h"
#include "tensor/core/quarantine.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/leaf.h"
#include "tensor/tape/node.h"

/* Hooks on an operator's output are its node's, so that they outlive the handle, as the history
 * does. */
static ph_tensor_hook **list_of(ph_tensor *x)
{
    if (ph__node_is_alive(x->node))
        return &x->node->hooks;
    ph__leaf *leaf = ph__tensor_leaf(x);
    return leaf ? &leaf->hooks : NULL;
}

static ph_status add_hook(ph_tensor_hook **out, ph_tensor *x, ph_tensor_hook_fn fn, void *user,
                          bool last)
{
    static const char call[] = "ph_tensor_hook_add";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!x)
        return ph__fail_null(call, "x");
    if (!fn)
        return ph__fail_null(call, "fn");
    PH_TRY(ph__tensor_check_there(x, call, "the tensor"));
    if (!ph__needs_grad(x)) {
        char text[PH__DESCRIBE];
        return ph_fail(PH_ERROR_STATE,
                       "%s: %s requires no gradient: there would be none to call the hook with",
                       call, ph__describe(text, x));
    }
    ph_tensor_hook **list = list_of(x);
    ph_tensor_hook *hook = list ? ph__calloc(1, sizeof *hook) : NULL;
    if (!hook)
        return ph__fail_host_memory(call, "a hook");
    hook->fn = fn;
    hook->user = user;
    hook->output = ph__node_is_alive(x->node) ? x->output : 0;
    hook->last = last;
    while (*list && (last || !(*list)->last))
        list = &(*list)->next;
    hook->next = *list;
    if (hook->next)
        hook->next->link = &hook->next;
    *list = hook;
    hook->link = list;
    *out = hook;
    return PH_OK;
}

ph_status ph_tensor_hook_add(ph_tensor_hook **out, ph_tensor *x, ph_tensor_hook_fn fn, void *user)
{
    return add_hook(out, x, fn, user, false);
}

ph_status ph__tensor_hook_add_last(ph_tensor_hook **out, ph_tensor *x, ph_tensor_hook_fn fn,
                                   void *user)
{
    return add_hook(out, x, fn, user, true);
}

void ph__hook_destroy(ph_tensor_hook *hook)
{
    if (hook->link) {
        *hook->link = hook->next;
        if (hook->next)
            hook->next->link = hook->link;
    }
    ph__free(hook);
}

void ph_tensor_hook_remove(ph_tensor_hook *hook)
{
    if (!hook)
        return;
    if (hook->running > 0)
        hook->removed = true;
    else
        ph__hook_destroy(hook);
}

void ph__hooks_release(ph_tensor_hook *list)
{
    while (list) {
        ph_tensor_hook *hook = list;
        list = hook->next;
        hook->next = NULL;
        hook->link = NULL;
    }
}
