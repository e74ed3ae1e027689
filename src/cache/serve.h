/* SPDX-License-Identifier: MIT */
/* cache/serve.h: the ways of doing a call with graphs. */
#ifndef PH_CACHE_SERVE_H
#define PH_CACHE_SERVE_H
#include "cache/cache.h"

/* One call of ph_graph_cache_run. */
typedef struct ph__visit {
    ph_graph_cache *cache;
    ph__cache_entry *entry; /* with this user; NULL: none is needed so far */
    ph_stream *stream;
    const ph_graph_cache_call *call;
    ph_graph_cache_result *result;
    bool capturing; /* the cache's captures are its */
    bool launch;    /* false: everything but replays (ph_graph_cache_prepare) */
    bool asks;      /* the stream may be capturing, which only the driver knows */
} ph__visit;

typedef enum ph__served {
    PH__SERVED,  /* the status is that of the call */
    PH__CAPTURE, /* the body has to be captured: ph__serve_capture */
    PH__EAGER,   /* the body has to run as it is; result.reason says why */
    PH__RECORD,  /* the stream is capturing */
    PH__MISSED   /* nothing was done */
} ph__served;

/* With what there is: replays, if the executable can be set as the call wants it. */
ph__served ph__serve_replay(ph_status *status, ph__visit *visit);
/* Behind a replay of the graph, with the entry locked: a graph whose replay was refused before its
 * launch goes, and is captured again at a later call, but not for ever. */
ph__served ph__served_or_dropped(ph_status *status, ph__visit *visit, const ph_graph *graph);
/* Captures the body: the key's first graph, one to learn from, or one to update from. */
ph__served ph__serve_capture(ph_status *status, ph__visit *visit);
/* Lets go of what the visit has, also where the body was left by an exception. */
void ph__visit_end(ph__visit *visit);
#endif
