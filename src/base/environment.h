/* SPDX-License-Identifier: MIT */
/* base/environment.h: variables of the environment that name what is loaded, read or written: a
 * library, a folder, a tool. */
#ifndef PH_BASE_ENVIRONMENT_H
#define PH_BASE_ENVIRONMENT_H
#include <stdbool.h>

/* The variable's value, borrowed from the environment; NULL: not set. NULL also where the program
 * runs with more rights than whoever started it (set-uid, set-gid, file capabilities: AT_SECURE): a
 * path that they chose would be code of theirs with those rights. The library reads such variables
 * here alone. */
const char *ph__environment(const char *name);

/* For tests: as if the program ran so. */
void ph__environment_distrust(bool on);
#endif
