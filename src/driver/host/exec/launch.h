/* SPDX-License-Identifier: MIT */
/* driver/host/exec/launch.h: launches of an executable. */
#ifndef PH_DRIVER_HOST_EXEC_LAUNCH_H
#define PH_DRIVER_HOST_EXEC_LAUNCH_H
#include "driver/host/exec/exec.h"

/* A launch for the executable, NULL when out of memory. Under its lock, or before anybody else has
 * the executable. */
ph__exec_launch *ph__exec_launch_acquire(ph__host_exec *exec);
/* For good. Takes NULL. */
void ph__exec_launch_free(ph__exec_launch *launch);
#endif
