/* SPDX-License-Identifier: MIT */
/* graph/capture/debug.h: what the switches of the environment do to captures. */
#ifndef PH_GRAPH_CAPTURE_DEBUG_H
#define PH_GRAPH_CAPTURE_DEBUG_H
#include <phonograph/graph.h>

/* The options with what PH_DEBUG adds to them: *room, or options itself where it adds nothing.
 * ARGUMENT: PH_DEBUG cannot be read. */
ph_status ph__debug_options(const ph_capture_options **out, ph_capture_options *room,
                            const ph_capture_options *options, bool imported, const char *call);
/* The record into the folder that PH_DEBUG_RECORD names; a file that cannot be written is a
 * warning. */
void ph__debug_record(ph_graph *graph, const char *call);
#endif
