/* SPDX-License-Identifier: MIT */
/* nn/graphed/structure.c: structures that graphed callables keep, and calls that bring one
 * along. */
#include "base/alloc.h"
#include "nn/graphed/graphed.h"

static void drop(ph_structure *structure)
{
    for (size_t i = 0; structure->keys && i < structure->count; i++)
        ph__free((char *)(uintptr_t)structure->keys[i]);
    ph__free((void *)(uintptr_t)structure->keys);
    for (size_t i = 0; structure->children && i < structure->count; i++)
        drop((ph_structure *)(uintptr_t)&structure->children[i]);
    ph__free((void *)(uintptr_t)structure->children);
}

/* Fills one that is zero; what it has so far is dropped by the caller when it fails. */
static bool copy(ph_structure *to, const ph_structure *from)
{
    to->kind = from->kind;
    to->count = from->count;
    if (from->kind == PH_STRUCTURE_DICT && from->keys) {
        char **keys = ph__calloc(from->count + 1, sizeof *keys);
        to->keys = (const char *const *)keys;
        for (size_t i = 0; keys && i < from->count; i++)
            if (!(keys[i] = ph__strdup(from->keys[i])))
                return false;
        if (!keys)
            return false;
    }
    if (from->kind != PH_STRUCTURE_TENSOR && from->children) {
        ph_structure *children = ph__calloc(from->count + 1, sizeof *children);
        to->children = children;
        for (size_t i = 0; children && i < from->count; i++)
            if (!copy(&children[i], &from->children[i]))
                return false;
        return children != NULL;
    }
    return true;
}

void ph__structure_free(ph_structure *structure)
{
    if (structure)
        drop(structure);
    ph__free(structure);
}

ph_structure *ph__structure_copy(const ph_structure *structure)
{
    ph_structure *made = structure ? ph__calloc(1, sizeof *made) : NULL;
    if (!made || copy(made, structure))
        return made;
    ph__structure_free(made);
    return NULL;
}

/* Whether a structure that came with a call has as many tensors as it. what: its inputs or
 * outputs. */
static bool counts(ph_tape *tape, const ph_structure *structure, size_t count, const char *what)
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

static bool nests(ph_tape *tape, const ph_module *module, const ph_structure *want,
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
    if (!tape || ph__tape_failed(tape) || !counts(tape, in_structure, in_count, "inputs") ||
        !counts(tape, out_structure, out_count, "outputs"))
        return;
    if (ph__module_is_graphed(module)) {
        const ph__callable *callable = module->self;
        if (!nests(tape, module, callable->structure, in_structure, "inputs") ||
            (out_structure &&
             !nests(tape, module, callable->out_structure, out_structure, "outputs")))
            return;
    }
    ph_call_n(tape, module, out, out_count, in, in_count);
}
