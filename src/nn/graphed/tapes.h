/* SPDX-License-Identifier: MIT */
/* nn/graphed/tapes.h: the tapes of a set's captures. */
#ifndef PH_NN_GRAPHED_TAPES_H
#define PH_NN_GRAPHED_TAPES_H
#include "nn/graphed/callable.h"

/* As the options of the set say. */
ph_status ph__set_make_tape(ph_tape **out, const ph__graphed_set *set);
/* One tape for all probes of a set: of memory that they share its stream's use is noted once.
 * renew: behind a probe, for the next one, as if it had just been made. drop: when the probes are
 * over, or one failed. */
ph_status ph__set_probe_tape(ph_tape **out, ph__graphed_set *set);
void ph__set_renew_probe_tape(ph__graphed_set *set);
void ph__set_drop_probe_tape(ph__graphed_set *set);
#endif
