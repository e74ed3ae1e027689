/* SPDX-License-Identifier: MIT */
/* record/fill.h: the contents of a record's nodes. */
#ifndef PH_RECORD_FILL_H
#define PH_RECORD_FILL_H
#include "record/build.h"

/* Writes the nodes, when there is room for them. */
ph_status ph__build_fill(ph__builder *b);
#endif
