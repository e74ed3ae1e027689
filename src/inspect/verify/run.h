/* SPDX-License-Identifier: MIT */
/* inspect/verify/run.h: runs of the body and of the graph, all or in parts. */
#ifndef PH_INSPECT_VERIFY_RUN_H
#define PH_INSPECT_VERIFY_RUN_H
#include "inspect/verify/verify.h"

/* Each from `start` and that poison. */
ph_status ph__verify_capture(ph__verify *verify);
ph_status ph__verify_eager(ph__verify *verify, ph__image *to);
ph_status ph__verify_replay(ph__verify *verify, ph__image *to, ph__poison_pattern poison);
ph_status ph__verify_replay_second(ph__verify *verify, ph__image *to);
/* The first `count` nodes at once; then, where then_rest, the others one after another. */
ph_status ph__verify_part(ph__verify *verify, ph__switches *switches, size_t count, bool then_rest,
                          ph__poison_pattern poison, ph__image *to);
/* All of them, one after another, in that order. */
ph_status ph__verify_in_order(ph__verify *verify, ph__switches *switches, const size_t *order,
                              ph__image *to);
ph_status ph__switches_make(ph__switches *switches, ph_graph *graph, const char *call);
/* As it was. Tries all of them. */
ph_status ph__switches_restore(ph__switches *switches, const char *call);
void ph__switches_free(ph__switches *switches);
#endif
