/* SPDX-License-Identifier: MIT */
/* comm/object/mixing.h: whether the process mixes captured and eager collectives. */
#ifndef PH_COMM_OBJECT_MIXING_H
#define PH_COMM_OBJECT_MIXING_H
#include "comm/object/comm.h"

/* A communicator is about to be made: the answer holds for the rest of the process. */
bool ph__mixing_is_forbidden(void);
/* STATE: an eager collective beside captured ones, which the process has forbidden. */
ph_status ph__mixing_check(const ph_comm *comm, const char *call);
#endif
