/* SPDX-License-Identifier: MIT */
/* nn/graphed/check.c: what a graphed callable is called with, against what its graphs were made
 * for. */
#include "nn/graphed/check.h"
#include "nn/graphed/binding.h"
#include "nn/graphed/callable.h"
#include "nn/module/parameter_slots.h"
#include "tensor/core/describe.h"
#include "tensor/core/released.h"
#include "tensor/core/relied.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/node.h"
#include "tensor/tape/tape.h"

#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define COLD        __attribute__((cold, noinline))

static COLD void fail_device(ph_tape *tape, const ph__callable *callable, const char *path,
                             const ph_tensor *x)
{
    ph_device_info here = {.name = "?"};
    char got[PH__DESCRIBE];
    ph_ignore(ph_device_get_info(&here, callable->set->device));
    ph_tape_fail(tape, PH_ERROR_WRONG_DEVICE,
                 "graphed callable '%s': input %s: expected a tensor on %s, the device of its "
                 "sample, got %s on "
                 "another device, %s; ph_to_device copies it there",
                 callable->original->name, path, here.name, ph__describe(got, x),
                 x->storage->backend->info.name);
}

static COLD bool fail_call_input(ph_tape *tape, const ph__callable *callable, size_t i,
                                 const ph_tensor *x)
{
    const ph__binding *binding = &callable->inputs[i];
    char path[96], want[PH__DESCRIBE], got[PH__DESCRIBE];
    (void)ph_structure_path(path, sizeof path, callable->structure, i);
    ph_tensor expected = {.dtype = binding->dtype, .shape = binding->shape};
    if (!x)
        ph_tape_fail(tape, PH_ERROR_ARGUMENT,
                     "graphed callable '%s': input %s is NULL; expected %s",
                     callable->original->name, path, ph__describe(want, &expected));
    else if (x->storage->backend == &ph__backend_gone)
        ph_tape_fail(tape, PH_ERROR_STATE,
                     "graphed callable '%s': input %s (%s) is gone: its last reference was "
                     "released, or its tape was cleared; PH_QUARANTINE=100000 says which",
                     callable->original->name, path, ph__describe(got, x));
    else if (x->storage->backend->device != callable->set->device)
        fail_device(tape, callable, path, x);
    else if (x->dtype != binding->dtype || !ph_shape_equal(&x->shape, &binding->shape))
        ph_tape_fail(
            tape, PH_ERROR_ARGUMENT,
            "graphed callable '%s': input %s: expected %s as in its sample, got %s%s",
            callable->original->name, path, ph__describe(want, &expected), ph__describe(got, x),
            x->dtype != binding->dtype && tape->autocast.dtype != 0
                ? "; under autocast give it a sample of the dtype that the module before it gives"
                : "");
    else
        ph_tape_fail(
            tape, PH_ERROR_ARGUMENT,
            "graphed callable '%s': input %s: expected a tensor that requires no gradient, as in "
            "its sample, got one that does "
            "(%s): its gradient would be lost; detach it, or make the callable with a sample that "
            "requires one",
            callable->original->name, path, ph__describe(got, x));
    return false;
}

static bool check_inputs(ph_tape *tape, const ph__callable *callable, ph_tensor *const *in)
{
    for (size_t i = 0; i < callable->in_count; i++) {
        const ph__binding *binding = &callable->inputs[i];
        const ph_tensor *x = in[i];
        if (UNLIKELY(!x || x->storage->backend->device != callable->set->device ||
                     x->dtype != binding->dtype || !ph_shape_equal(&x->shape, &binding->shape) ||
                     (callable->differentiable && !binding->requires_grad && tape->grad_enabled &&
                      ph__needs_grad(x))))
            return fail_call_input(tape, callable, i, x);
    }
    return true;
}

static COLD bool fail_parameter(ph_tape *tape, const ph__callable *callable, size_t i)
{
    char name[256];
    const ph_tensor *x = ph__callable_parameters(callable)[i];
    const char *why = x->data != callable->parameter_data[i]
                          ? "is not where it was at the capture: its memory must stay"
                      : x->requires_grad ? "requires a gradient, and did not at the capture"
                                         : "requires no gradient any more";
    ph_tape_fail(
        tape, PH_ERROR_STATE, "graphed callable '%s': parameter '%s' %s; make the callable anew",
        callable->original->name, ph__callable_parameter_name(name, sizeof name, callable, i), why);
    return false;
}

static bool is_plain(const ph_tape *tape, const ph_tensor *x)
{
    const ph__storage *storage = x->storage;
    return !x->node && !x->overwrite_tag &&
           (storage->key == tape->key || atomic_load(&storage->last_key) == tape->key);
}

/* Nothing that it looks at has changed since. */
static inline bool is_as_before(const ph_tape *tape, const ph__callable *callable)
{
    return callable->relied_at == atomic_load_explicit(&ph__relied_changes, memory_order_relaxed) &&
           callable->relied_key == tape->key && !tape->sightings;
}

static bool are_modes_as_made(const ph__callable *callable)
{
    for (size_t i = 0; i < callable->mode_count; i++)
        if (callable->modes[i].module->training != callable->modes[i].training)
            return false;
    return true;
}

/* Of the original and all that is below it: the graphed module's mode goes on to them. */
bool ph__callable_is_in_mode(const ph__callable *callable)
{
    return callable->relied_at == atomic_load_explicit(&ph__relied_changes, memory_order_relaxed) ||
           are_modes_as_made(callable);
}

/* Out of line: most calls find all as it was. */
static __attribute__((noinline)) bool check_parameters(ph_tape *tape, ph__callable *callable)
{
    const uint64_t changes = atomic_load_explicit(&ph__relied_changes, memory_order_relaxed);
    bool plain = tape->sightings == NULL, trains = false;
    callable->relied_at = 0;
    for (size_t i = 0; i < callable->parameter_count; i++) {
        ph_tensor *x = ph__callable_parameters(callable)[i];
        ph__tensor_rely(x);
        if (UNLIKELY(x->data != callable->parameter_data[i] ||
                     x->requires_grad != callable->parameter_grads[i]))
            return fail_parameter(tape, callable, i);
        plain &= is_plain(tape, x);
        trains |= x->requires_grad;
    }
    callable->plain = plain;
    callable->trains = trains;
    if (plain && are_modes_as_made(callable)) {
        callable->relied_at = changes;
        callable->relied_key = tape->key;
    }
    return true;
}

static COLD bool fail_home(ph_tape *tape, const ph__callable *callable)
{
    char changed[160] = "";
    ph__parameter_slots_report(changed, sizeof changed, &callable->parameter_slots,
                               callable->original);
    ph_tape_fail(tape, PH_ERROR_STATE,
                 "graphed callable '%s': %s in the module's struct since the callable was made, "
                 "and its graphs go "
                 "on with what there was; put that back (ph_tensor_copy changes its values), or "
                 "make module and "
                 "callable anew",
                 callable->original->name, changed);
    return false;
}

/* A call in another precision than the module's own would be is no drop-in. */
static COLD bool fail_autocast(ph_tape *tape, const ph__callable *callable)
{
    ph_dtype made = callable->set->options.autocast.dtype, now = ph_tape_autocast(tape).dtype;
    ph_tape_fail(
        tape, PH_ERROR_STATE,
        "graphed callable '%s': made with autocast %s%s, and called with autocast %s%s; "
        "set it as at the making around the call (ph_tape_set_autocast; dtype 0: off), or make the "
        "callable with another ph_graphed_options.autocast",
        callable->original->name, made ? "to " : "off", made ? ph_dtype_name(made) : "",
        now ? "to " : "off", now ? ph_dtype_name(now) : "");
    return false;
}

bool ph__callable_check(ph_tape *tape, ph__callable *callable, ph_tensor *const *in)
{
    if (UNLIKELY(tape->autocast.dtype != callable->set->options.autocast.dtype))
        return fail_autocast(tape, callable);
    if (UNLIKELY(ph__parameter_slots_have_changed(&callable->parameter_slots)))
        return fail_home(tape, callable);
    return check_inputs(tape, callable, in) &&
           (is_as_before(tape, callable) || check_parameters(tape, callable));
}
