/* SPDX-License-Identifier: MIT */
/* inspect/profile/make.h: a profile, made of times. */
#ifndef PH_INSPECT_PROFILE_MAKE_H
#define PH_INSPECT_PROFILE_MAKE_H
#include "inspect/profile/profile.h"

/* The times are read, not kept. */
ph_status ph__profile_make(ph_profile **out, const ph_record *record,
                           const ph__profile_times *times, ph_profile_source source,
                           const char *call);
#endif
