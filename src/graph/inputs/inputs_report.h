/* SPDX-License-Identifier: MIT */
/* graph/inputs/inputs_report.h: what is said of dead inputs. */
#ifndef PH_GRAPH_INPUTS_INPUTS_REPORT_H
#define PH_GRAPH_INPUTS_INPUTS_REPORT_H
#include "graph/object/graph.h"

/* Dead inputs: the first five, and how many there are. */
enum {
    PH__DEAD_LISTED = 5
};
typedef struct ph__dead {
    size_t count;
    ph__input at[PH__DEAD_LISTED];
} ph__dead;
/* Each dead allocation counts once, however many words address it, as far as the list reaches. */
void ph__dead_add(ph__dead *dead, const ph__input *input);
/* refused: for their sake. */
ph_status ph__fail_stale(ph_graph *graph, const ph__dead *dead, bool refused, const char *call);
/* Already at the capture's end. */
void ph__warn_stale(ph_graph *graph, const ph__dead *dead, const char *call);
void ph__warn_suspected(ph_graph *graph, ph__input *input, const char *call);
#endif
