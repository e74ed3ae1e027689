/* SPDX-License-Identifier: MIT */
/* record/order.c: the order of a record's nodes: each behind those that it depends on, otherwise
 * as they were created. */
#include "record/order.h"
#include "record/build.h"

/* The place of what the node at `near` depends on: mostly the one before it. */
size_t ph__build_place_of(const ph__builder *b, size_t near, const ph__drv_node *node)
{
    if (near > 0 && b->created[near - 1] == node)
        return near - 1;
    return (size_t)(uintptr_t)ph__map_get(&b->position, (uint64_t)(uintptr_t)node) - 1;
}

static bool is_chain(const ph__builder *b)
{
    for (size_t i = 0; i < b->count; i++)
        if (b->infos[i].dependency_count > 1 ||
            (b->infos[i].dependency_count == 1 &&
             (i == 0 || b->infos[i].dependencies[0] != b->created[i - 1])))
            return false;
    return true;
}

/* Of a chain none needs to be looked up. */
static ph_status map_nodes(ph__builder *b)
{
    if (is_chain(b))
        return PH_OK;
    if (!ph__map_reserve(&b->position, b->count))
        return ph__fail_host_memory(b->call, "the record of the captured graph");
    for (size_t i = 0; i < b->count; i++)
        ph__map_put(&b->position, (uint64_t)(uintptr_t)b->created[i], (void *)(uintptr_t)(i + 1));
    return PH_OK;
}

/* Adds to the order each node whose dependencies are in it already, until a round adds none.
 * Captures create nodes after their dependencies, so one round is the rule. */
static ph_status sort_nodes(ph__builder *b)
{
    size_t placed = 0, before;
    for (size_t i = 0; i < b->count; i++)
        b->index[i] = SIZE_MAX;
    do {
        before = placed;
        for (size_t i = 0; i < b->count; i++) {
            const ph__drv_node_info *info = &b->infos[i];
            bool ready = b->index[i] == SIZE_MAX;
            if (!ready)
                continue;
            for (size_t d = 0; d < info->dependency_count; d++)
                ready =
                    ready && b->index[ph__build_place_of(b, i, info->dependencies[d])] != SIZE_MAX;
            if (!ready)
                continue;
            b->index[i] = placed;
            b->order[placed++] = i;
        }
    } while (placed > before && placed < b->count);
    return placed == b->count
               ? PH_OK
               : ph_fail(PH_ERROR_DEVICE, "%s: the captured graph's dependencies form a cycle",
                         b->call);
}

ph_status ph__build_order(ph__builder *b)
{
    PH_TRY(map_nodes(b));
    return sort_nodes(b);
}
