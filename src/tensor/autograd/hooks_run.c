/* SPDX-License-Identifier: MIT */
/* tensor/autograd/hooks_run.c: functions of the user's that see gradients, and may replace them. */
#include "tensor/autograd/hooks_run.h"
#include "base/unwind.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/autocast.h"
#include "tensor/tape/hooks.h"
#include "tensor/tape/leaf.h"
#include "tensor/tape/tape.h"
#include "tensor/tape/tape_error.h"

/* While they run none of them leaves the list, whatever they remove. Those that they add are not
 * held, and run in later passes. */
static ph_tensor_hook *hold_hooks(ph_tensor_hook *first)
{
    ph_tensor_hook *last = first;
    for (ph_tensor_hook *hook = first; hook; hook = hook->next) {
        hook->running++;
        last = hook;
    }
    return last;
}

static void let_go_of_hooks(ph_tensor_hook *first, const ph_tensor_hook *last)
{
    for (ph_tensor_hook *hook = first, *next; hook; hook = next) {
        bool ended = hook == last;
        next = hook->next;
        if (hook->running > 0 && --hook->running == 0 && hook->removed)
            ph__hook_destroy(hook);
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
static void abandon_tensor_hooks(void *what)
{
    const running *r = what;
    let_go_of_hooks(r->first, r->last);
    ph_tensor_release(*r->grad);
}

ph_tensor *ph__tensor_hooks_run(ph_tape *tape, ph_tensor_hook *const *list, uint32_t output,
                                ph_tensor *grad)
{
    ph_tensor_hook *first = *list;
    const ph_tensor_hook *last = hold_hooks(first);
    running r = {first, last, &grad};
    PH__UNWIND unwind = {abandon_tensor_hooks, &r};
    ph_tensor_retain(grad);
    for (ph_tensor_hook *hook = first; hook && grad; hook = hook == last ? NULL : hook->next)
        if (hook->output == output && !hook->removed && hook->running > 0)
            grad = run_one(tape, hook, grad);
    unwind.undo = NULL;
    let_go_of_hooks(first, last);
    return grad;
}
