/* SPDX-License-Identifier: MIT */
/* comm/work/run.h: a collective, as a stream runs it. */
#ifndef PH_COMM_WORK_RUN_H
#define PH_COMM_WORK_RUN_H
#include <phonograph/kernel.h>

/* The host form of the kernels of all collectives. A failure is the communicator's, after which it
 * does nothing. */
void ph__collective_run(const ph_block_range *range, const void *args);
#endif
