/* SPDX-License-Identifier: MIT */
/* cache/serve.h: calls that are done with the graphs that there are. */
#ifndef PH_CACHE_SERVE_H
#define PH_CACHE_SERVE_H
#include "cache/visit.h"

typedef enum ph__served {
    PH__SERVED,  /* the status is that of the call */
    PH__CAPTURE, /* the body has to be captured: ph__serve_capture */
    PH__EAGER,   /* the body has to run as it is; result.reason says why */
    PH__RECORD,  /* the stream is capturing */
    PH__MISSED   /* nothing was done */
} ph__served;

/* With what there is: replays, if the executable can be set as the call wants it. */
ph__served ph__serve_replay(ph_status *status, ph__visit *visit);
/* With the entry locked: replays a graph of its, with the values if there are any; the key's graph
 * with what the last look has found. */
ph_status ph__serve_graph(ph__visit *visit, ph_graph *graph, const ph_slot_value *values,
                          size_t count);
/* False: the capture around the call has memory of the cache's pool that the graph would write
 * over. *status: of the question whether there is a capture. */
bool ph__serve_may_nest(ph_status *status, ph__visit *visit, const ph_graph *graph);
ph__served ph__serve_learned(ph_status *status, ph__visit *visit);
/* Behind a replay of the graph, with the entry locked: a graph whose replay was refused before its
 * launch goes, and is captured again at a later call, but not for ever. */
ph__served ph__served_or_dropped(ph_status *status, ph__visit *visit, const ph_graph *graph);
#endif
