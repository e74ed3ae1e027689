/* SPDX-License-Identifier: MIT */
/* memory/plan/order.c: which nodes of a captured graph are ancestors of which. */
#include "memory/plan/order.h"

#define CLOCK_WORDS ((size_t)1 << 28)

/* A step of the search: a node that is to be discovered, or one whose ancestors are done. */
typedef struct step {
    ph__drv_node *node;
    size_t number;
    bool discovered;
} step;
typedef PH__VEC(step) step_list;

/* ---- clocks ---- */
static bool is_behind_all_of(const ph__node_order *order, const ph__ordered_node *node,
                             size_t chain)
{
    return chain < node->width && order->clocks.at[node->row + chain] == order->lasts.at[chain];
}

/* The clock of its dependencies, each of which has one. */
static bool merge_clocks(ph__node_order *order, ph__ordered_node *node)
{
    size_t chains = order->lasts.count;
    if (order->clocks.count > CLOCK_WORDS - chains - 1 ||
        !ph__vec_reserve(&order->clocks, chains + 1))
        return false;
    uint32_t *row = &order->clocks.at[order->clocks.count];
    node->row = order->clocks.count;
    node->width = chains;
    for (size_t i = 0; i < chains; i++)
        row[i] = 0;
    for (size_t d = 0; d < node->count; d++) {
        const ph__ordered_node *before = &order->nodes.at[order->dependencies.at[node->first + d]];
        for (size_t i = 0; i < before->width; i++)
            if (row[i] < order->clocks.at[before->row + i])
                row[i] = order->clocks.at[before->row + i];
    }
    return true;
}

static bool place_node(ph__node_order *order, size_t number)
{
    ph__ordered_node *node = &order->nodes.at[number];
    if (!merge_clocks(order, node))
        return false;
    size_t chain = 0;
    while (chain < order->lasts.count && !is_behind_all_of(order, node, chain))
        chain++;
    if (chain == order->lasts.count) {
        if (!ph__vec_push(&order->lasts, 0))
            return false;
        order->clocks.at[node->row + node->width++] = 0;
    }
    node->chain = (uint32_t)chain;
    node->at = ++order->lasts.at[chain];
    order->clocks.at[node->row + chain] = node->at;
    order->clocks.count += node->width;
    return true;
}

/* ---- the search ---- */
/* Numbers the node, and puts its dependencies before it. */
static bool discover_node(ph__node_order *order, step_list *steps, const ph__driver *driver,
                          ph__drv_node *node)
{
    ph__drv_node_info info;
    size_t number = order->nodes.count;
    ph__ordered_node fresh = {.first = order->dependencies.count};
    if (!ph__map_put(&order->numbers, (uintptr_t)node, (void *)(uintptr_t)(number + 1)) ||
        driver->node_info(&info, node) != PH__R_OK || !ph__vec_push(&order->nodes, fresh) ||
        !ph__vec_reserve(steps, info.dependency_count + 1))
        return false;
    steps->at[steps->count++] = (step){node, number, true};
    for (size_t i = 0; i < info.dependency_count; i++)
        steps->at[steps->count++] = (step){.node = info.dependencies[i]};
    return true;
}

/* The numbers of its dependencies, which are there by now. */
static bool number_dependencies(ph__node_order *order, const ph__driver *driver, const step *at)
{
    ph__drv_node_info info;
    ph__ordered_node *node = &order->nodes.at[at->number];
    node->first = order->dependencies.count;
    if (driver->node_info(&info, at->node) != PH__R_OK ||
        !ph__vec_reserve(&order->dependencies, info.dependency_count))
        return false;
    for (size_t i = 0; i < info.dependency_count; i++)
        order->dependencies.at[order->dependencies.count++] =
            ph__node_order_number(order, info.dependencies[i]);
    node->count = info.dependency_count;
    return true;
}

bool ph__node_order_add(ph__node_order *order, const ph__driver *driver, ph__drv_node *node)
{
    step_list steps = {0};
    bool ok = ph__vec_push(&steps, ((step){.node = node}));
    while (ok && steps.count > 0) {
        step at = steps.at[--steps.count];
        if (at.discovered)
            ok = number_dependencies(order, driver, &at) && place_node(order, at.number);
        else if (!ph__map_get(&order->numbers, (uintptr_t)at.node))
            ok = discover_node(order, &steps, driver, at.node);
    }
    ph__vec_free(&steps);
    return ok;
}

size_t ph__node_order_number(const ph__node_order *order, const ph__drv_node *node)
{
    return (size_t)(uintptr_t)ph__map_get(&order->numbers, (uintptr_t)node) - 1;
}

bool ph__node_order_is_before(const ph__node_order *order, size_t first, size_t second)
{
    const ph__ordered_node *a = &order->nodes.at[first], *b = &order->nodes.at[second];
    return a->chain < b->width && order->clocks.at[b->row + a->chain] >= a->at;
}

void ph__node_order_free(ph__node_order *order)
{
    ph__map_free(&order->numbers);
    ph__vec_free(&order->nodes);
    ph__vec_free(&order->dependencies);
    ph__vec_free(&order->clocks);
    ph__vec_free(&order->lasts);
}
