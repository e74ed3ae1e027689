/* SPDX-License-Identifier: MIT */
/* comm/work/order.h: the order of the collectives of a communicator, across streams. */
#ifndef PH_COMM_WORK_ORDER_H
#define PH_COMM_WORK_ORDER_H
#include "comm/work/work.h"

/* The stream's next work comes behind the last collective. */
ph_status ph__order_wait(ph_comm *comm, ph_stream *stream);
/* The stream's last work is the last collective. A failure is the communicator's, too. */
ph_status ph__order_note(ph_comm *comm, ph_stream *stream);
/* STATE: a group is open. */
ph_status ph__comm_fail_group(const char *call);
#endif
