/* SPDX-License-Identifier: MIT */
/* record/read.h: the names of what a record has. */
#ifndef PH_RECORD_READ_H
#define PH_RECORD_READ_H
#include <phonograph/inspect/record.h>

const char *ph__edge_kind_name(ph_edge_kind kind);
#endif
