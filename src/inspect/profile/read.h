/* SPDX-License-Identifier: MIT */
/* inspect/profile/read.h: the names of what a profile has. */
#ifndef PH_INSPECT_PROFILE_READ_H
#define PH_INSPECT_PROFILE_READ_H
#include <phonograph/inspect/profile.h>

/* "cupti" and so on; static storage. */
const char *ph__profile_source_name(ph_profile_source source);
#endif
