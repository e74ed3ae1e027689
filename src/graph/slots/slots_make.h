/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_make.h: scalar slots by places. */
#ifndef PH_GRAPH_SLOTS_SLOTS_MAKE_H
#define PH_GRAPH_SLOTS_SLOTS_MAKE_H
#include <phonograph/status.h>
#include <stddef.h>

/* Scalar slots: ARGUMENT where a value cannot have as many bytes. */
ph_status ph__slot_check_scalar(size_t bytes, const char *call);
#endif
