/* SPDX-License-Identifier: MIT */
/* comm/work/captured.h: the collectives of one capture. */
#ifndef PH_COMM_WORK_CAPTURED_H
#define PH_COMM_WORK_CAPTURED_H
#include "comm/work/work.h"
#include "graph/object/collectives.h"

/* The collectives of one communicator in a capture. */
typedef struct ph__captured_of {
    ph_comm *comm;               /* retained */
    PH__VEC(ph__operation) list; /* in the order of submission */
    uint64_t fingerprint;        /* of those in which all ranks do the same */
} ph__captured_of;

typedef struct ph__captured {
    ph__collectives base;
    PH__VEC(ph__captured_of) of;
    ph_event *last;       /* behind the last collective of the capture */
    uint64_t last_stream; /* the id of its stream; 0: there was none */
    bool compared;        /* with the captures of the other ranks */
    ph_error refusal;     /* status PH_OK: they fit together */
} ph__captured;

/* Gives the collectives of the graph's open capture, with a place for the communicator: made where
 * they are not there, and retained by the graph. *index: the place in `of`. */
ph_status ph__captured_need(ph__captured **out, size_t *index, ph_graph *graph, ph_comm *comm,
                            const char *call);
/* One more; there is room for it (ph__vec_reserve). */
void ph__captured_add(ph__captured_of *of, const ph__operation *operation);
#endif
