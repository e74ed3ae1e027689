/* SPDX-License-Identifier: MIT */
/* nn/graphed/call_structured.c: calls that bring the structure of their inputs or outputs along. */
#include "nn/graphed/call.h"
#include "nn/graphed/callable.h"
#include "tensor/core/tensor.h"
#include "tensor/tape/tape.h"

/* Whether a structure that came with a call has as many tensors as it. what: its inputs or
 * outputs. */
static bool check_count(ph_tape *tape, const ph_structure *structure, size_t count,
                        const char *what)
{
    if (!structure || ph_structure_count(structure) == count)
        return true;
    ph_tape_fail(
        tape, PH_ERROR_ARGUMENT,
        "ph_call_structured: the structure of the %s is malformed, or has not as many tensors as "
        "the call: %zu",
        what, count);
    return false;
}

static bool check_nesting(ph_tape *tape, const ph_module *module, const ph_structure *want,
                          const ph_structure *came, const char *what)
{
    char where[256];
    if (ph_structure_equal(want, came, where, sizeof where))
        return true;
    ph_tape_fail(tape, PH_ERROR_ARGUMENT,
                 "graphed callable '%s': its %s must nest as in its sample, in the same order: %s",
                 module->name, what, where);
    return false;
}

void ph_call_structured(ph_tape *tape, ph_module *module, ph_tensor **out, size_t out_count,
                        ph_tensor *const *in, size_t in_count, const ph_structure *in_structure,
                        const ph_structure *out_structure)
{
    for (size_t i = 0; out && i < out_count; i++)
        out[i] = NULL;
    if (!tape || ph__tape_failed(tape) || !check_count(tape, in_structure, in_count, "inputs") ||
        !check_count(tape, out_structure, out_count, "outputs"))
        return;
    if (ph__module_is_graphed(module)) {
        const ph__callable *callable = module->self;
        if (!check_nesting(tape, module, callable->structure, in_structure, "inputs") ||
            (out_structure &&
             !check_nesting(tape, module, callable->out_structure, out_structure, "outputs")))
            return;
    }
    ph_call_n(tape, module, out, out_count, in, in_count);
}
