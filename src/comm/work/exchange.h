/* SPDX-License-Identifier: MIT */
/* comm/work/exchange.h: sends and receives, as a stream runs them. */
#ifndef PH_COMM_WORK_EXCHANGE_H
#define PH_COMM_WORK_EXCHANGE_H
#include "comm/work/work.h"

/* Begins a send or a receive. */
ph_status ph__exchange_begin(ph_comm *comm, const ph__collective_args *args);
/* Waits for all that have begun. */
ph_status ph__exchange_finish(ph_comm *comm, uint64_t deadline);
#endif
