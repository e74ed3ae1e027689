/* SPDX-License-Identifier: MIT */
/* record/diff/rules.h: the rules of updates, for records. */
#ifndef PH_RECORD_DIFF_RULES_H
#define PH_RECORD_DIFF_RULES_H
#include "record/record.h"
#include <phonograph/inspect/diff.h>

/* The rule that keeps a node of an executable from becoming another; NULL: it may. Bodies
 * and dependencies apart. */
const char *ph__rule_of_pair(const ph__record_node *a, const ph__record_node *b);
/* Whether an executable of a could take b's parameters, as far as records tell: nodes are paired
 * by their numbers. */
bool ph__record_fits(const ph_record *a, const ph_record *b);
extern const char ph__rule_count[], ph__rule_order[], ph__rule_edges[], ph__rule_kind[];

/* In words. */
const char *ph__update_rule(ph_update_reason reason);
#endif
