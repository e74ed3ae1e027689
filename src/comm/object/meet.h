/* SPDX-License-Identifier: MIT */
/* comm/object/meet.h: all ranks come to the same operation. */
#ifndef PH_COMM_OBJECT_MEET_H
#define PH_COMM_OBJECT_MEET_H
#include "comm/object/comm.h"

/* Numbers the operation, tells it to all ranks, and waits for theirs. MISMATCH, and the
 * communicator has failed, on all ranks alike: some rank came to another one. */
ph_status ph__comm_meet(ph_comm *comm, ph__comm_channel *channel, ph__operation *mine,
                        uint64_t deadline);
#endif
