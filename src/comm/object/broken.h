/* SPDX-License-Identifier: MIT */
/* comm/object/broken.h: the failure of a communicator, which it keeps. */
#ifndef PH_COMM_OBJECT_BROKEN_H
#define PH_COMM_OBJECT_BROKEN_H
#include "comm/object/comm.h"

/* The communicator has failed with this, unless it had before: then the earlier failure stays. Sets
 * the calling thread's record to the failure that it has, and returns its status. */
ph_status ph__comm_break(ph_comm *comm, ph_status status, const char *format, ...) PH_PRINTF(3, 4);
/* The failure, with the record set; PH_OK: there is none. */
ph_status ph__comm_failure(const ph_comm *comm, const char *call);
#endif
