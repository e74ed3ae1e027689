/* SPDX-License-Identifier: MIT */
/* driver/host/exec/changes.h: changes of parameters on their way to the image of a launch. */
#ifndef PH_DRIVER_HOST_EXEC_CHANGES_H
#define PH_DRIVER_HOST_EXEC_CHANGES_H
#include "driver/host/exec/exec.h"

/* All under the executable's lock. */

/* The parameters' slot of that index has changed. */
void ph__exec_note(ph__host_exec *exec, size_t index);
/* Puts another image and other parameters in place; what they replace is freed, an
 * image in flight by its last launch. */
void ph__exec_replace(ph__host_exec *exec, ph__exec_params *params, ph__exec_image *image);
/* Where the parameters have changes: the image of this launch, and which of them it is still to be
 * given. False: out of memory. */
bool ph__exec_prepare_image(ph__host_exec *exec, ph__exec_launch *launch);
#endif
