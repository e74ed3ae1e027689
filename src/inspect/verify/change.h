/* SPDX-License-Identifier: MIT */
/* inspect/verify/change.h: nodes that differ from those of the second
 * capture, and how, in words. */
#ifndef PH_INSPECT_VERIFY_CHANGE_H
#define PH_INSPECT_VERIFY_CHANGE_H
#include "inspect/verify/verify.h"

/* The first node that has no counterpart of its kind, name and dependencies in the second
 * capture; SIZE_MAX: all have. same: there are as many. */
size_t ph__verify_first_change(bool *same, const ph__verify *verify);
/* Whether that node's parameters are others than in the second capture, or may be. */
bool ph__verify_is_changed(const ph__verify *verify, size_t node);

/* How the node differs from the second capture's. */
void ph__verify_add_change(const ph__verify *verify, size_t node);
/* The parameters of all nodes but that one that the second capture has else. SIZE_MAX: of all;
 * then the results are the same. */
void ph__verify_add_changes(const ph__verify *verify, size_t but);
#endif
