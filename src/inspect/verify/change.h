/* SPDX-License-Identifier: MIT */
/* inspect/verify/change.h: nodes that differ from those of the second
 * capture, and how, in words. */
#ifndef PH_INSPECT_VERIFY_CHANGE_H
#define PH_INSPECT_VERIFY_CHANGE_H
#include "inspect/verify/verify.h"

/* The first node that has no counterpart of its kind, name and dependencies in the second
 * capture; SIZE_MAX: all have. same: there are as many. */
size_t ph__verify_first_change(bool *same, const ph__verify *verify);
/* Whether the second capture has other nodes or edges; the kinds of change that are such. */
bool ph__verify_has_other_nodes(const ph__verify *verify);
bool ph__verify_is_structural(ph_change_kind kind);
/* Whether it has the same nodes, and parameters that ph__verify_add_changes would name. */
bool ph__verify_has_other_parameters(const ph__verify *verify);
/* Whether that node's parameters are others than in the second capture, or may be. */
bool ph__verify_is_changed(const ph__verify *verify, size_t node);

/* How the node differs from the second capture's. */
void ph__verify_add_change(const ph__verify *verify, size_t node);
/* The parameters of all nodes but that one that the second capture has else. SIZE_MAX: of all;
 * then the graph gives what an eager run gives, and second_gives is said. */
void ph__verify_add_changes(const ph__verify *verify, size_t but);
#endif
