/* SPDX-License-Identifier: MIT */
/* comm/object/wait.h: waiting for transfers, with a deadline. */
#ifndef PH_COMM_OBJECT_WAIT_H
#define PH_COMM_OBJECT_WAIT_H
#include "comm/object/comm.h"

/* Waits for a transfer that a call of the engine started with this result, until a moment of
 * ph__now_ns. For failures: `what` this rank does. A failure is the communicator's. */
ph_status ph__comm_wait(ph_comm *comm, int started, ph__transfer *transfer, uint64_t deadline,
                        const ph__operation *what);
/* `timeout_ns` from now. */
uint64_t ph__comm_deadline(uint64_t timeout_ns);
/* One step of a wait that the caller makes itself: a short sleep; a failure where nobody should
 * wait any longer. round: counted from 0. No transfer of the engine is waited for. */
ph_status ph__comm_pause(ph_comm *comm, unsigned round, uint64_t deadline,
                         const ph__operation *what);
/* The same, for transfers of the engine: they stay under way after a failure, and the engine is
 * given up. */
ph_status ph__comm_pause_transfer(ph_comm *comm, unsigned round, uint64_t deadline,
                                  const ph__operation *what);
/* A call of the engine has failed. */
ph_status ph__comm_fail_engine(ph_comm *comm, const ph__operation *what);
/* The engine is given up, in all of the process. */
ph_status ph__comm_give_up(ph_comm *comm, const char *format, ...) PH_PRINTF(2, 3);
#endif
