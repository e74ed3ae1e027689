/* SPDX-License-Identifier: MIT */
/* graph/change/template_same.c: whether two reads of a template show the same nodes. */
#include "graph/change/template_same.h"
#include "graph/object/graph.h"
#include <string.h>

static bool same_bytes(const void *a, const void *b, size_t bytes)
{
    return bytes == 0 || (a && b ? memcmp(a, b, bytes) == 0 : a == b);
}

static bool same_links(const ph__drv_node_info *a, const ph__drv_node_info *b,
                       const ph__driver *driver)
{
    bool same = a->dependency_count == b->dependency_count;
    for (size_t i = 0; same && i < a->dependency_count; i++) {
        ph_edge_kind mine = a->dependency_kinds ? a->dependency_kinds[i] : PH_EDGE_FULL,
                     theirs = b->dependency_kinds ? b->dependency_kinds[i] : PH_EDGE_FULL;
        same = mine == theirs &&
               driver->node_native(a->dependencies[i]) == driver->node_native(b->dependencies[i]);
    }
    return same;
}

static bool same_launch(const ph__drv_node_info *a, const ph__drv_node_info *b)
{
    return a->code == b->code && a->args_size == b->args_size &&
           memcmp(a->launch.grid, b->launch.grid, sizeof a->launch.grid) == 0 &&
           memcmp(a->launch.block, b->launch.block, sizeof a->launch.block) == 0 &&
           a->launch.shared_bytes == b->launch.shared_bytes &&
           same_bytes(a->launch.args, b->launch.args, a->args_size);
}

static bool same_work(const ph__drv_node_info *a, const ph__drv_node_info *b,
                      const ph__driver *driver)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case PH_NODE_KERNEL:
        return same_launch(a, b);
    case PH_NODE_MEMCPY:
        return a->copy.dst == b->copy.dst && a->copy.src == b->copy.src &&
               a->copy.bytes == b->copy.bytes;
    case PH_NODE_MEMSET:
        return a->fill.dst == b->fill.dst && a->fill.value == b->fill.value &&
               a->fill.value_size == b->fill.value_size && a->fill.count == b->fill.count;
    case PH_NODE_HOST:
        return a->host.fn == b->host.fn && a->host.user == b->host.user;
    case PH_NODE_GRAPH:
        return (a->body == NULL) == (b->body == NULL) &&
               (a->body == NULL || ph__template_same(a->body, b->body, driver));
    case PH_NODE_BATCH_MEM_OP:
        return a->op_count == b->op_count &&
               same_bytes(a->op_addresses, b->op_addresses, a->op_count * sizeof *a->op_addresses);
    default:
        return a->memory == b->memory && a->memory_bytes == b->memory_bytes;
    }
}

bool ph__template_same(ph__drv_graph *a, ph__drv_graph *b, const ph__driver *driver)
{
    ph__drv_node *const *mine, *const *theirs;
    size_t count = 0, others = 0;
    bool same = driver->graph_nodes(&mine, &count, a) == PH__R_OK &&
                driver->graph_nodes(&theirs, &others, b) == PH__R_OK && count == others;
    for (size_t i = 0; same && i < count; i++) {
        ph__drv_node_info one, two;
        same = driver->node_native(mine[i]) == driver->node_native(theirs[i]) &&
               driver->node_info(&one, mine[i]) == PH__R_OK &&
               driver->node_info(&two, theirs[i]) == PH__R_OK && same_links(&one, &two, driver) &&
               same_work(&one, &two, driver);
    }
    return same;
}
