/* SPDX-License-Identifier: MIT */
/* record/order.h: the order of a record's nodes. */
#ifndef PH_RECORD_ORDER_H
#define PH_RECORD_ORDER_H
#include "record/build.h"

/* Each node behind those that it depends on. */
ph_status ph__build_order(ph__builder *b);
/* The place in `created` of what the node at `near` depends on. */
size_t ph__build_place_of(const ph__builder *b, size_t near, const ph__drv_node *node);
#endif
