/* SPDX-License-Identifier: MIT */
/* comm/work/submit.h: collectives go to a stream. */
#ifndef PH_COMM_WORK_SUBMIT_H
#define PH_COMM_WORK_SUBMIT_H
#include "comm/work/work.h"

/* Launches them, in this order, or has the stream's capture record them. A failure behind the first
 * launch is the communicator's. */
ph_status ph__collectives_submit(ph_comm *comm, ph_stream *stream, ph__collective_args *args,
                                 size_t count, const char *call);
/* Has the stream's capture, if it is in one, hold what of their memory pools of the communicator
 * have. */
ph_status ph__collectives_hold(ph_comm *comm, ph_stream *stream, const ph__collective_args *args,
                               size_t count);
#endif
