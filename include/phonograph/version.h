/* SPDX-License-Identifier: MIT */
/* phonograph/version.h: the version of these headers, and of the loaded library. */
#ifndef PHONOGRAPH_VERSION_H
#define PHONOGRAPH_VERSION_H
#include <phonograph/export.h>

#define PH_VERSION_MAJOR 0
#define PH_VERSION_MINOR 1
#define PH_VERSION_PATCH 0

PH_BEGIN_DECLS
/* "0.1.0", of the loaded library. Static storage. */
PH_API const char *ph_version(void);
PH_END_DECLS
#endif
