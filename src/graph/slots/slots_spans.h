/* SPDX-License-Identifier: MIT */
/* graph/slots/slots_spans.h: the spans that slots are proved of. */
#ifndef PH_GRAPH_SLOTS_SLOTS_SPANS_H
#define PH_GRAPH_SLOTS_SLOTS_SPANS_H
#include <phonograph/slots.h>

/* ARGUMENT where spans overlap, one leaves its allocation, or a capture has not shifted one. */
ph_status ph__slot_check_spans(const ph_graph *graph, const ph_slot_span *spans, size_t count,
                               size_t capture_count, const char *call);

/* Of spans that were checked. The first one that every capture has shifted by the distance of span
 * i, which may be i: words of the two cannot be told apart. */
size_t ph__slot_span_lead(const ph_slot_span *spans, size_t i, size_t capture_count);
/* The alignment that the slot may accept: of addresses that differ from the captured one in no bit
 * that stayed the same. 0: there is no such alignment; same_bits says why, and else NULL. */
size_t ph__slot_span_alignment(const ph_slot_span *span, size_t capture_count);
const char *ph__slot_span_same_bits(const ph_slot_span *span, size_t capture_count, char *text,
                                    size_t size);
/* Where all of them lie, as captured and as that capture has them: [*lowest, *highest), empty where
 * there is none. */
void ph__slot_spans_window(uint64_t *lowest, uint64_t *highest, const ph_slot_span *spans,
                           size_t count, size_t capture);
#endif
