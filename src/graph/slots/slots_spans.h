/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_spans.h: the spans that slots are proved of. */
#ifndef PH_GRAPH_SLOTS_SLOTS_SPANS_H
#define PH_GRAPH_SLOTS_SLOTS_SPANS_H
#include <phonograph/slots.h>

/* ARGUMENT where spans overlap, a capture has not shifted one, or no capture shifted two by
 * distances that differ. */
ph_status ph__slot_check_spans(const ph_slot_span *spans, size_t count, size_t capture_count,
                               const char *call);
#endif
