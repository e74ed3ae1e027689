/* SPDX-License-Identifier: MIT */
/* record/diff/match.h: which nodes of two records are the same. */
#ifndef PH_RECORD_DIFF_MATCH_H
#define PH_RECORD_DIFF_MATCH_H
#include "record/record.h"

/* there[i]: the node of b that node i of a is; back: the inverse; SIZE_MAX: none. false: no host
 * memory. */
bool ph__record_match(size_t *there, size_t *back, const ph_record *a, const ph_record *b,
                      size_t *steps);
#endif
