/* SPDX-License-Identifier: MIT */
/* inspect/profile/scopes.h: the scopes of a profile. */
#ifndef PH_INSPECT_PROFILE_SCOPES_H
#define PH_INSPECT_PROFILE_SCOPES_H
#include "inspect/profile/profile.h"

/* collect: which scope each node is of; sum: what they took; false:
 * no host memory. */
bool ph__profile_collect_scopes(ph_profile *profile, const ph_record *record);
bool ph__profile_sum_scopes(ph_profile *profile);
void ph__profile_free_scopes(ph_profile *profile);
#endif
