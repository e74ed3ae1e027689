/* SPDX-License-Identifier: MIT */
/* comm/object/channel.h: the channels of a communicator. */
#ifndef PH_COMM_OBJECT_CHANNEL_H
#define PH_COMM_OBJECT_CHANNEL_H
#include "comm/object/comm.h"

/* One whose making may be under way, after a failure, is left to the engine. */
ph_status ph__channel_open(ph_comm *comm, ph__comm_channel *channel, uint64_t deadline,
                           const char *call);
void ph__channel_close(ph_comm *comm, ph__comm_channel *channel);
/* Every rank shows its seat to the others, through the control channel. */
ph_status ph__channel_join_board(ph_comm *comm, ph__operation *create, uint64_t deadline,
                                 const char *call);
#endif
