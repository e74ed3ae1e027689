/* SPDX-License-Identifier: MIT */
/* nn/module/hooks.c: hooks before and after a module's forward function, and on the gradients of
 * its outputs. */
#include "nn/module/hooks.h"
#include "base/alloc.h"
#include "base/status.h"
#include "base/unwind.h"
#include "nn/module/module.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"

struct ph_module_hook {
    ph_module_hook *next;
    ph_module *module; /* NULL once it is gone */
    ph_module_hook_point point;
    ph_module_hook_fn fn;
    void *user;
    bool removed; /* while hooks of the module run: taken out after that */
};

ph_status ph_module_hook_add(ph_module_hook **out, ph_module *module, ph_module_hook_point point,
                             ph_module_hook_fn fn, void *user)
{
    static const char call[] = "ph_module_hook_add";
    if (!out)
        return ph__fail_null(call, "out");
    *out = NULL;
    if (!module)
        return ph__fail_null(call, "module");
    if (!fn)
        return ph__fail_null(call, "fn");
    if (point < PH_MODULE_HOOK_FORWARD_PRE || point > PH_MODULE_HOOK_BACKWARD)
        return ph_fail(PH_ERROR_ARGUMENT, "%s: there is no hook point %d", call, (int)point);
    ph_module_hook *hook = ph__calloc(1, sizeof *hook);
    if (!hook)
        return ph__fail_host_memory(call, "a hook");
    *hook = (ph_module_hook){.module = module, .point = point, .fn = fn, .user = user};
    ph_module_hook **last = &module->hooks;
    while (*last)
        last = &(*last)->next;
    *last = hook;
    *out = hook;
    return PH_OK;
}

void ph_module_hook_remove(ph_module_hook *hook)
{
    if (!hook)
        return;
    if (hook->module && hook->module->hooks_running > 0) {
        hook->removed = true;
        return;
    }
    if (hook->module) {
        ph_module_hook **at = &hook->module->hooks;
        while (*at != hook)
            at = &(*at)->next;
        *at = hook->next;
    }
    ph__free(hook);
}

static void sweep_removed_hooks(ph_module *module)
{
    for (ph_module_hook **at = &module->hooks, *hook; (hook = *at);) {
        if (!hook->removed) {
            at = &hook->next;
            continue;
        }
        *at = hook->next;
        ph__free(hook);
    }
}

/* Their handles are still the users', who remove them. */
void ph__module_hooks_drop(ph_module *module)
{
    while (module->hooks) {
        ph_module_hook *hook = module->hooks;
        module->hooks = hook->next;
        hook->next = NULL;
        hook->module = NULL;
    }
}

bool ph__module_has_hook(const ph_module *module, ph_module_hook_point point)
{
    for (const ph_module_hook *hook = module->hooks; hook; hook = hook->next)
        if (hook->point == point && !hook->removed)
            return true;
    return false;
}

bool ph_module_has_hooks(const ph_module *module)
{
    if (!module)
        return false;
    for (size_t i = 0; i < module->children.count; i++)
        if (ph_module_has_hooks(module->children.at[i].module))
            return true;
    return ph__module_has_hook(module, PH_MODULE_HOOK_FORWARD_PRE) ||
           ph__module_has_hook(module, PH_MODULE_HOOK_FORWARD) ||
           ph__module_has_hook(module, PH_MODULE_HOOK_BACKWARD);
}

static void end_run(ph_module *module)
{
    if (--module->hooks_running == 0)
        sweep_removed_hooks(module);
    ph_module_release(module);
}

/* A hook did not return. */
static void abandon_module_hooks(void *module)
{
    end_run(module);
}

/* A hook may add hooks, which take part from the next run on, and remove them, which do not any
 * more. It may call the module, and let it go. */
void ph__module_hooks_run(ph_tape *tape, ph_module *module, ph_module_hook_point point,
                          ph_tensor **tensors, size_t count)
{
    const ph_module_hook *last = module->hooks;
    while (last && last->next)
        last = last->next;
    ph_module_retain(module);
    module->hooks_running++;
    PH__UNWIND unwind = {abandon_module_hooks, module};
    for (ph_module_hook *hook = module->hooks; hook && !ph__tape_failed(tape); hook = hook->next) {
        if (hook->point == point && !hook->removed)
            hook->fn(tape, module, tensors, count, hook->user);
        if (hook == last)
            break;
    }
    unwind.undo = NULL;
    end_run(module);
}

/* ---- on gradients ---- an operator that changes nothing: its backward sees all gradients of
 * the outputs at once. */
typedef struct watch {
    ph_module *module; /* retained */
    size_t count;
} watch;

static void watch_forward(ph_custom *custom, ph_tape *tape, ph_tensor **out, ph_tensor *const *in)
{
    const watch *w = ph_custom_user(custom);
    for (size_t i = 0; i < w->count; i++)
        out[i] = ph_detach(tape, in[i]);
}

static void watch_backward(ph_custom *custom, ph_tape *tape, ph_tensor **grad_in,
                           ph_tensor *const *grad_out, const bool *needed)
{
    const watch *w = ph_custom_user(custom);
    (void)needed;
    for (size_t i = 0; i < w->count; i++)
        grad_in[i] = grad_out[i];
    ph__module_hooks_run(tape, w->module, PH_MODULE_HOOK_BACKWARD, grad_in, w->count);
    for (size_t i = 0; i < w->count; i++)
        grad_in[i] = grad_out[i];
}

static void watch_release(void *user)
{
    watch *w = user;
    ph_module_release(w->module);
    ph__free(w);
}

void ph__module_hooks_attach(ph_tape *tape, ph_module *module, ph_tensor **out, size_t count)
{
    watch *w = ph__alloc(sizeof *w);
    ph_tensor **in = ph__alloc(count * sizeof *in);
    if (!w || !in) {
        ph__free(w);
        ph__free(in);
        ph_tape_fail(tape, PH_ERROR_HOST_MEMORY, "module %s: no host memory for its backward hooks",
                     module->name);
        return;
    }
    *w = (watch){ph_module_retain(module), count};
    for (size_t i = 0; i < count; i++)
        in[i] = out[i];
    ph_custom_operator op = {.name = "module hooks",
                             .forward = watch_forward,
                             .backward = watch_backward,
                             .release = watch_release,
                             .user = w};
    ph_custom_call(tape, &op, out, count, in, count);
    ph__free(in);
}
