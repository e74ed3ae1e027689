/* SPDX-License-Identifier: MIT */
/* inspect/profile/segments.h: the profile of a graph with breaks. */
#ifndef PH_INSPECT_PROFILE_SEGMENTS_H
#define PH_INSPECT_PROFILE_SEGMENTS_H
#include "graph/object/segments.h"
#include <phonograph/inspect/profile.h>

/* The graph, the stream and the options were checked; zeros of the options are replaced. */
ph_status ph__profile_segments(ph_profile **out, ph_graph *graph, ph_stream *stream,
                               const ph_profile_options *options, const char *call);
#endif
