/* SPDX-License-Identifier: MIT */
/* graph/locate/breadcrumbs.h: the breadcrumbs at the scopes of annotated captures. */
#ifndef PH_GRAPH_LOCATE_BREADCRUMBS_H
#define PH_GRAPH_LOCATE_BREADCRUMBS_H
#include "graph/locate/locate.h"

/* The value of ph__capture.scope in captures with breadcrumbs. */
ph_status ph__locate_scope(ph__capture *capture, ph_stream *stream,
                           const ph__annotation *annotation, bool begins, const char *call);
/* Logs that the innermost scopes of the thread, so many, were left open by a capture function. */
void ph__scopes_left(size_t count, const char *call);
/* The same as a failure, of a strict capture. */
ph_status ph__fail_scopes_left(size_t count, const char *call);
/* The path of the calling thread's scopes; "" for none, NULL: no host memory. */
char *ph__located_path(void);
#endif
