/* SPDX-License-Identifier: MIT */
/* tensor/autograd/hooks.c: functions of the user's that see gradients, and may replace them. */
#include "base/status.h"
#include "base/unwind.h"
#include "tensor/autograd/autocast.h"

/* Those of what an operator made are its node's, so that they outlive the handle, as the history
 * does. */
static ph_tensor_hook **list_of(ph_tensor *x)
{
    if (ph__node_is_alive(x->node))
        return &x->node->hooks;
    ph__leaf *leaf = ph__tensor_leaf(x);
    return leaf ? &leaf->hooks : NULL;
}

ph_status ph_tensor_hook_add(ph_tensor_hook **out, ph_tensor *x, ph_tensor_hook_fn fn, void *user)
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
    while (*list)
        list = &(*list)->next;
    *list = hook;
    hook->link = list;
    *out = hook;
    return PH_OK;
}

static void take_out(ph_tensor_hook *hook)
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
        take_out(hook);
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

/* While they run none of them leaves the list, whatever they remove; those that they add come
 * behind the last. */
static ph_tensor_hook *hold(ph_tensor_hook *first)
{
    ph_tensor_hook *last = first;
    for (ph_tensor_hook *hook = first; hook; hook = hook->next) {
        hook->running++;
        last = hook;
    }
    return last;
}

static void let_go(ph_tensor_hook *first, const ph_tensor_hook *last)
{
    for (ph_tensor_hook *hook = first, *next; hook; hook = next) {
        bool ended = hook == last;
        next = hook->next;
        hook->running--;
        if (hook->removed && hook->running == 0)
            take_out(hook);
        if (ended)
            return;
    }
}

/* The reference to grad goes over to what is given. */
static ph_tensor *run_one(ph_tape *tape, const ph_tensor_hook *hook, ph_tensor *grad)
{
    ph_autocast autocast = tape->autocast;
    ph_tensor *given = hook->fn(tape, grad, hook->user);
    ph__autocast_restore(tape, autocast);
    if (!given)
        ph_tape_fail(tape, PH_ERROR_CALLER,
                     "backward: a hook gave no gradient; it must give one, or what it got");
    else if (given != grad)
        ph_tape_check(tape, ph__tensor_check_grad(grad, given, "backward: a hook"));
    ph_tensor *kept = ph__tape_failed(tape) ? NULL : ph_tensor_retain(given);
    ph_tensor_release(grad);
    return kept;
}

typedef struct running {
    ph_tensor_hook *first;
    const ph_tensor_hook *last;
    ph_tensor **grad; /* a reference that the hook was lent */
} running;

/* A hook did not return. */
static void abandon(void *what)
{
    const running *r = what;
    let_go(r->first, r->last);
    ph_tensor_release(*r->grad);
}

ph_tensor *ph__tensor_hooks_run(ph_tape *tape, ph_tensor_hook *const *list, uint32_t output,
                                ph_tensor *grad)
{
    ph_tensor_hook *first = *list;
    const ph_tensor_hook *last = hold(first);
    running r = {first, last, &grad};
    PH__UNWIND unwind = {abandon, &r};
    ph_tensor_retain(grad);
    for (ph_tensor_hook *hook = first; hook && grad; hook = hook == last ? NULL : hook->next)
        if (hook->output == output && !hook->removed)
            grad = run_one(tape, hook, grad);
    unwind.undo = NULL;
    let_go(first, last);
    return grad;
}
