/* SPDX-License-Identifier: MIT */
/* nn/parallel/check.h: what must hold before a pass, and before other
 * collectives of the network. */
#ifndef PH_NN_PARALLEL_CHECK_H
#define PH_NN_PARALLEL_CHECK_H
#include "nn/parallel/parallel.h"

/* False: the tape has failed. */
bool ph__parallel_pass_check(ph_tape *tape, const ph_data_parallel *parallel, const char *call);
/* STATE: a group is open. The results of its collectives come at its end alone. */
ph_status ph__parallel_check_group(const ph_comm *comm, const char *call);
#endif
