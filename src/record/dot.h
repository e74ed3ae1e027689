/* SPDX-License-Identifier: MIT */
/* record/dot.h: a record as DOT, for Graphviz. */
#ifndef PH_RECORD_DOT_H
#define PH_RECORD_DOT_H
#include "base/text.h"
#include "record/record.h"

/* Into a text whose failure the caller checks. */
void ph__record_to_dot(ph__text *text, const ph_record *record, bool verbose);
#endif
