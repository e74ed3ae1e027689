/* SPDX-License-Identifier: MIT */
/* nn/graphed/structure.c: structures that graphed callables keep. */
#include "nn/graphed/structure.h"
#include "base/alloc.h"

static void drop_structure(ph_structure *structure)
{
    for (size_t i = 0; structure->keys && i < structure->count; i++)
        ph__free((char *)(uintptr_t)structure->keys[i]);
    ph__free((void *)(uintptr_t)structure->keys);
    for (size_t i = 0; structure->children && i < structure->count; i++)
        drop_structure((ph_structure *)(uintptr_t)&structure->children[i]);
    ph__free((void *)(uintptr_t)structure->children);
}

/* Fills one that is zero; what it has so far is dropped by the caller when it fails. */
static bool copy_structure(ph_structure *to, const ph_structure *from)
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
            if (!copy_structure(&children[i], &from->children[i]))
                return false;
        return children != NULL;
    }
    return true;
}

void ph__structure_free(ph_structure *structure)
{
    if (structure)
        drop_structure(structure);
    ph__free(structure);
}

ph_structure *ph__structure_copy(const ph_structure *structure)
{
    ph_structure *made = structure ? ph__calloc(1, sizeof *made) : NULL;
    if (!made || copy_structure(made, structure))
        return made;
    ph__structure_free(made);
    return NULL;
}
