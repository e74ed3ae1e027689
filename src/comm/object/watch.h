/* SPDX-License-Identifier: MIT */
/* comm/object/watch.h: the thread that watches a communicator of GPUs. */
#ifndef PH_COMM_OBJECT_WATCH_H
#define PH_COMM_OBJECT_WATCH_H
#include "comm/object/comm.h"

/* False: no thread. */
bool ph__gpu_watch(ph_comm *comm);
void ph__gpu_watch_end(ph_comm *comm);
/* Compares logs: a difference is the communicator's failure. */
void ph__gpu_check(ph_comm *comm);
#endif
