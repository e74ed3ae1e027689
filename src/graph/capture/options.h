/* SPDX-License-Identifier: MIT */
/* graph/capture/options.h: the options that a capture and an import share. */
#ifndef PH_GRAPH_CAPTURE_OPTIONS_H
#define PH_GRAPH_CAPTURE_OPTIONS_H
#include <phonograph/graph.h>

/* Checks the options that a capture and an import share. */
ph_status ph__graph_check_options(const ph_capture_options *options, const char *call);
#endif
