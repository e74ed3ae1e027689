/* SPDX-License-Identifier: MIT */
/* driver/host/exec/event_node.h: the event nodes of a launch. */
#ifndef PH_DRIVER_HOST_EXEC_EVENT_NODE_H
#define PH_DRIVER_HOST_EXEC_EVENT_NODE_H
#include "driver/host/exec/exec.h"

/* All but the two functions at the end: under the executable's lock. */
/* Binds what the launch waits for and makes what it will signal: 0, or 2 and nothing is held. */
int ph__exec_acquire_markers(ph__exec_launch *launch, ph__host_stream *stream);
void ph__exec_drop_markers(ph__exec_launch *launch);
/* From now on the events stand for this launch. */
void ph__exec_install_records(const ph__exec_launch *launch);

/* The functions of an EVENT_RECORD and an EVENT_WAIT node. */
void ph__host_event_record_fn(const ph_block_range *range, const void *args);
void ph__host_event_wait_fn(const ph_block_range *range, const void *args);
#endif
