/* SPDX-License-Identifier: MIT */
/* memory/plan/order.h: which nodes of a captured graph are ancestors of which.
 * - The nodes are divided into chains, each of whose nodes is an ancestor of the next. A node knows
 *   how far it is behind each chain (vector clocks).
 * - Time and memory: nodes x chains. There are about as many chains as the graph is wide. */
#ifndef PH_MEMORY_PLAN_ORDER_H
#define PH_MEMORY_PLAN_ORDER_H
#include "base/map.h"
#include "base/vec.h"
#include "driver/driver.h"

typedef struct ph__ordered_node {
    size_t first, count; /* its dependencies, in the order's */
    size_t row, width;   /* its clock, in the order's clocks */
    uint32_t chain, at;  /* its place; at is 1 for the first */
} ph__ordered_node;

/* Zero is empty. */
typedef struct ph__node_order {
    ph__map numbers; /* node -> its number + 1 */
    PH__VEC(ph__ordered_node) nodes;
    PH__VEC(size_t) dependencies; /* numbers */
    PH__VEC(uint32_t) clocks;
    PH__VEC(uint32_t) lasts; /* by chain: how many nodes it has */
} ph__node_order;

/* Adds the node and its ancestors. false: no host memory, the driver failed, or the clocks would
 * take more than 2^28 words. */
bool ph__node_order_add(ph__node_order *order, const ph__driver *driver, ph__drv_node *node);
/* The number of a node that was added. */
size_t ph__node_order_number(const ph__node_order *order, const ph__drv_node *node);
/* Whether the first is the second or an ancestor of it. */
bool ph__node_order_is_before(const ph__node_order *order, size_t first, size_t second);
void ph__node_order_free(ph__node_order *order);
#endif
