/* SPDX-License-Identifier: MIT */
/* base/version.c: the version as text. */
#include <phonograph/version.h>

#define TEXT_OF(number)              #number
#define VERSION(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *ph_version(void)
{
    return VERSION(PH_VERSION_MAJOR, PH_VERSION_MINOR, PH_VERSION_PATCH);
}
