/* SPDX-License-Identifier: MIT */
/* record/extent.h: how much memory a node's kernel uses from an address on, as it was declared. */
#ifndef PH_RECORD_EXTENT_H
#define PH_RECORD_EXTENT_H
#include "record/record.h"

/* The ADDRESS parameter at that offset; NULL: there is none. */
const ph_param *ph__record_param(const ph__record_node *node, size_t offset);
/* The bytes that the node uses there. false: not declared, or more than there are addresses. */
bool ph__record_extent(uint64_t *out, const ph__record_node *node, const ph_param *param);
#endif
