/* SPDX-License-Identifier: MIT */
/* inspect/profile/analyse.h: what the times of nodes say. */
#ifndef PH_INSPECT_PROFILE_ANALYSE_H
#define PH_INSPECT_PROFILE_ANALYSE_H
#include "inspect/profile/profile.h"

/* Fill the nodes and the summary; false: no host memory. */
bool ph__profile_acquire_times(ph_profile *profile, const ph__profile_times *times);
bool ph__profile_find_critical(ph_profile *profile);
bool ph__profile_find_lanes(ph_profile *profile); /* and idle times, in one walk */
#endif
