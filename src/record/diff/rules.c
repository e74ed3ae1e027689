/* SPDX-License-Identifier: MIT */
/* record/diff/rules.c: what an update may not change in an executable, as CUDA's driver has it, and
 * as far as records show it. */
#include "record/diff/rules.h"
#include "record/diff/diff.h"
#include <string.h>

const char ph__rule_count[] =
    "an executable keeps its nodes: an update can neither add one nor take one away";
const char ph__rule_order[] = "an update pairs nodes in the order of their capture, and the pairs "
                              "that follow from this do not fit";
const char ph__rule_edges[] = "nodes keep their dependencies: the order of work must be the same";
const char ph__rule_kind[] = "a node stays of its kind";

const char *ph__update_rule(ph_update_reason reason)
{
    switch (reason) {
    case PH_UPDATE_TOPOLOGY:
        return "nodes and their dependencies must be the same";
    case PH_UPDATE_NODE_TYPE:
        return ph__rule_kind;
    case PH_UPDATE_FUNCTION:
        return "a kernel can become another one only of the same context, and alike in being "
               "cooperative, in "
               "launching work from the device "
               "and in being updated from there";
    case PH_UPDATE_PARAMETERS:
        return "a parameter that a node was made with cannot change";
    default:
        return "the driver does not support the change of such a node";
    }
}

/* The kind of memory that a side of a copy addresses; 0: not known. */
static int side_of(const ph__record_node *node, size_t offset)
{
    for (size_t w = 0; w < node->kept_count; w++)
        if (node->kept[w].offset == offset && node->kept[w].base)
            return node->kept[w].pinned ? 1 : 2;
    return 0;
}

static bool same_side(const ph__record_node *a, const ph__record_node *b, size_t offset)
{
    int mine = side_of(a, offset), theirs = side_of(b, offset);
    return mine == 0 || theirs == 0 || mine == theirs;
}

static bool same_form(const ph__record_node *a, const ph__record_node *b)
{
    return a->form == NULL || b->form == NULL || strcmp(a->form, b->form) == 0;
}

const char *ph__rule_of_pair(const ph__record_node *a, const ph__record_node *b)
{
    if (a->info.kind != b->info.kind)
        return ph__rule_kind;
    switch (a->info.kind) {
    case PH_NODE_MEMSET:
        if (a->info.value_size != b->info.value_size)
            return "the element size of a memset cannot change";
        return same_form(a, b)
                   ? NULL
                   : "a fill of few bytes is captured as a kernel, a larger one is not: neither "
                     "can become the other";
    case PH_NODE_MEMCPY:
        if (!same_form(a, b) || !same_side(a, b, 0) || !same_side(a, b, sizeof(void *)))
            return "the kind of memory on each side of a copy cannot change";
        return NULL;
    case PH_NODE_MEM_ALLOC:
        return a->info.bytes == b->info.bytes ? NULL : "what a node allocates cannot change";
    default:
        return NULL;
    }
}

static bool same_dependencies(const ph__record_node *a, const ph__record_node *b)
{
    size_t count = a->info.dependency_count;
    if (count != b->info.dependency_count)
        return false;
    for (size_t d = 0; d < count; d++)
        if (a->dependencies[d] != b->dependencies[d] ||
            a->dependency_kinds[d] != b->dependency_kinds[d])
            return false;
    return true;
}

bool ph__record_fits(const ph_record *a, const ph_record *b)
{
    if (a->node_count != b->node_count)
        return false;
    for (size_t i = 0; i < a->node_count; i++) {
        const ph__record_node *mine = &a->nodes[i], *theirs = &b->nodes[i];
        if (ph__rule_of_pair(mine, theirs) || !same_dependencies(mine, theirs))
            return false;
        if (mine->info.body && theirs->info.body &&
            !ph__record_fits(mine->info.body, theirs->info.body))
            return false;
    }
    return true;
}
