/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_same.c: what nodes of two captures of the same work have in common, but for
 * the words of their parameters. */
#include "graph/slots/slots_same.h"
#include "graph/memory/writes.h"
#include "graph/object/graph.h"
#include "memory/pool/pool.h"
#include "record/sparse.h"
#include <string.h>

static bool same_edges(const ph__record_node *a, const ph__record_node *b)
{
    bool same = a->info.dependency_count == b->info.dependency_count;
    for (size_t d = 0; same && d < a->info.dependency_count; d++)
        same = a->dependencies[d] == b->dependencies[d] &&
               a->dependency_kinds[d] == b->dependency_kinds[d];
    return same;
}

/* Everything but words and edges. */
static const char *other_in(const ph__record_node *a, const ph__record_node *b)
{
    const ph_node_info *mine = &a->info, *theirs = &b->info;
    if (mine->kind != theirs->kind)
        return "it is of another kind";
    if (strcmp(mine->name, theirs->name) != 0 || a->kernel != b->kernel)
        return "it is another kernel";
    if (memcmp(mine->grid, theirs->grid, sizeof mine->grid) != 0 ||
        memcmp(mine->block, theirs->block, sizeof mine->block) != 0)
        return "its grid or block differs";
    if (mine->shared_bytes != theirs->shared_bytes)
        return "its shared memory differs";
    if (mine->args_size != theirs->args_size)
        return "it has other parameters";
    if (mine->bytes != theirs->bytes || a->count != b->count)
        return "its size differs";
    if (mine->value != theirs->value || mine->value_size != theirs->value_size)
        return "its value differs";
    return NULL;
}

/* Differences that no record shows: which kernel of a name it is, and where addresses may come
 * from. NULL: there is none. */
static ph_status compare_unseen(const char **why, const ph_graph *graph,
                                const ph__record_node *node, const ph__record_node *other,
                                const char *call)
{
    ph__drv_pointer where = {.kind = PH__MEMORY_DEVICE};
    ph__drv_node_info info = {0}, theirs = {0};
    const ph__driver *driver = graph->device->driver;
    int result = PH__R_OK;
    *why = NULL;
    switch (node->info.kind) {
    case PH_NODE_KERNEL:
        if (node->kernel)
            break;
        result = driver->node_info(&info, node->handle);
        if (result == PH__R_OK)
            result = driver->node_info(&theirs, other->handle);
        if (info.code != theirs.code)
            *why = "it is another kernel of that name";
        break;
    case PH_NODE_MEMCPY:
        if (!node->kept[1].base)
            result = driver->pointer_info(&where, graph->device->handle, node->info.src);
        if (result == PH__R_OK && (where.kind != PH__MEMORY_DEVICE || node->kept[1].pinned))
            *why = "it reads host memory, which may hold addresses";
        /* fall through */
    case PH_NODE_MEMSET:
        if (result == PH__R_OK)
            result = driver->node_info(&info, node->handle);
        if (info.strided)
            *why = "it copies or fills rows, planes or an array, of which the record shows the "
                   "beginning alone";
        break;
    case PH_NODE_HOST:
        *why = "what a host function does nobody can see";
        break;
    case PH_NODE_GRAPH:
        *why = "a nested graph cannot be set";
        break;
    case PH_NODE_BATCH_MEM_OP:
    case PH_NODE_CONDITIONAL:
        *why = "what it does the record does not show";
        break;
    default:
        break;
    }
    return result == PH__R_OK
               ? PH_OK
               : ph__driver_fail(result, PH__NAME_POINTER_GET_ATTRIBUTE, "%s: node %zu (%s)", call,
                                 node->info.index, node->info.name);
}

bool ph__slot_is_captures(const ph_graph *graph, const ph_word *word)
{
    return word->internal ||
           (word->value && ph__graph_writes(graph, (const void *)(uintptr_t)word->value, 1));
}

bool ph__slot_is_pools(const ph_graph *graph, const ph_word *word)
{
    ph_pool_id id = ph__pool_id(graph->own->pool);
    return word->base && word->pool.first == id.first && word->pool.second == id.second;
}

bool ph__slot_is_same_place(const ph_word *mine, const ph_word *theirs)
{
    if (mine->base && theirs->base)
        return mine->value - (uintptr_t)mine->base == theirs->value - (uintptr_t)theirs->base;
    return (mine->value ^ theirs->value) % PH__SLOT_BLOCKS == 0;
}

size_t ph__slot_next_other(const void *a, const void *b, size_t bytes, size_t w, uint64_t lowest,
                           uint64_t span)
{
    size_t at = w * 8;
    for (; at + 32 <= bytes; at += 32) {
        const uint64_t v0 = ph__word_at(a, at), v1 = ph__word_at(a, at + 8),
                       v2 = ph__word_at(a, at + 16), v3 = ph__word_at(a, at + 24);
        if (((v0 ^ ph__word_at(b, at)) | (v1 ^ ph__word_at(b, at + 8)) |
             (v2 ^ ph__word_at(b, at + 16)) | (v3 ^ ph__word_at(b, at + 24))) != 0)
            break;
        if ((v0 | v1 | v2 | v3) >= lowest && /* else each is below */
            ((v0 - lowest < span) | (v1 - lowest < span) | (v2 - lowest < span) |
             (v3 - lowest < span)))
            break;
    }
    while (at + 8 <= bytes && ph__word_at(a, at) == ph__word_at(b, at) &&
           ph__word_at(a, at) - lowest >= span)
        at += 8;
    return at / 8;
}

bool ph__slot_walk_to(ph__slot_walk *walk, size_t w, ph__word_slot *slot)
{
    if (walk->words.kernel == NULL) { /* all have 8 bytes, but the last */
        walk->words.at = w * sizeof(uint64_t);
        walk->count = w;
    }
    for (; walk->count <= w; walk->count++)
        if (!ph__words_next(&walk->words, slot))
            return false;
    return true;
}

ph_status ph__slot_other_in(const char **why, const ph_graph *graph, const ph__record_node *mine,
                            const ph__record_node *theirs, const char *call)
{
    *why = other_in(mine, theirs);
    if (*why == NULL && !same_edges(mine, theirs))
        *why = "it depends on other nodes";
    return *why == NULL ? compare_unseen(why, graph, mine, theirs, call) : PH_OK;
}
